//! The tasks that can continue, and the time at which the engine is called again: the only queue, and the only timer.

use crate::format::page::PageId;
use crate::interface::Failure;
use crate::units::{Pbn, Time};
use std::collections::VecDeque;

/// A task that continues when what it waits for arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Write(usize),
    Read(usize),
    Extents,
    Commit,
    Settle,
    Allocate,
    Reclaim,
    RebuildIndex,
    Recount,
    OutOfLine,
    Scrub,
    Mark,
    Part,
    Scan,
    Bits,
    Replay,
    Admit,
    Checkpoint,
    OpenLog,
    Load(PageId),
}

/// The reason why a block does not get its place yet.
pub(crate) enum Blocked {
    Page(PageId),
    Space,
    /// The stored block has to be read and compared first.
    Compare(Pbn),
    /// The carrier has to be read, to find the slot.
    Carrier(Pbn),
    Failed(Failure),
}

/// The tasks that can continue now, and the time at which something becomes due.
#[derive(Default)]
pub(crate) struct Schedule {
    pub ready: VecDeque<Task>,
    /// A background job could continue at once.
    pub more_background: bool,
    /// The time at which the engine has asked to be called.
    pub wake: Option<Time>,
}

impl Schedule {
    /// Adds a task to the end of the queue.
    pub fn push(&mut self, task: Task) {
        self.ready.push_back(task);
    }
}
