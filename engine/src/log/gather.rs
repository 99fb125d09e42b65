//! What an epoch's records say: for each LBN what it means from now on, and the block that it meant before.
//!
//! The records of a large epoch name runs of new blocks without their fingerprints: those enter their pages after the commit, as in mode
//! `ordered`, and a crash may lose them.
//!
//! A map page in memory holds what is committed, so that is where the old blocks stand; its pages come first.

use crate::engine::Engine;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::format::page::{PageId, Region};
use crate::format::record::{OldRun, Record};
use crate::units::{Lbn, Pbn, index};

/// LBNs that lie side by side and are unmapped, with what they meant.
struct Clearing {
    lbn: Lbn,
    end: Lbn,
    olds: Vec<OldRun>,
}

impl Clearing {
    fn take(self) -> Record {
        Record::Clear { lbn: self.lbn, to: MapEntry::Unmapped, olds: self.olds }
    }

    fn push(&mut self, old: Option<Pbn>) {
        self.end += 1;
        push_old(&mut self.olds, old);
    }
}

fn push_old(olds: &mut Vec<OldRun>, old: Option<Pbn>) {
    match olds.last_mut() {
        Some(run) if run.first.map(|first| first + run.blocks) == old => run.blocks += 1,
        _ => olds.push(OldRun { first: old, blocks: 1 }),
    }
}

/// Adds a block to the run of new blocks that it goes on, if it does.
fn extend(last: Option<&mut Record>, lbn: Lbn, pbn: Pbn, old: Option<Pbn>) -> bool {
    let Some(Record::Extent { lbn: first_lbn, pbn: first_pbn, olds }) = last else { return false };
    let blocks: u64 = olds.iter().map(|run| run.blocks).sum();
    let goes_on = *first_lbn + blocks == lbn && *first_pbn + blocks == pbn;
    if goes_on {
        push_old(olds, old);
    }
    goes_on
}

impl Engine {
    /// Gathers the records of the committing epoch that lie on one map page, which is in memory.
    pub(crate) fn gather(&mut self, id: PageId) {
        let commit = self.commit.as_mut().expect("a step belongs to a commit");
        let first = self.geometry.first_lbn(id);
        let end = Lbn((first.0 + Region::Map.entries_per_page()).min(self.geometry.logical_blocks));
        let page = self.pages.expect(id);
        let before = commit.epoch.ranges.range(..first).next_back().map(|(&f, &e)| (f, e));
        let within = commit.epoch.ranges.range(first..end).map(|(&f, &e)| (f, e));
        let mut clearing: Option<Clearing> = None;
        for (range_first, range_end) in before.into_iter().chain(within) {
            for lbn in (range_first.max(first).0..range_end.min(end).0).map(Lbn) {
                let old = page.content.map(index(lbn - first));
                if old == MapEntry::Unmapped || commit.epoch.points.contains_key(&lbn) {
                    continue;
                }
                if clearing.as_ref().is_some_and(|c| c.end != lbn) {
                    commit.log.records.extend(clearing.take().map(Clearing::take));
                }
                clearing.get_or_insert_with(|| Clearing { lbn, end: lbn, olds: Vec::new() }).push(old.pbn());
            }
        }
        commit.log.records.extend(clearing.map(Clearing::take));
        for (&lbn, &to) in commit.epoch.points.range(first..end) {
            let old = page.content.map(index(lbn - first));
            if old == to {
                // The increment of a link that was there already goes again.
                commit.epoch.cancelled.extend(to.pbn());
                continue;
            }
            let old = old.pbn();
            let newborn = to.pbn().filter(|pbn| commit.log.newborn.remove(pbn));
            if let Some(authenticator) = newborn.and_then(|pbn| self.fresh.get(&pbn)).filter(|fresh| fresh.kind == Kind::Carrier) {
                let (pbn, authenticator) = (to.pbn().expect("it was just born"), authenticator.fingerprint);
                commit.log.records.push(Record::Carrier { pbn, authenticator });
                commit.log.records.push(Record::Link { lbn, to, old });
                continue;
            }
            let record = match newborn.and_then(|pbn| Some((pbn, self.fresh.get(&pbn)?))) {
                Some((pbn, fresh)) if commit.log.is_large && fresh.kind == Kind::Fingerprint => {
                    if extend(commit.log.records.last_mut(), lbn, pbn, old) {
                        continue;
                    }
                    Record::Extent { lbn, pbn, olds: vec![OldRun { first: old, blocks: 1 }] }
                }
                Some((pbn, fresh)) => {
                    let name = FingerprintEntry { kind: fresh.kind, value: fresh.fingerprint };
                    Record::New { lbn, pbn, old, name }
                }
                None => Record::Link { lbn, to, old },
            };
            commit.log.records.push(record);
        }
    }

    /// What is left when all map pages have been gathered: fingerprints that go.
    pub(crate) fn gather_rest(&mut self) {
        let commit = self.commit.as_mut().expect("a step belongs to a commit");
        debug_assert!(commit.log.newborn.is_empty(), "every block that was born has a record");
        commit.log.records.extend(commit.epoch.removed.iter().map(|&pbn| Record::Removed { pbn }));
    }
}
