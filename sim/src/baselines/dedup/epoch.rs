//! Epochs: what becomes durable together.

use super::Changes;
use onefold_engine::interface::RequestId;
use onefold_engine::units::Time;

/// What ended an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Flush,
    Fua,
    Strong,
    Timer,
    /// Its changes filled the room for them, or space had to be collected.
    Pressure,
    Close,
}

impl Cause {
    /// All causes, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Flush, Self::Fua, Self::Strong, Self::Timer, Self::Pressure, Self::Close];

    /// The word for reports.
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
    /// They are answered when it is durable.
    pub waiters: Vec<RequestId>,
    /// Who wants it to end, first come.
    pub wanted: Option<Cause>,
    /// When its first change came.
    pub since: Option<Time>,
    /// Content writes in flight, and the number of the last that completed.
    pub content_left: usize,
    pub content_completed: u64,
}

impl Epoch {
    pub fn new(number: u64) -> Self {
        Self { number, changes: Changes::default(), waiters: Vec::new(), wanted: None, since: None, content_left: 0, content_completed: 0 }
    }
}

/// How far the commit in progress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Idle,
    /// Its content is on its way.
    Content,
    ContentFlush,
    /// So many metadata writes are in flight.
    Pages(usize),
    PagesFlush,
    /// No commit: a flush for work that a commit waits for, or the close.
    WorkFlush,
}
