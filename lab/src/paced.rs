//! A store slowed to the pace of a model, so that the speed of flash can be measured where there is none.
//!
//! 1. A command completes when both the store and the model have carried it out: never faster than the model.
//! 2. The model's times count from submission, in the order of submission (`trace/src/model.rs`); the load of the store does not change
//!    them.
//! 3. The thread sleeps through a wait except for its last part, which it spends looking at the clock. That part is as long as sleeps here
//!    are too long, at most `SPIN_NS_MAX`.

use onefold::device::backing::Facts;
use onefold::device::slowing::Slowing;
use onefold::device::{Command, Completed, Completions, Device, Sink, Slowed, StorePlace, Work};
use onefold_engine::units::count;
use onefold_trace::model::{Model, Timetable};
use slab::Slab;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time that is spent looking at the clock before a completion.
const SPIN_NS_MAX: u64 = 150_000;
/// The time that never comes: nobody waits for anything.
const NEVER: u64 = u64::MAX;

/// A device that is never faster than its model.
pub struct Paced {
    inner: Arc<dyn Device>,
    model: Model,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    begin: Instant,
    sink: Sink,
    state: Mutex<State>,
    changed: Condvar,
    /// The time of the next completion that the store is ready for.
    next_ns: AtomicU64,
}

struct State {
    table: Timetable,
    under_way: Slab<Pending>,
    /// The commands that the store has carried out and the model has not.
    waiting: BinaryHeap<Reverse<DueCompletion>>,
    /// The time when the thread wakes by itself.
    wakes_ns: u64,
    is_stopping: bool,
    sums: Sums,
}

struct Pending {
    token: u64,
    due_ns: u64,
}

struct DueCompletion {
    at_ns: u64,
    completed: Completed,
}

/// The totals over all commands.
#[derive(Clone, Copy, Default)]
struct Sums {
    commands: u64,
    /// The number of commands for which the store was later than the model.
    late: u64,
    model_ns: u64,
    late_ns: u64,
    overslept_ns: u64,
}

impl PartialEq for DueCompletion {
    fn eq(&self, other: &Self) -> bool {
        self.at_ns == other.at_ns
    }
}

impl Eq for DueCompletion {}

impl PartialOrd for DueCompletion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DueCompletion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at_ns.cmp(&other.at_ns)
    }
}

impl Paced {
    /// Slows `inner` to the pace of `model`.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>, model: Model) -> Arc<Self> {
        let state = State {
            table: Timetable::new(model),
            under_way: Slab::new(),
            waiting: BinaryHeap::new(),
            wakes_ns: NEVER,
            is_stopping: false,
            sums: Sums::default(),
        };
        let shared = Arc::new(Shared {
            begin: Instant::now(),
            sink: Sink::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            next_ns: AtomicU64::new(NEVER),
        });
        let thread = std::thread::Builder::new().name("pace".to_owned());
        let thread = thread.spawn({
            let shared = shared.clone();
            move || shared.run()
        });
        Arc::new(Self { inner, model, shared, thread: Mutex::new(Some(thread.expect("the system has threads left"))) })
    }
}

/// Slows stores to the pace of [`Model`]s.
pub struct ByModel;

impl Slowing for ByModel {
    fn check(&self, model: &str) -> Result<(), String> {
        Model::named(model).map(|_| ())
    }

    fn slow(&self, store: Arc<dyn Device>, model: &str) -> Result<Arc<dyn Device>, String> {
        Ok(Paced::new(store, Model::named(model)?))
    }
}

impl Device for Paced {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn place(&self) -> Option<StorePlace> {
        self.inner.place()
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.shared.sink.connect(sink);
        let here: Arc<dyn Completions> = self.shared.clone();
        self.inner.connect(Arc::downgrade(&here));
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        let mut state = self.shared.state();
        let now = self.shared.now();
        for command in batch.iter_mut() {
            let due_ns = due(&mut state.table, now, &command.work);
            state.sums.model_ns += due_ns - now;
            let pending = Pending { token: command.token, due_ns };
            command.token = count(state.under_way.insert(pending));
        }
        drop(state);
        self.inner.submit(batch);
    }

    fn call(&self) {
        self.shared.sink.completed(&mut Vec::new());
    }

