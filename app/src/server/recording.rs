//! Recordings, which clients of the control socket ask for.
//!
//! 1. A recording lives as long as the connection of the client that asked for it: it ends when the client ends it, or goes away, or the
//!    server ends. So no recording is ever left running unnoticed.
//! 2. A server that ends lets a recording end first, and its summary be taken.

use crate::attachment::control::Client;
use crate::exit::{Exit, Failed, Outcome};
use crate::runtime::recording::tap::Tap;
use crate::runtime::recording::{Order, RecordError, Recording, failed};
use serde::Serialize;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time between two looks at whether a recording is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that an ending server waits for a summary to be taken.
const PATIENCE: Duration = Duration::from_secs(20);

/// The recordings of one target.
pub struct Recordings {
    tap: Arc<Tap>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closing: bool,
    at_work: usize,
}

/// A client whose recording is under way.
struct AtWork<'a>(&'a Recordings);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.state().at_work -= 1;
        self.0.changed.notify_all();
    }
}

impl Recordings {
    /// Returns the recordings of the target with this tap.
    #[must_use]
    pub fn new(tap: Arc<Tap>) -> Self {
        Self { tap, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records for a client: answers as it begins, and again when it is over.
    ///
    /// # Errors
    /// When the client went away.
    pub fn record(&self, order: &Order, client: &Client<'_>) -> io::Result<()> {
        self.state().at_work += 1;
        let _at_work = AtWork(self);
        let recording = match self.begin(order) {
            Ok(recording) => recording,
            Err(failed) => return client.answer(Err(failed)),
        };
        tracing::info!(file = %order.file.display(), "recording");
        // A client that has gone already has nothing recorded: the drop of the recording ends it.
        client.answer(to_json(recording.about()))?;
        while !recording.is_over() && !self.state().is_closing && !client.is_done(LOOK)? {}
        let tally = recording.end().map_err(|error| failed(error, order)).inspect_err(|failed| tracing::error!("{}", failed.message));
        tracing::info!(?tally, "recorded");
        client.answer(tally.and_then(|tally| to_json(&tally)))
    }

    fn begin(&self, order: &Order) -> Outcome<Recording> {
        if self.state().is_closing {
            return Err(failed(RecordError::Closing, order));
        }
        Recording::begin(&self.tap, order).map_err(|error| failed(error, order))
    }

    /// Adds the beginning of a phase.
    ///
    /// # Errors
    /// When nothing is recorded, or the recorder is behind.
    pub fn mark(&self, phase: String) -> Outcome {
        if !self.tap.is_on() {
            return Err(Failed::new(Exit::NotFound, "nothing is being recorded").next("`onefold trace record` begins a recording."));
        }
        if self.tap.mark(phase) { Ok(()) } else { Err(Failed::new(Exit::System, "the recorder is behind").next("Try again.")) }
    }

    /// Ends a recording, and waits until its summary was taken. No other begins from now on.
    pub fn close(&self) {
        self.state().is_closing = true;
        let waited = self.changed.wait_timeout_while(self.state(), PATIENCE, |state| state.at_work > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

fn to_json(value: &impl Serialize) -> Outcome<serde_json::Value> {
    serde_json::to_value(value).map_err(|e| Failed::system("cannot answer", e))
}
