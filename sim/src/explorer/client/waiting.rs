//! The requests that wait for a reply.

use crate::checkers::oracle::Mark;
use onefold_engine::interface::Op;
use onefold_engine::units::BLOCK_BYTES;

/// A request that waits for its reply.
pub(super) struct Waiting {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) fua: bool,
    /// The versions that the request makes, or that it must at least see.
    pub(super) marks: Vec<Mark>,
    /// The versions that a flush makes durable.
    pub(super) promise: Vec<Mark>,
    /// Whether it was sent when the volume was read-only already.
    pub(super) late: bool,
}

impl Waiting {
    /// Notes that the volume was read-only when it was sent.
    pub(super) fn is_late(&mut self) {
        self.late = true;
    }

    /// Returns whether the request writes a part of one block.
    pub(super) fn is_part(&self) -> bool {
        self.op == Op::Write && self.length < BLOCK_BYTES && self.marks.len() == 1
    }

    /// Returns the first LBN of the request.
    pub(super) fn lbn(&self) -> u64 {
        self.offset / BLOCK_BYTES
    }
}
