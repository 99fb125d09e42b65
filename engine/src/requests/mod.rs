//! Requests of clients that are under way, and the operations on single blocks that they consist of.

mod admit;
mod extents;
mod extents_op;
mod place;
mod read;
mod read_op;
mod runs;
mod unmap;
mod write;
mod write_op;

use extents_op::ExtentsOp;
use read_op::ReadOp;
use write_op::WriteOp;

use crate::interface::Request;
use slab::Slab;
use std::collections::VecDeque;

/// The requests of clients that are under way.
#[derive(Default)]
pub(crate) struct Requests {
    admission: VecDeque<Request>,
    writes: Slab<WriteOp>,
    reads: Slab<ReadOp>,
    reads_queued: VecDeque<Request>,
    /// Bytes of the reads under way.
    reads_bytes: u64,
    /// Requests for extents, of which the first one is being answered.
    extents: VecDeque<ExtentsOp>,
}

impl Requests {
    /// Whether no request waits for its answer. Requests that wait for a commit do not count.
    pub fn are_none(&self) -> bool {
        self.admission.is_empty() && !self.are_under_way()
    }

    /// Whether operations on blocks are under way.
    pub fn are_under_way(&self) -> bool {
        !self.writes.is_empty() || !self.reads.is_empty() || !self.extents.is_empty()
    }
}
