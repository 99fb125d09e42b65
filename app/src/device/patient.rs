//! Writes for which there is no room below the store: kept, and sent again until there is some.
//!
//! 1. A write that is refused for want of room was not done, whoever refuses it: a full file system, a quota, a device that is thin
//!    itself. It is kept with its memory, which nobody changes (R6), and whoever sent it goes on waiting for its completion. Its order
//!    among other writes does not matter, since a flush covers only what was completed before it (A1).
//! 2. A flush is never sent again, whatever its error is: what it covers was answered before, and may be lost (A5). A file system that
//!    finds no room for what it had taken into its cache reports it there.
//! 3. One kept write is tried at a time. The others follow when it is done.
//! 4. Whoever watches ([`super::room`]) is woken by the first refusal, has writes tried, and may have them given up: then they end with
//!    their error, unless they are done at the last try.

use super::facts::{Facts, StorePlace};
use super::interface::{Command, Completed, Completions, Device, Sink, Slowed, Work};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Whether an error of a write says that there is no room for it.
fn is_want_of_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

fn is_refused(completed: &Completed) -> bool {
    matches!(completed.work, Work::Write { .. }) && completed.result.as_ref().is_err_and(is_want_of_room)
}

/// A device that keeps writes for which it has no room.
pub struct Patient {
    inner: Arc<dyn Device>,
    shared: Arc<Shared>,
}

/// The writes that a device has refused.
#[derive(Clone)]
pub struct Refusals(Arc<Shared>);

struct Shared {
    inner: Weak<dyn Device>,
    sink: Sink,
    state: Mutex<State>,
    /// Some write is kept: completions take the slow way.
    keeps: AtomicBool,
    /// The first write is refused, or the device stops.
    woken: Condvar,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Command>,
    /// The kept write that is tried, by its name.
    tried: Option<u64>,
    refused_at: Option<Instant>,
    gives_up: bool,
    is_stopping: bool,
}

impl Patient {
    /// Keeps the writes that `inner` refuses.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        let shared = Shared {
            inner: Arc::downgrade(&inner),
            sink: Sink::default(),
            state: Mutex::default(),
            keeps: AtomicBool::new(false),
            woken: Condvar::new(),
        };
        Arc::new(Self { inner, shared: Arc::new(shared) })
    }

    /// Returns the refused writes, for whoever watches.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        Refusals(Arc::clone(&self.shared))
    }
}

impl Device for Patient {
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
        self.inner.submit(batch);
    }

    fn call(&self) {
        self.inner.call();
    }

    fn stop(&self) {
        self.shared.state().is_stopping = true;
        self.shared.woken.notify_all();
        self.inner.stop();
    }

    fn method(&self) -> String {
        self.inner.method()
    }

    fn takes_fua(&self) -> bool {
        self.inner.takes_fua()
    }

    fn slowed(&self) -> Option<Slowed> {
        self.inner.slowed()
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.shared.state().is_stopping = true;
        self.shared.woken.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, mut commands: Vec<Command>) {
        if let Some(inner) = self.inner.upgrade().filter(|_| !commands.is_empty()) {
            inner.submit(&mut commands);
        }
    }

    /// Takes refused writes out of a batch. Returns those that are to be sent again.
    fn sort(&self, batch: &mut Vec<Completed>) -> Vec<Command> {
        let mut state = self.state();
        let mut again = Vec::new();
        for completed in std::mem::take(batch) {
            let is_tried = state.tried == Some(completed.token);
            if is_tried {
                state.tried = None;
            }
            if is_refused(&completed) && !state.gives_up {
                if state.kept.is_empty() && !is_tried {
                    self.woken.notify_all();
                }
                state.refused_at = Some(Instant::now());
                state.kept.push_back(Command { token: completed.token, work: completed.work });
                continue;
            }
            if is_tried && completed.result.is_ok() {
                again.extend(state.kept.drain(..));
            }
            batch.push(completed);
        }
        self.keeps.store(state.keeps(), Ordering::Relaxed);
        again
    }
}

impl State {
    fn keeps(&self) -> bool {
        !self.kept.is_empty() || self.tried.is_some()
    }
}

impl Completions for Shared {
    fn completed(&self, batch: &mut Vec<Completed>) {
        if self.keeps.load(Ordering::Relaxed) || batch.iter().any(is_refused) {
            let again = self.sort(batch);
            self.send(again);
        }
        self.sink.completed(batch);
    }
}

impl Refusals {
    /// Whether writes are kept, and the time since a write was refused last, if any was.
    #[must_use]
    pub fn look(&self) -> (bool, Option<Duration>) {
        let state = self.0.state();
        (state.keeps(), state.refused_at.map(|at| at.elapsed()))
    }

    /// Sends one kept write again, unless one is under way.
    pub fn try_again(&self) {
        let mut state = self.0.state();
        if state.tried.is_some() {
            return;
        }
        let Some(command) = state.kept.pop_front() else { return };
        state.tried = Some(command.token);
        drop(state);
        self.0.send(vec![command]);
    }

    /// Tries all kept writes once more. From now on writes that are refused end with their error.
    pub fn give_up(&self) {
        let mut state = self.0.state();
        state.gives_up = true;
        let kept = state.kept.drain(..).collect();
        drop(state);
        self.0.send(kept);
    }

    /// Waits for this time, or forever: until the device stops, or, if no write is kept now, until one is refused. False: it stops.
    #[must_use]
    pub fn wait(&self, time: Option<Duration>) -> bool {
        let state = self.0.state();
        let kept_before = state.keeps();
        let goes_on = |state: &mut State| !state.is_stopping && (kept_before || !state.keeps());
        let state = match time {
            Some(time) => self.0.woken.wait_timeout_while(state, time, goes_on).unwrap_or_else(PoisonError::into_inner).0,
            None => self.0.woken.wait_while(state, goes_on).unwrap_or_else(PoisonError::into_inner),
        };
        !state.is_stopping
    }
}
