//! The meaning of records, block by block: implemented a second time here, so that the checker does not rely on the engine's own
//! interpretation.

use crate::device::volume::entry_in_run;
use onefold_engine::format::{FingerprintEntry, Kind, MapEntry, OldRun, Record, Unit};
use onefold_engine::units::Pbn;

/// A change of one block, or of one LBN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Link {
        lbn: u64,
        to: MapEntry,
        old: Option<u64>,
    },
    /// A block gets its entry; the fingerprint is none if a compacted unit says only that the entry counts.
    NewEntry {
        pbn: u64,
        name: Option<FingerprintEntry>,
    },
    /// The entry of a block is removed.
    Removed {
        pbn: u64,
    },
}

/// Returns the changes of one record, in order.
pub(super) fn changes_of(record: &Record) -> Vec<Change> {
    let link = |lbn: u64, to: MapEntry, old: &Option<Pbn>| Change::Link { lbn, to, old: old.map(Pbn::get) };
    let entry = |pbn: Pbn, name| Change::NewEntry { pbn: pbn.get(), name };
    match record {
        Record::New { lbn, pbn, old, name } => {
            vec![link(lbn.get(), MapEntry::Block { pbn: *pbn, slot: 0 }, old), entry(*pbn, Some(*name))]
        }
        Record::Link { lbn, to, old } => vec![link(lbn.get(), *to, old)],
        Record::Extent { lbn, pbn, olds, shorts, is_apart } => {
            let one = |(i, (old, short)): (u64, (Option<Pbn>, &u32))| {
                let pbn = *pbn + i;
                [link(lbn.get() + i, MapEntry::Block { pbn, slot: 0 }, &old), entry(pbn, Some(entry_in_run(*short, *is_apart)))]
            };
            (0..).zip(each(olds).zip(shorts)).flat_map(one).collect()
        }
        Record::NewRun { lbn, pbn, olds } => {
            let one = |(i, old): (u64, Option<Pbn>)| {
                let pbn = *pbn + i;
                [link(lbn.get() + i, MapEntry::Block { pbn, slot: 0 }, &old), entry(pbn, None)]
            };
            (0..).zip(each(olds)).flat_map(one).collect()
        }
        Record::Clear { lbn, to, olds } => (lbn.get()..).zip(each(olds)).map(|(lbn, old)| link(lbn, *to, &old)).collect(),
        Record::Removed { pbn, blocks } => (0..*blocks).map(|i| Change::Removed { pbn: (*pbn + i).get() }).collect(),
        Record::Carrier { pbn, authenticator } => {
            vec![entry(*pbn, Some(FingerprintEntry { kind: Kind::Carrier, value: *authenticator }))]
        }
        Record::NewLink { lbn, to, old } => {
            let new_entry = to.pbn().map(|pbn| entry(pbn, None));
            std::iter::once(link(lbn.get(), *to, old)).chain(new_entry).collect()
        }
        Record::Closing { .. } | Record::Later { .. } => Vec::new(),
    }
}

/// Returns the change that a unit with slots makes: it is itself the record of its entry.
pub(super) fn entry_of_carrier(pbn: u64, unit: &Unit) -> Option<Change> {
    let name = FingerprintEntry { kind: Kind::Carrier, value: unit.authenticator };
    (!unit.slots.is_empty()).then_some(Change::NewEntry { pbn, name: Some(name) })
}

/// Lists the blocks of all runs, one for each LBN.
fn each(olds: &[OldRun]) -> impl Iterator<Item = Option<Pbn>> + '_ {
    olds.iter().flat_map(|run| (0..run.blocks).map(|i| run.first.map(|first| first + i)))
}

/// The total effect of an epoch's changes on map and refs, independent of the order in which entries are added and removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TotalEffect {
    links: Vec<(u64, MapEntry, Option<u64>)>,
    new_entries: Vec<u64>,
    removed: Vec<u64>,
}

impl TotalEffect {
    pub fn of<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let mut sum = Self::default();
        for change in changes {
            match *change {
                Change::Link { lbn, to, old } => sum.links.push((lbn, to, old)),
                Change::NewEntry { pbn, .. } => sum.new_entries.push(pbn),
                Change::Removed { pbn } => sum.removed.push(pbn),
            }
        }
        sum.new_entries.sort_unstable();
        sum.removed.sort_unstable();
        sum
    }
}
