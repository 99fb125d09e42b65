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
    pub comparing: Map<Pbn, Vec<usize>>,
    /// The blocks that are gathered for the next write of content.
    pub run: Option<WriteRun>,
    /// Content that is held back.
    pub held: HeldBlocks,
    /// The number of writes of content under way.
    pub in_flight: u64,
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
        io.schedule.ready.extend(waited);
    }

    /// Whether all finds are kept that can be.
    pub fn is_damage_kept(&self, io: &Io) -> bool {
        self.suspects.are_kept() || !io.may_mark()
    }

    /// Goes on with finds that are not kept, if there are any.
    pub fn go_on_marking(&mut self, io: &mut Io) {
        if !self.suspects.are_kept() && io.stage == Stage::Serving {
            io.schedule.push(Task::Mark);
        }
    }
}
