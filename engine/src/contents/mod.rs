//! Content in memory and being written: the read cache, the blocks that are gathered for the next write, and the requests that
//! wait for a block.

mod cache;
mod held;
mod suspects;

pub(crate) use cache::ReadCache;
pub(crate) use held::{HeldBlock, HeldBlocks, HeldState};
pub(crate) use suspects::Suspects;

use crate::buffer::Slice;
use crate::interface::RequestId;
use crate::io::{Io, Stage};
use crate::map::Map;
use crate::memory::Accountant;
use crate::schedule::Task;
use crate::units::Pbn;
use std::sync::Arc;

/// New blocks with neighbouring PBNs that one command writes.
pub(crate) struct WriteRun {
    pub first: Pbn,
    pub blocks: u64,
    pub data: Vec<Slice>,
    pub request: RequestId,
}

/// Content of blocks.
pub(crate) struct Contents {
    pub cache: ReadCache,
    pub suspects: Suspects,
    /// Writes that wait to be compared with a stored block, by block. One read is under way for all of them.
    comparing: Map<Pbn, Vec<usize>>,
    /// The blocks that are gathered for the next write of content.
    run: Option<WriteRun>,
    /// Content that is held back.
    pub held: HeldBlocks,
    /// The number of writes of content under way.
    in_flight: u64,
}

impl Contents {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        let (suspects, comparing, run, held, in_flight) = Default::default();
        Self { cache: ReadCache::new(accountant), suspects, comparing, run, held, in_flight }
    }

    /// Notes that a block is damaged.
    pub fn suspect(&mut self, io: &mut Io, pbn: Pbn) {
        if self.suspects.find(pbn) {
            io.schedule.push(Task::Mark);
        }
    }

    /// Has the tasks go on that wait until a find is kept.
    pub fn end_waits_for_finds(&mut self, io: &mut Io) {
        let waited = self.suspects.end_waiting();
        io.schedule.extend(waited);
    }

    /// Whether all finds are kept that can be.
    pub fn is_damage_kept(&self, io: &Io) -> bool {
        self.suspects.are_kept() || !io.may_mark()
    }

    /// Goes on with finds that are not kept, if there are any.
    pub fn go_on_marking(&mut self, io: &mut Io) {
        if !self.suspects.are_kept() && io.stage() == Stage::Serving {
            io.schedule.push(Task::Mark);
        }
    }

    /// Begins to gather blocks for the next write.
    pub fn begin_run(&mut self, run: WriteRun) {
        debug_assert!(self.run.is_none(), "the run before was sent");
        self.run = Some(run);
    }

    /// Counts writes of content that are under way now.
    pub fn writes_begin(&mut self, writes: u64) {
        self.in_flight += writes;
    }

    /// Takes the end of a write of content.
    pub fn write_ended(&mut self) {
        self.in_flight -= 1;
    }

    /// The blocks that are gathered for the next write, if there are any.
    pub fn run(&mut self) -> Option<&mut WriteRun> {
        self.run.as_mut()
    }

    /// Takes them.
    pub fn take_run(&mut self) -> Option<WriteRun> {
        self.run.take()
    }

    /// The number of writes of content under way.
    pub fn writes_under_way(&self) -> u64 {
        self.in_flight
    }

    /// Lets a write wait until this block has been read. Returns whether it is the first that does.
    pub fn compare(&mut self, pbn: Pbn, write: usize) -> bool {
        let waiting = self.comparing.entry(pbn).or_default();
        waiting.push(write);
        waiting.len() == 1
    }

    /// Takes the writes that wait for this block.
    ///
    /// # Panics
    /// When none does.
    pub fn end_comparing(&mut self, pbn: Pbn) -> Vec<usize> {
        self.comparing.remove(&pbn).expect("a write that compares is listed")
    }
}
