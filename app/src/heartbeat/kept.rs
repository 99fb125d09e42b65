//! Keeping a claim: a thread beats, beside whatever needs the volume.
//!
//! 1. Nothing is written while the last beat is older than two intervals: another host may have claimed the volume by then. Whoever writes
//!    asks before each write ([`Kept::holds`]), and waits for the next beat there.
//! 2. A served volume does not ask. Its engine learns at once that the claim is gone ([`Kept::when_lost`]).

use super::claim::{Claim, Lost};
use super::watch::WAIT_INTERVALS;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time between two looks at a beat that is late.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A claim that is kept. If it is dropped, other hosts wait as for a dead server.
pub struct Kept {
    stop: Sender<()>,
    thread: JoinHandle<Result<Claim, Lost>>,
    beats: Arc<Beats>,
}

/// The beats of a claim so far.
struct Beats {
    interval: Duration,
    number: AtomicU64,
    last: Mutex<LastBeat>,
}

enum LastBeat {
    /// The claim stood at this moment.
    At(Instant, Option<WhenLost>),
    /// The claim is gone.
    Lost,
}

type WhenLost = Box<dyn FnOnce(&Lost) + Send>;

impl Kept {
    /// Begins to beat for a claim that has just been confirmed.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn start(claim: Claim) -> Self {
        let last = Mutex::new(LastBeat::At(Instant::now(), None));
        let beats = Arc::new(Beats { interval: claim.interval(), number: AtomicU64::new(0), last });
        let (stop, stopped) = channel();
        let of = beats.clone();
        let beat = move || beat_until(&stopped, claim, &of).inspect_err(|lost| of.are_over(lost));
        let thread = std::thread::Builder::new().name("guard".to_owned()).spawn(beat).expect("the system has threads left");
        Self { stop, thread, beats }
    }

    /// Whether the claim stands, so that something may be written now. Waits for a beat that is late.
    #[must_use]
    pub fn holds(&self) -> bool {
        loop {
            match &*self.beats.last() {
                LastBeat::Lost => return false,
                LastBeat::At(time, _) if time.elapsed() < self.beats.interval * WAIT_INTERVALS => return true,
                LastBeat::At(..) => {}
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Has this called when the claim is gone, and at once if it is already: then nothing may be written any more.
    pub fn when_lost(&self, act: impl FnOnce(&Lost) + Send + 'static) {
        match &mut *self.beats.last() {
            LastBeat::At(_, then) => *then = Some(Box::new(act)),
            LastBeat::Lost => act(&Lost::Ousted),
        }
    }

    /// Returns the interval of the beats.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.beats.interval
    }

    /// Returns the number of beats so far.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.number.load(Ordering::Relaxed)
    }

    /// Ends the beats, and returns the claim where it still stands.
    ///
    /// # Errors
    /// The reason why it is gone.
    ///
    /// # Panics
    /// When the thread that beats has panicked.
    pub fn end(self) -> Result<Claim, Lost> {
        let _ = self.stop.send(());
        self.thread.join().expect("the thread that beats has not panicked")
    }
}

impl Beats {
    fn last(&self) -> MutexGuard<'_, LastBeat> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a beat that began at this time.
    fn beaten(&self, began: Instant) {
        self.number.fetch_add(1, Ordering::Relaxed);
        if let LastBeat::At(time, _) = &mut *self.last() {
            *time = began;
        }
    }

    fn are_over(&self, lost: &Lost) {
        let before = std::mem::replace(&mut *self.last(), LastBeat::Lost);
        if let LastBeat::At(_, Some(then)) = before {
            then(lost);
        }
    }
}

/// Beats until it is stopped, and then returns the claim.
fn beat_until(stopped: &Receiver<()>, mut claim: Claim, beats: &Beats) -> Result<Claim, Lost> {
    let mut wait = claim.interval();
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
        let began = Instant::now();
        claim.beat()?;
        beats.beaten(began);
        wait = claim.interval().saturating_sub(began.elapsed());
    }
    Ok(claim)
}
