//! Step 3: decrements enter the refs pages in memory, and fingerprints enter the fingerprint pages.
//!
//! 1. A decrement comes here only after the removal of its link is durable (R3), and a pending block only after its content and count are
//!    (R1, R2).
//! 2. A page that cannot be read takes neither. So a count stays too high and a fingerprint is lost, but nothing else (P5).

use super::Pool;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::schedule::Task;
use crate::tables::Access;
use crate::units::{Pbn, index};

impl Pool {
    /// Enters everything whose page is in memory, and asks for the pages of the rest.
    pub fn settle_all(&mut self) {
        self.settle_new_pending();
        self.settle_pending();
        self.settle_restored();
        self.settle_new_unlinked();
        self.settle_unlinked();
    }

    /// Enters the decrements whose page is in memory. These are most of them, so only the others are sorted.
    fn settle_new_unlinked(&mut self) {
        for pbn in self.settle.take_new_unlinked() {
            if self.tables.pages.get(self.geometry.refs_of(pbn).0).is_some() {
                self.space.change_refs(&mut self.io, &mut self.tables, pbn, -1);
            } else {
                *self.settle.unlinked.entry(pbn).or_insert(0) += 1;
            }
        }
    }

    fn settle_unlinked(&mut self) {
        let mut from = Pbn(0);
        let mut waiting = 0;
        while let Some((&pbn, _)) = self.settle.unlinked.range(from..).next() {
            let (id, _) = self.geometry.refs_of(pbn);
            from = self.geometry.first_pbn(id) + Region::Refs.entries_per_page();
            match self.tables.ensure(&mut self.io, id) {
                Access::Loading => {
                    self.tables.wait(&mut self.io, id, Task::Settle);
                    waiting += 1;
                    if waiting >= self.tables.pages.waiting_max() {
                        return;
                    }
                }
                Access::Ready(_) => {
                    for (pbn, times) in self.take_unlinked(pbn, from) {
                        if times > 0 {
                            // No valid count has 255 links: to take that many makes any count unknown, as to take more would.
                            let links = u8::try_from(times).unwrap_or(u8::MAX);
                            self.space.change_refs(&mut self.io, &mut self.tables, pbn, -i16::from(links));
                        }
                        self.space.let_leave_scheme(&mut self.tables, pbn);
                    }
                }
                Access::Unreadable => {
                    self.take_unlinked(pbn, from);
                    self.io.notice(Notice::Damage { what: "a refs page that cannot be read keeps its counts", at: id.index });
                }
            }
        }
    }

    fn take_unlinked(&mut self, first: Pbn, end: Pbn) -> Vec<(Pbn, u32)> {
        let taken: Vec<(Pbn, u32)> = self.settle.unlinked.range(first..end).map(|(&pbn, &times)| (pbn, times)).collect();
        for (pbn, _) in &taken {
            self.settle.unlinked.remove(pbn);
        }
        taken
    }

    fn settle_new_pending(&mut self) {
        let to_insert = self.settle.take_new_to_insert();
        for (i, &(pbn, epoch)) in to_insert.iter().enumerate() {
            let (id, at) = self.geometry.fingerprint_of(pbn);
            if self.tables.pages.get(id).is_none() {
                self.settle.to_insert.insert(pbn, epoch);
                continue;
            }
            self.enter_pending(id, at, (pbn, epoch), to_insert.get(i + 1).map(|&(next, _)| next));
        }
    }

    fn settle_pending(&mut self) {
        let mut from = Pbn(0);
        let mut waiting = 0;
        while let Some((&pbn, &epoch)) = self.settle.to_insert.range(from..).next() {
            let (id, at) = self.geometry.fingerprint_of(pbn);
            from = pbn + 1;
            match self.tables.ensure(&mut self.io, id) {
                Access::Loading => {
                    self.tables.wait(&mut self.io, id, Task::Settle);
                    from = self.geometry.first_pbn(id) + Region::Fingerprints.entries_per_page();
                    waiting += 1;
                    if waiting >= self.tables.pages.waiting_max() {
                        return;
                    }
                    continue;
                }
                Access::Ready(_) => {
                    let next = self.settle.to_insert.range(from..).next().map(|(&next, _)| next);
                    self.enter_pending(id, at, (pbn, epoch), next);
                }
                Access::Unreadable => {
                    self.io.notice(Notice::Damage { what: "a fingerprint page that cannot be read takes no fingerprints", at: id.index });
                    self.end_pending(pbn, epoch);
                }
            }
            self.settle.to_insert.remove(&pbn);
        }
    }

