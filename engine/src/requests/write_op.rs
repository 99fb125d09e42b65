//! A block's write that could not be placed at once.

use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::MapEntry;
use crate::interface::RequestId;
use crate::store::Compared;
use crate::units::{Lbn, Pbn};
use std::ops::Range;

/// How far a block's write has come.
pub(crate) enum WriteStage {
    /// The rest of the block has to be read first.
    Base,
    Reading,
    /// The block was read and waits to be verified.
    Verifying {
        buffer: Slice,
        digest: Digest,
        pbn: Pbn,
    },
    /// Merged; the digest is on its way.
    Digesting,
    /// A whole block that looks for its place.
    Place,
    /// The stored block that may be its duplicate, or hold it in a slot, is on its way.
    Comparing {
        in_slots: bool,
    },
}

/// One block's write that could not be placed at once.
pub(crate) struct WriteOp {
    pub request: RequestId,
    pub lbn: Lbn,
    /// What the client sent, and which bytes of the block it covers.
    pub sent: Slice,
    pub covers: Range<usize>,
    /// The whole block, once it is there.
    pub whole: Option<(Slice, Digest)>,
    /// What the LBN meant when the rest of the block was read.
    pub base: Option<MapEntry>,
    /// The block under a partial write: while it is pinned, the LBN means what was read if it means this block.
    pub pinned: Option<Pbn>,
    /// The block that it was compared with, or is being.
    pub pinned_other: Option<Pbn>,
    pub compared: Compared,
    pub stage: WriteStage,
}
