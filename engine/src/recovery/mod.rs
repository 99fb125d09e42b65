//! Recovery: the steps from the superblock that was chosen to a volume that serves.
//!
//! 1. The device is flushed before anything is decided from what was read (R8).
//! 2. The log is read, where there is a live one, and continues after the last unit found (`scheme/log/recover/mod.rs`, steps 3 to 6
//!    there). With that the commit scheme is chosen.
//! 3. Places are chosen for the log's next units.
//! 4. *Not clean* and the new incarnation are durable, in both pairs of superblock copies, before any other write.
//! 5. The end of the log becomes durable. In mode `ordered` the log is then emptied, and left.
//! 6. The acknowledgement journal of the last server is proved, replayed and committed (`replay.rs`); then the volume serves.
//!
//! [`Opening::on`] has steps 1 to 5, one below the other.

pub(crate) mod promised_contents;
pub(crate) mod replay;
mod steps;

pub(crate) use steps::{Opening, OpeningEvent};

use crate::answers::Answers;
use crate::interface::Progress;
use crate::io::{FlushFor, Io, Stage};
use crate::pool::{Medium, Pool, look_at_counters};
use crate::scheme::Scheme;
use crate::settings::Settings;
use crate::tables::Tables;
use crate::units::Epoch;

/// The opening of a volume, which is consumed when its log is open; or a volume whose log is open.
pub(crate) enum Phase {
    Opening(Box<Opening>),
    Open,
}

/// The consequence of an event; or, if the log is damaged, the last epoch whose records count.
pub(crate) type StepOutcome = Result<NextStep, Epoch>;

/// The consequence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The opening waits for another event, or is over.
    Wait,
    /// Reads are answered from now on, and, if nothing has failed, writes.
    Serve,
    /// The acknowledgement journal of the last server is replayed.
    Replay,
}

/// Begins step 1.
#[cold]
pub(crate) fn begin(io: &mut Io, tables: &Tables, medium: &Medium) {
    io.enter(Stage::Opening);
    look_at_counters(io, medium, tables, 0);
    io.flush(FlushFor::Opening);
}

impl Phase {
    /// A volume whose first step is to come.
    pub fn new() -> Self {
        Self::Opening(Box::new(Opening::FlushDevice))
    }

    /// Takes an event. A volume whose log is open has no use for it.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn on(&mut self, event: OpeningEvent, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> StepOutcome {
        let Self::Opening(opening) = std::mem::replace(self, Self::Open) else { return Ok(NextStep::Wait) };
        match opening.on(event, pool, scheme, answers)? {
            steps::Then::Wait(opening) => {
                *self = Self::Opening(Box::new(opening));
                Ok(NextStep::Wait)
            }
            steps::Then::Serve => Ok(NextStep::Serve),
            steps::Then::Replay => Ok(NextStep::Replay),
        }
    }

    /// Ends the opening, since its log is damaged.
    pub fn give_up(&mut self) {
        *self = Self::Open;
    }

    fn opening(&self) -> Option<&Opening> {
        if let Self::Opening(opening) = self { Some(opening) } else { None }
    }

    /// The progress of an opening that reads a log.
    pub fn progress(&self, tables: &Tables, settings: &Settings) -> Option<Progress> {
        self.opening()?.progress(tables, settings)
    }

    /// The bytes of records that it holds, for the accountant.
    pub fn bytes(&self) -> u64 {
        self.opening().map_or(0, Opening::bytes)
    }
}