    fn settle_restored(&mut self) {
        for (pbn, fingerprint) in self.settle.take_named() {
            let (id, _) = self.geometry.fingerprint_of(pbn);
            match self.tables.ensure(&mut self.io, id) {
                Access::Ready(_) => self.enter_name(pbn, fingerprint),
                Access::Unreadable => {
                    self.io.notice(Notice::Damage { what: "a fingerprint page that cannot be read takes no fingerprints", at: id.index });
                }
                Access::Loading => {
                    self.settle.named.insert(pbn, fingerprint);
                    self.tables.wait(&mut self.io, id, Task::Settle);
                }
            }
        }
    }

    /// Enters the fingerprint of a pending block on its page, which is in memory. `next`: the pending block that comes after it.
    fn enter_pending(&mut self, id: PageId, at: usize, (pbn, epoch): (Pbn, u64), next: Option<Pbn>) {
        self.enter_entry(id, at, pbn, epoch);
        // A full page has nothing to wait for, so it is written at once; in mode `log` the checkpoint writes it.
        if !self.tables.has_records() && next.is_none_or(|next| self.geometry.fingerprint_of(next).0 != id) {
            self.write_if_full(id);
        }
        self.end_pending(pbn, epoch);
    }

    fn enter_entry(&mut self, id: PageId, at: usize, pbn: Pbn, epoch: u64) {
        let Some(pending) = self.space.pending.get(pbn).filter(|f| f.waits && f.epoch == epoch) else { return };
        let entry = FingerprintEntry { kind: pending.kind, value: pending.fingerprint };
        debug_assert!(entry.kind != Kind::None);
        let page = self.tables.pages.expect(id);
        // In mode `log` the page has an entry with the short fingerprint already.
        let before = page.content.fingerprint(at);
        if before.is_none() || before.is_short_of(&entry) {
            page.content.set_fingerprint(at, entry);
            self.tables.pages.touch(id, self.io.now());
        } else {
            self.io.notice(Notice::Damage { what: "a new block had a fingerprint already", at: pbn.0 });
        }
    }

    /// Notes that the fingerprint no longer waits for the table. If the content is on the device too, the block is no longer pending.
    pub fn end_pending(&mut self, pbn: Pbn, epoch: u64) {
        if let Some(pending) = self.space.pending.get_mut(pbn).filter(|f| f.epoch == epoch) {
            pending.waits_no_more();
            if pending.content.is_none() {
                self.space.forget_pending(pbn);
            }
        }
    }

    fn write_if_full(&mut self, id: PageId) {
        let page = self.tables.pages.expect(id);
        // Blocks are allocated in ascending order, so a page is filled at its end last: the search for a gap begins there.
        let full = (0..index(Region::Fingerprints.entries_per_page())).rev().all(|i| !page.content.fingerprint(i).is_none());
        if full && page.dirty.is_some() && !page.writing {
            self.tables.write_page(&mut self.io, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the block would count links that are gone.
    #[test]
    fn each_link_that_a_block_has_lost_counts_while_its_page_is_read() {
        let mut parts = crate::test_kit::parts();
        parts.pool.settle.unlink([5, 7, 5].map(Pbn).to_vec());
        parts.pool.settle_all();
        parts.pool.settle.unlink(vec![Pbn(5)]);
        parts.pool.settle_all();
        assert_eq!(parts.pool.settle.unlinked().collect::<Vec<_>>(), [5, 5, 5, 7].map(Pbn));
    }
}