    fn stop(&self) {
        // Commands that the store still carries out arrive before this ends; the thread then waits until the model has done them too.
        self.inner.stop();
        self.shared.state().is_stopping = true;
        self.shared.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // This very thread may drop the last reference to a volume, in the middle of a completion.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }

    fn takes_fua(&self) -> bool {
        self.inner.takes_fua()
    }

    fn method(&self) -> String {
        format!("{}, slowed to the pace of {}", self.inner.method(), self.model.name)
    }

    fn slowed(&self) -> Option<Slowed> {
        let Sums { commands, late, model_ns, late_ns, overslept_ns } = self.shared.state().sums;
        #[allow(clippy::cast_precision_loss)] // a mean for people
        let mean_us = |ns: u64| ns as f64 / 1000.0 / commands.max(1) as f64;
        Some(Slowed {
            model: self.model.name.to_owned(),
            source: self.model.source.to_owned(),
            commands,
            late_commands: late,
            model_us_mean: mean_us(model_ns),
            late_us_mean: mean_us(late_ns),
            overslept_us_mean: mean_us(overslept_ns),
        })
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the time when the model has carried out a command that it gets now.
fn due(table: &mut Timetable, now: u64, work: &Work) -> u64 {
    match work {
        Work::Read { bytes, .. } => table.read(now, count(*bytes)),
        Work::Write { bytes, fua: true, .. } => table.write_fua(now, count(*bytes)),
        Work::Write { bytes, .. } => table.write(now, count(*bytes)),
        Work::Flush => table.flush(now),
        // A device makes zeros by forgetting what it had.
        Work::Discard { .. } | Work::Zero { .. } => table.discard(now),
        Work::Fill { length, .. } => table.write(now, *length),
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(NEVER)
    }

    fn deliver(&self, batch: &mut Vec<Completed>) {
        if !batch.is_empty() {
            self.sink.completed(batch);
            batch.clear();
        }
    }

    fn run(&self) {
        let _guard = onefold::abort::AbortOnPanic;
        // By default the kernel lets a sleep last 50 us longer, to wake for several things at once.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut early_ns = SPIN_NS_MAX / 4;
        let mut batch = Vec::new();
        let mut state = self.state();
        loop {
            let now = self.now();
            take_due(&mut state, now, &mut batch);
            let next = state.waiting.peek().map_or(NEVER, |Reverse(due)| due.at_ns);
            self.next_ns.store(next, Relaxed);
            if !batch.is_empty() {
                drop(state);
                self.deliver(&mut batch);
                state = self.state();
                continue;
            }
            let wakes_ns = next.saturating_sub(early_ns);
            if next == NEVER {
                if state.is_stopping {
                    return;
                }
                state.wakes_ns = NEVER;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if wakes_ns > now {
                state.wakes_ns = wakes_ns;
                let pause = Duration::from_nanos(wakes_ns - now);
                let (guard, result) = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
                state = guard;
                if result.timed_out() {
                    // Half as much again as sleeps were recently too long.
                    let over = self.now().saturating_sub(wakes_ns);
                    early_ns = ((early_ns * 7 + over * 3 / 2) / 8).min(SPIN_NS_MAX);
                }
            } else {
                state.wakes_ns = now;
                drop(state);
                while self.now() < self.next_ns.load(Relaxed) {
                    std::hint::spin_loop();
                }
                state = self.state();
            }
        }
    }
}

/// Takes the completions that are due.
fn take_due(state: &mut State, now: u64, batch: &mut Vec<Completed>) {
    while state.waiting.peek().is_some_and(|Reverse(due)| due.at_ns <= now) {
        let Reverse(DueCompletion { at_ns, completed }) = state.waiting.pop().expect("it was seen");
        state.sums.overslept_ns += now - at_ns;
        batch.push(completed);
    }
}

impl Completions for Shared {
    fn completed(&self, batch: &mut Vec<Completed>) {
        let mut late = Vec::new();
        let mut state = self.state();
        let now = self.now();
        let before = self.next_ns.load(Relaxed);
        for mut completed in batch.drain(..) {
            let Pending { token, due_ns } = state.under_way.remove(usize::try_from(completed.token).expect("it is our own"));
            completed.token = token;
            state.sums.commands += 1;
            if due_ns <= now {
                state.sums.late += u64::from(due_ns < now);
                state.sums.late_ns += now - due_ns;
                late.push(completed);
            } else {
                state.waiting.push(Reverse(DueCompletion { at_ns: due_ns, completed }));
            }
        }
        let next = state.waiting.peek().map_or(NEVER, |Reverse(due)| due.at_ns);
        if next < before {
            self.next_ns.store(next, Relaxed);
            // A thread that is awake looks by itself; a sleeper has to be woken for a completion before its own time.
            if next < state.wakes_ns.saturating_add(SPIN_NS_MAX) {
                self.changed.notify_one();
            }
        }
        drop(state);
        self.deliver(&mut late);
    }
}
