//! A block's write that could not be placed at once.

use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::MapEntry;
use crate::interface::RequestId;
use crate::policy::Policy;
use crate::pool::Comparison;
use crate::space::Space;
use crate::units::{Lbn, Pbn};
use std::ops::Range;

/// The stage of the write of one block, with the data of that stage.
#[derive(Default)]
pub(crate) enum WriteStage {
    /// The rest of the block has to be found first.
    #[default]
    FindBase,
    /// The stored block that has the rest is being read. It is pinned.
    ReadingBase { slot: u8, pbn: Pbn },
    /// The block was read, is still pinned, and waits to be verified.
    VerifyingBase { slot: u8, pbn: Pbn, buffer: Slice, digest: Digest },
    /// The block is whole, and its digest is being computed.
    Digesting { content: Slice, base: Option<Base> },
    /// A whole block waits for its place.
    Placing(WholeBlock),
    /// The rest of the block is damaged. It fails when this find is kept.
    Damaged { find: u64 },
    /// A stored block that may be its duplicate, or hold it in a slot, is being read. It is pinned.
    Comparing { whole: WholeBlock, pbn: Pbn, in_slots: bool },
}

/// The meaning of the LBN when the rest of the block was read. It has to be the same when the block is placed.
#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub entry: MapEntry,
    /// The block that the entry names is pinned: while it is, the LBN means what was read if it means this block.
    pub is_pinned: bool,
}

impl Base {
    fn pinned(self) -> Option<Pbn> {
        self.entry.pbn().filter(|_| self.is_pinned)
    }
}

/// A whole block that has no place yet.
pub(crate) struct WholeBlock {
    pub content: Slice,
    pub digest: Digest,
    /// None where the client sent the whole block: then it does not matter what the LBN means.
    pub base: Option<Base>,
    /// The block that it was compared with is pinned.
    pub compared: Comparison,
    /// The filter against fragmentation does not let it be linked to another block.
    pub is_lone: bool,
}

impl WholeBlock {
    /// The block that it was compared with.
    pub fn compared_with(&self) -> Option<Pbn> {
        match self.compared {
            Comparison::Nothing => None,
            Comparison::Same(pbn) | Comparison::SameSlot(pbn, ..) | Comparison::Differs(pbn) => Some(pbn),
        }
    }
}

/// One block's write that could not be placed at once.
pub(crate) struct WriteOp {
    pub request: RequestId,
    pub lbn: Lbn,
    /// The client's bytes, and the range of the block that they cover.
    pub sent: Slice,
    pub covers: Range<usize>,
    /// The policy that its request brings.
    pub policy: Policy,
    pub stage: WriteStage,
}

impl WriteOp {
    /// The blocks that it pins: the one below it, and the one that it was compared with, or is being.
    fn pinned(&self) -> [Option<Pbn>; 2] {
        match &self.stage {
            WriteStage::FindBase | WriteStage::Damaged { .. } => [None; 2],
            WriteStage::ReadingBase { pbn, .. } | WriteStage::VerifyingBase { pbn, .. } => [Some(*pbn), None],
            WriteStage::Digesting { base, .. } => [base.and_then(Base::pinned), None],
            WriteStage::Placing(whole) => [whole.base.and_then(Base::pinned), whole.compared_with()],
            WriteStage::Comparing { whole, pbn, .. } => [whole.base.and_then(Base::pinned), Some(*pbn)],
        }
    }

    /// Returns the number of blocks that it pins.
    pub fn pins(&self) -> usize {
        self.pinned().into_iter().flatten().count()
    }

    /// Unpins its blocks.
    pub fn unpin(&self, space: &mut Space) {
        self.pinned().into_iter().flatten().for_each(|pbn| space.unpin(pbn));
    }
}
