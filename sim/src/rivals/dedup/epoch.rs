//! Epochs: sets of writes that become durable together.

use super::Changes;
use onefold_engine::interface::RequestId;
use onefold_engine::units::Time;

/// The cause of an epoch's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Flush,
    Fua,
    Strong,
    Timer,
    /// The changes filled the room for them, or space had to be collected.
    Pressure,
    Close,
}

impl Cause {
    /// All causes, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Flush, Self::Fua, Self::Strong, Self::Timer, Self::Pressure, Self::Close];

    /// Returns the name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Fua => "fua",
            Self::Strong => "strong",
            Self::Timer => "timer",
            Self::Pressure => "pressure",
            Self::Close => "close",
        }
    }
}

/// Writes that become durable together.
pub struct Epoch {
    pub number: u64,
    pub changes: Changes,
    /// The requests that are answered when the epoch is durable.
    pub waiters: Vec<RequestId>,
    /// The first cause for which the epoch has to end.
    pub wanted: Option<Cause>,
    /// The time of the first change.
    pub since: Option<Time>,
    /// The number of content writes in flight, and the number of the last one that completed.
    pub content_left: usize,
    pub content_completed: u64,
}

impl Epoch {
    pub fn new(number: u64) -> Self {
        Self { number, changes: Changes::default(), waiters: Vec::new(), wanted: None, since: None, content_left: 0, content_completed: 0 }
    }
}

/// The stage of the commit in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Idle,
    /// The epoch's content is being written.
    Content,
    ContentFlush,
    /// This many metadata writes are in flight.
    Pages(usize),
    PagesFlush,
    /// There is no commit, but a flush for work that a commit waits for, or for the close.
    WorkFlush,
}
