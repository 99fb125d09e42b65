//! A watchdog for steps of the machine that never return: the one fault that a run cannot report itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of threads that can be watched.
pub const THREADS_MAX: usize = 64;
/// The time after which a step counts as endless: an ordinary one takes microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

static BEATS: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(0) }; THREADS_MAX];
static RUNS: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(IDLE) }; THREADS_MAX];
const IDLE: u64 = u64::MAX;

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Begins a run on this thread, which is number `number`.
pub fn begin(number: usize, run: u64) {
    MINE.set(number);
    beat();
    RUNS[number].store(run, Ordering::Relaxed);
}

/// Ends the run of this thread.
pub fn end() {
    RUNS[MINE.get()].store(IDLE, Ordering::Relaxed);
}

/// Notes that a step has ended.
pub fn beat() {
    BEATS[MINE.get()].fetch_add(1, Ordering::Relaxed);
}

/// Watches all threads; calls `hung` with the run that hangs.
pub fn watch(hung: impl Fn(u64) + Send + 'static) {
    std::thread::spawn(move || {
        loop {
            let before: Vec<u64> = BEATS.iter().map(|b| b.load(Ordering::Relaxed)).collect();
            let runs: Vec<u64> = RUNS.iter().map(|r| r.load(Ordering::Relaxed)).collect();
            std::thread::sleep(PATIENCE);
            for (i, run) in runs.into_iter().enumerate() {
                let same = RUNS[i].load(Ordering::Relaxed) == run && BEATS[i].load(Ordering::Relaxed) == before[i];
                if run != IDLE && same {
                    hung(run);
                }
            }
        }
    });
}
