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
    ready: VecDeque<Task>,
    /// A background job could continue at once.
    more_background: bool,
    /// The time at which the engine has asked to be called.
    wake: Option<Time>,
}

impl Schedule {
    /// Adds a task to the end of the queue.
    pub fn push(&mut self, task: Task) {
        self.ready.push_back(task);
    }

    /// Has the background called again at once: a job of it could continue.
    pub fn ask_for_background(&mut self) {
        self.more_background = true;
    }

    /// Begins a turn of the background: whether a job could continue after it is found out anew.
    pub fn begin_background(&mut self) {
        self.more_background = false;
    }

    /// Notes that the engine is called at the time that it asked for.
    pub fn is_called(&mut self) {
        self.wake = None;
    }

    /// Asks for a call at this time, or for none. Returns whether that is new.
    pub fn ask_for_call(&mut self, at: Option<Time>) -> bool {
        std::mem::replace(&mut self.wake, at) != at
    }

    /// Adds tasks to the end of the queue.
    pub fn extend(&mut self, tasks: impl IntoIterator<Item = Task>) {
        self.ready.extend(tasks);
    }

    /// Takes the task whose turn it is.
    pub fn pop(&mut self) -> Option<Task> {
        self.ready.pop_front()
    }

    /// Whether no task can continue.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty()
    }

    /// Whether a background job could continue at once.
    pub fn asks_for_background(&self) -> bool {
        self.more_background
    }
}
