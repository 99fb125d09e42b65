//! How far a checkpoint is.

use super::copies::Copies;
use crate::format::page::PageId;
use crate::units::Epoch;
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
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
    pub at: At,
    /// The last epoch, and the last unit, that lie before the new anchor.
    pub epoch: Epoch,
    pub sequence: u64,
    pub due: VecDeque<PageId>,
    pub loading: Vec<PageId>,
    /// In memory, with what nothing vouches for yet (`vouch.rs`).
    pub not_yet: Vec<PageId>,
    pub writing: BTreeSet<PageId>,
    /// It began after a recount: what that changed is among its pages, so its superblock may say so.
    pub ends_recount: bool,
    /// Of a condensing.
    pub copies: Option<Copies>,
    /// It is an opening's, which has no place for all records (`spill.rs`): the anchor stays.
    pub is_spill: bool,
    /// Of such a one: a page could not be read.
    pub lacks_page: bool,
}

impl Checkpoint {
    /// Up to this epoch and unit, by way of these pages; a condensing, where there are copies.
    pub fn new(epoch: Epoch, sequence: u64, due: VecDeque<PageId>, copies: Option<Copies>) -> Self {
        let at = if copies.is_some() { At::Places } else { At::Pages };
        let (loading, not_yet, writing) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { at, epoch, sequence, due, loading, not_yet, writing, ends_recount: false, copies, is_spill: false, lacks_page: false }
    }

    /// Of an opening: these pages, with what is committed up to this epoch.
    pub fn spill(epoch: Epoch, due: VecDeque<PageId>) -> Self {
        Self { is_spill: true, ..Self::new(epoch, 0, due, None) }
    }
}
