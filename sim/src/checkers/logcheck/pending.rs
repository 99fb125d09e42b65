//! The epoch whose units are being written, as far as they say.

use super::records::Change;
use crate::ground::content::Shared;
use onefold_engine::format::{FingerprintEntry, UnitHeader};
use rustc_hash::{FxHashMap, FxHashSet};

/// An epoch whose units are being written, or wait for their flush if they need one.
pub(super) struct Pending {
    header: UnitHeader,
    /// Its units so far, each with its block and content. The units of one write are not on the device yet when the last of them is
    /// checked.
    sent: Vec<(u64, Shared)>,
    changes: Vec<Change>,
    /// The new blocks, and the fingerprints that their records give.
    new: Vec<(u64, FingerprintEntry)>,
    /// The present block of each LBN that the epoch changes.
    means: FxHashMap<u64, Option<u64>>,
    /// The blocks that get their entry. All other blocks that the epoch links to have other links.
    new_entries: FxHashSet<u64>,
}

impl Pending {
    /// Begins with the header of the first unit.
    pub(super) fn new(header: UnitHeader) -> Self {
        let (sent, changes, new) = (Vec::new(), Vec::new(), Vec::new());
        Self { header, sent, changes, new, means: FxHashMap::default(), new_entries: FxHashSet::default() }
    }

    /// Returns the number of the epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.header.epoch.get()
    }

    /// Returns the last unit that the epoch's units say is flushed.
    pub(super) fn flushed_upto(&self) -> u64 {
        self.header.flushed_upto
    }

    /// Returns whether all units are issued.
    pub(super) fn is_sent(&self) -> bool {
        self.sent.len() == self.header.units as usize
    }

    /// Returns whether a unit with this header is the next one.
    pub(super) fn goes_on_with(&self, header: &UnitHeader) -> bool {
        let of = |h: &UnitHeader| (h.epoch, h.units, h.incarnation, h.flushed_upto, h.content_flushed);
        of(header) == of(&self.header) && header.unit as usize == self.sent.len()
    }

    /// Returns whether content that is about to be written agrees with its record.
    pub(super) fn says(&self, pbn: u64, is: impl Fn(&FingerprintEntry) -> bool) -> bool {
        !self.header.content_flushed && self.new.iter().any(|(new, name)| *new == pbn && is(name))
    }

    /// Returns whether the epoch gives a block its entry.
    pub(super) fn gives_entry(&self, pbn: u64) -> bool {
        self.new_entries.contains(&pbn)
    }

    /// Returns the block that an LBN of the epoch has, if the epoch changes it.
    pub(super) fn meaning(&self, lbn: u64) -> Option<Option<u64>> {
        self.means.get(&lbn).copied()
    }

    /// Lists the LBNs that the epoch changes.
    pub(super) fn lbns(&self) -> impl Iterator<Item = u64> + '_ {
        self.means.keys().copied()
    }

    /// Returns the units so far, each with its block and content.
    pub(super) fn sent(&self) -> &[(u64, Shared)] {
        &self.sent
    }

    /// Returns the changes so far.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the changes, and ends.
    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Returns the new blocks, with the fingerprints that their records give.
    pub(super) fn new_blocks(&self) -> &[(u64, FingerprintEntry)] {
        &self.new
    }

    /// Adds a unit.
    pub(super) fn add_sent(&mut self, pbn: u64, content: Shared) {
        self.sent.push((pbn, content));
    }

    /// Adds new blocks.
    pub(super) fn add_new(&mut self, blocks: impl IntoIterator<Item = (u64, FingerprintEntry)>) {
        self.new.extend(blocks);
    }

    /// Adds a block that gets its entry.
    pub(super) fn add_entry(&mut self, pbn: u64) {
        self.new_entries.insert(pbn);
    }

    /// Adds changes.
    pub(super) fn add_changes(&mut self, changes: Vec<Change>) {
        self.changes.extend(changes);
    }

    /// Links an LBN.
    pub(super) fn link(&mut self, lbn: u64, pbn: Option<u64>) {
        self.means.insert(lbn, pbn);
    }
}
