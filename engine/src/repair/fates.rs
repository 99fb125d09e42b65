//! The blocks to which links are given up, and the entries that change for another reason than damage of their own sector.

use crate::format::FingerprintEntry;
use crate::units::Pbn;
use std::collections::BTreeMap;

/// Bytes that one fate takes.
pub(super) const FATE_BYTES: u64 = 128;

/// A carrier that proves itself and its slots.
pub(super) struct Carrier {
    pub(super) entry: FingerprintEntry,
    pub(super) slots: u8,
}

/// The fate of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// Links to the block as a whole are given up.
    pub(super) loses_whole: bool,
    /// Links to slots above this one are given up; to all of them where it is 0.
    pub(super) slots: Option<u8>,
    /// The entry that it gets.
    pub(super) entry: Option<FingerprintEntry>,
}

/// The blocks that have one.
#[derive(Debug, Default)]
pub(super) struct Fates(BTreeMap<Pbn, Fate>);

impl Fates {
    pub(super) fn loses(&self, pbn: Pbn, slot: u8) -> bool {
        self.0.get(&pbn).is_some_and(|fate| if slot == 0 { fate.loses_whole } else { fate.slots.is_some_and(|slots| slot > slots) })
    }

    pub(super) fn entry(&self, pbn: Pbn) -> Option<FingerprintEntry> {
        self.0.get(&pbn).and_then(|fate| fate.entry)
    }

    pub(super) fn of(&mut self, pbn: Pbn) -> &mut Fate {
        self.0.entry(pbn).or_default()
    }

    /// The block is this carrier.
    pub(super) fn be(&mut self, pbn: Pbn, carrier: Carrier) {
        *self.of(pbn) = Fate { loses_whole: true, slots: Some(carrier.slots), entry: Some(carrier.entry) };
    }

    /// The number of blocks that have one.
    pub(super) fn number(&self) -> usize {
        self.0.len()
    }

    /// Nothing of the block can be relied on.
    pub(super) fn lose(&mut self, pbn: Pbn) {
        *self.of(pbn) = Fate { loses_whole: true, slots: Some(0), entry: Some(FingerprintEntry::NONE) };
    }
}
