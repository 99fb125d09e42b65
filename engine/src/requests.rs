//! The requests of clients that are not answered yet, and the operations on single blocks that they consist of.

use crate::Map;
use crate::admit::{Pending, WriteOp};
use crate::interface::{Request, RequestId};
use crate::part::Parts;
use crate::read::ReadOp;
use slab::Slab;
use std::collections::VecDeque;

/// Requests under way.
#[derive(Default)]
pub(crate) struct Requests {
    pub pending: Map<RequestId, Pending>,
    pub admission: VecDeque<Request>,
    pub writes: Slab<WriteOp>,
    pub parts: Parts,
    pub reads: Slab<ReadOp>,
    pub reads_queued: VecDeque<Request>,
    /// Bytes of the reads in progress.
    pub reads_bytes: u64,
}
