//! The state of a checkpoint.

use super::copies::Copies;
use crate::format::page::PageId;
use crate::units::Epoch;
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointStep {
    /// Copies need places.
    Places,
    Pages,
    PagesFlush,
    Bits,
    BitsFlush,
    /// Another update of the superblock is under way.
    SuperblockDue,
    Superblock,
}

/// A checkpoint under way.
pub(crate) struct Checkpoint {
    pub step: CheckpointStep,
    /// The last epoch, and the last unit, before the new log tail.
    pub epoch: Epoch,
    pub sequence: u64,
    pub due: VecDeque<PageId>,
    pub loading: Vec<PageId>,
    /// Pages in memory that hold something that is not confirmed yet (`checkpoint/confirm.rs`).
    pub not_yet: Vec<PageId>,
    pub writing: BTreeSet<PageId>,
    /// It began after a recount. The pages that the recount changed are among its pages, so its superblock may report that the recount is
    /// over.
    pub ends_recount: bool,
    /// The copies of records, if this is a compaction.
    pub copies: Option<Copies>,
    /// It belongs to an opening that has no memory for all records (`recover/overflow.rs`): the log tail stays.
    pub is_spill: bool,
    /// A page of such a checkpoint could not be read.
    pub lacks_page: bool,
}

impl Checkpoint {
    /// A checkpoint up to this epoch and unit that writes these pages; a compaction where there are copies.
    pub fn new(epoch: Epoch, sequence: u64, due: VecDeque<PageId>, copies: Option<Copies>) -> Self {
        let step = if copies.is_some() { CheckpointStep::Places } else { CheckpointStep::Pages };
        let (loading, not_yet, writing) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { step, epoch, sequence, due, loading, not_yet, writing, ends_recount: false, copies, is_spill: false, lacks_page: false }
    }

    /// The checkpoint of an opening: it writes these pages, with what is committed up to this epoch.
    pub fn overflow(epoch: Epoch, due: VecDeque<PageId>) -> Self {
        Self { is_spill: true, ..Self::new(epoch, 0, due, None) }
    }
}
