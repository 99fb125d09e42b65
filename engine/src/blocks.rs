//! Blocks of content between their birth and the table, and those that something in flight holds on to.

use crate::Map;
use crate::buffer::Slice;
use crate::by_block::ByBlock;
use crate::cache::ReadCache;
use crate::fingerprint::Fingerprint;
use crate::format::entry::Kind;
use crate::interface::RequestId;
use crate::memory::Accountant;
use crate::units::Pbn;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A block whose birth is not finished: its content is on its way, or its fingerprint is not in the table yet.
pub(crate) struct Fresh {
    pub kind: Kind,
    pub fingerprint: Fingerprint,
    /// The epoch whose commit allows the fingerprint into the table.
    pub epoch: u64,
    /// The content, until its write has completed.
    pub held: Option<Slice>,
    /// The fingerprint still waits for the table. False once it is there, or when the block died unborn.
    pub waits: bool,
}

/// New blocks with neighbouring PBNs, on their way out in one command.
pub(crate) struct Run {
    pub first: Pbn,
    pub blocks: u64,
    pub data: Vec<Slice>,
    pub request: RequestId,
}

/// The blocks that are in use beyond what the tables say of them.
pub(crate) struct Blocks {
    pub fresh: ByBlock<Fresh>,
    pub pins: Map<Pbn, u32>,
    pub cache: ReadCache,
    /// Blocks whose content was found wrong in this run: never linked to again.
    pub suspects: BTreeSet<Pbn>,
    /// Those that wait for a stored block to be compared with, by block: one read is under way for all of them.
    pub comparing: Map<Pbn, Vec<usize>>,
    /// What is gathered for the next write of content.
    pub run: Option<Run>,
    /// Writes of content under way.
    pub content_in_flight: u64,
    /// Requests answered once the content of a block is on the device (`Settings::keeps_promises`).
    pub content_waiters: Map<Pbn, Vec<RequestId>>,
}

impl Blocks {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        let (fresh, pins, suspects, comparing, run, content_in_flight, content_waiters) = Default::default();
        Self { fresh, pins, cache: ReadCache::new(accountant), suspects, comparing, run, content_in_flight, content_waiters }
    }
}
