//! Who goes on next, and when the engine wants to be called again: the only queue, and the only timer.

use crate::format::page::PageId;
use crate::interface::Failure;
use crate::units::{Pbn, Time};
use std::collections::VecDeque;

/// Who goes on when something arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Write(usize),
    Read(usize),
    Commit,
    Settle,
    Allocate,
    Reclaim,
    Refill,
    Recount,
    Scan,
    Bits,
    Recall,
    Admit,
    Checkpoint,
    OpenLog,
    Load(PageId),
}

/// What a placement has to wait for.
pub(crate) enum Blocked {
    Page(PageId),
    Space,
    /// The stored block has to be read and compared first.
    Compare(Pbn),
    /// The carrier has to be read, and the slot found.
    Carrier(Pbn),
    Failed(Failure),
}

/// What can go on now, and when time alone makes something due.
#[derive(Default)]
pub(crate) struct Schedule {
    pub ready: VecDeque<Task>,
    /// Something in the background could go on at once.
    pub more_background: bool,
    /// When the engine has asked to be called.
    pub wake: Option<Time>,
}

impl Schedule {
    /// A task goes on when its turn comes.
    pub fn push(&mut self, task: Task) {
        self.ready.push_back(task);
    }
}
