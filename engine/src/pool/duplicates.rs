//! The search for a stored block that holds the written content.
//!
//! 1. A block is linked to only when the fingerprint table, or a pending block, confirms the index.
//! 2. Nothing here waits: [`Blocked`] names what is missing, and the caller tries again once it is there.

use super::Pool;
use super::slot::{Place, in_slot, slot_of};
use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, REFS_UNKNOWN};
use crate::format::page::PageId;
use crate::format::unit;
use crate::interface::Notice;
use crate::schedule::Blocked;
use crate::tables::Access;
use crate::units::{Epoch, Lbn, Pbn, count};

/// Entries of the fingerprint table are read this number of blocks before a run of duplicates needs them.
const READ_AHEAD_BLOCKS: u64 = 64;

/// The result of a byte-by-byte comparison so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Nothing,
    Same(Pbn),
    /// The same as the content of that slot, in the carrier with this authenticator.
    SameSlot(Pbn, u8, Fingerprint),
    Differs(Pbn),
}

/// The time since which an LBN has its mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappedSince {
    Durable,
    /// Since this epoch, which fills or commits.
    Epoch(Epoch),
}

/// The result of the search for a duplicate.
pub(crate) enum DuplicateSearch {
    /// The LBN is to be linked to this slot of the block, whose refs page is in memory.
    Duplicate(Pbn, u8),
    /// The LBN is mapped to this slot of the block already.
    Unchanged(Pbn, u8, MappedSince),
    New,
    /// Another block may hold the content, but the LBN is not to be linked to it.
    Filtered,
}

impl Pool {
    /// Finds a stored block with this content that may take one more link.
    pub fn find_duplicate(&mut self, lbn: Lbn, slice: &Slice, fp: &Fingerprint, compared: Comparison) -> Result<DuplicateSearch, Blocked> {
        let Some((pbn, slot)) = self.holder(lbn, fp, compared)? else { return Ok(DuplicateSearch::New) };
        if let Some(since) = self.mapped_since(lbn, pbn, slot) {
            let has_it = self.has_content((pbn, slot), slice, compared)?;
            return Ok(if has_it { DuplicateSearch::Unchanged(pbn, slot, since) } else { DuplicateSearch::New });
        }
        let (page, at) = self.geometry.refs_of(pbn);
        let committed = match self.tables.ensure(&mut self.io, page) {
            Access::Loading => return Err(Blocked::Page(page)),
            Access::Unreadable => return Ok(DuplicateSearch::New),
            Access::Ready(resident) => resident.page().content.refs(at),
        };
        let refs = self.tables.with_pending(pbn, committed);
        if refs == 0 {
            self.io.notice(Notice::Damage { what: "a fingerprint names a block without links", at: pbn.0 });
            self.index.remove(fp, pbn);
            return Ok(DuplicateSearch::New);
        }
        if refs == REFS_UNKNOWN {
            return Ok(DuplicateSearch::New);
        }
        if refs >= self.space.link_limit(&self.tables) {
            self.io.ledger.overflowed();
            // Another block may have the content.
            return if self.leave_out(fp, pbn) { self.find_duplicate(lbn, slice, fp, compared) } else { Ok(DuplicateSearch::New) };
        }
        let has_it = self.has_content((pbn, slot), slice, compared)?;
        Ok(if has_it { DuplicateSearch::Duplicate(pbn, slot) } else { DuplicateSearch::New })
    }

    /// Lets nothing lead to a block that takes no further link. Whether something did.
    fn leave_out(&mut self, fp: &Fingerprint, pbn: Pbn) -> bool {
        let was_read = self.prefetched.place(fp) == Some(pbn);
        if was_read {
            self.prefetched.forget(fp);
        }
        self.index.remove(fp, pbn) || was_read
    }

    /// Whether a place holds these bytes, if duplicates are compared byte by byte.
    fn has_content(&mut self, (pbn, slot): Place, slice: &Slice, compared: Comparison) -> Result<bool, Blocked> {
        // A slot has been compared if its carrier had to be read; otherwise it is compared here.
        let is_compared = || compared == Comparison::Same(pbn) || matches!(compared, Comparison::SameSlot(same, ..) if same == pbn);
        if !self.settings.verify_duplicates || is_compared() {
            return Ok(true);
        }
        match self.in_memory(pbn).map(|block| in_slot(&block, slot)) {
            Some(stored) => Ok(stored.is_some_and(|stored| stored.block(0) == slice.block(0))),
            None if slot > 0 => Err(Blocked::Carrier(pbn)),
            None => Err(Blocked::Compare(pbn)),
        }
    }

    /// A block with this content, and its slot: one that the index has, or one that goes on with a run of duplicates. A page is waited for
    /// only for the first one of all: with little memory, those of two blocks might never be there at once.
    fn holder(&mut self, lbn: Lbn, fp: &Fingerprint, compared: Comparison) -> Result<Option<(Pbn, u8)>, Blocked> {
        // It is compared with one block at most: of two that differ, each would be read again and again in turn.
        if matches!(compared, Comparison::Differs(_)) {
            return Ok(None);
        }
        if let Some(place) = self.read_before(lbn, fp, compared)? {
            return Ok(Some(place));
        }
        let mut has_any = false;
        for nth in 0.. {
            let Some(pbn) = self.index.look_up(fp, nth).map_err(Blocked::Page)? else { break };
            has_any = true;
            if self.is_excluded(pbn, compared) {
                continue;
            }
            if nth > 0 && self.is_settled(pbn) != Ok(true) {
                self.index.left_out(fp);
                continue;
            }
            match self.confirmed_or_expected(lbn, pbn, fp, compared)? {
                Some(slot) => return Ok(Some((pbn, slot))),
                None => self.index.remove_unconfirmed(fp, pbn),
            }
        }
        self.follower(lbn, fp, compared, !has_any)
    }

    /// A block with this content that was read before, and its slot.
    fn read_before(&mut self, lbn: Lbn, fp: &Fingerprint, compared: Comparison) -> Result<Option<(Pbn, u8)>, Blocked> {
        let Some(pbn) = self.prefetched.place(fp).filter(|&pbn| !self.is_excluded(pbn, compared)) else { return Ok(None) };
        // Unlike those of the index, its entry does not go when the block loses its own.
        let found = if self.tables.is_losing_its_name(pbn) { None } else { self.confirmed_or_expected(lbn, pbn, fp, compared)? };
        if found.is_none() {
            self.prefetched.forget(fp);
        }
        Ok(found.map(|slot| (pbn, slot)))
    }

    /// A block with this content that goes on with a run of duplicates, and its slot. It may wait for the page of the likeliest one.
    fn follower(&mut self, lbn: Lbn, fp: &Fingerprint, compared: Comparison, may_wait: bool) -> Result<Option<(Pbn, u8)>, Blocked> {
        let Some(following) = self.index.following(lbn, fp) else { return Ok(None) };
        // Runs may have gone on while its content was read.
        let read = match compared {
            Comparison::Same(pbn) | Comparison::SameSlot(pbn, ..) => Some(pbn),
            Comparison::Nothing | Comparison::Differs(_) => None,
        };
        for (nth, pbn) in read.into_iter().chain(following).enumerate() {
            if self.is_excluded(pbn, compared) {
                continue;
            }
            match self.is_settled(pbn) {
                Ok(true) => {}
                Err(page) if may_wait && nth == 0 => {
                    self.index.note_duplicate(lbn, pbn, fp);
                    return Err(Blocked::Page(page));
                }
                Ok(false) | Err(_) => continue,
            }
            if let Some(slot) = self.confirmed_or_expected(lbn, pbn, fp, compared)? {
                // It is there when the run comes to it, or soon after.
                let _ahead = self.is_settled(Pbn((pbn.0 + READ_AHEAD_BLOCKS).min(self.geometry.data_blocks - 1)));
                return Ok(Some((pbn, slot)));
            }
        }
        for near in self.index.pages_around(lbn) {
            let Some(pbn) = self.beside(near, fp) else { continue };
            if self.is_excluded(pbn, compared) || self.is_settled(pbn) != Ok(true) {
                continue;
            }
            if let Some(slot) = self.confirmed_or_expected(lbn, pbn, fp, compared)? {
                return Ok(Some((pbn, slot)));
            }
        }
        Ok(None)
    }

    /// [`Self::confirmed`]. If that has to wait, the run goes on all the same: the other blocks of the request are looked for meanwhile.
    fn confirmed_or_expected(&mut self, lbn: Lbn, pbn: Pbn, fp: &Fingerprint, compared: Comparison) -> Result<Option<u8>, Blocked> {
        let found = self.confirmed(pbn, fp, compared);
        if found.is_err() {
            self.index.note_duplicate(lbn, pbn, fp);
        }
        found
    }

    /// A block with this content whose entry is on the same page, if that is in memory.
    fn beside(&self, pbn: Pbn, fp: &Fingerprint) -> Option<Pbn> {
        let page = (pbn.0 < self.geometry.data_blocks).then(|| self.geometry.fingerprint_of(pbn).0)?;
        let at = self.tables.pages.peek(page)?.find_fingerprint(fp)?;
        Some(self.geometry.first_pbn(page) + count(at))
    }

    /// Whether the entry of a block is known, and will stay. `Err`: this page with it is being read from now on.
    fn is_settled(&mut self, pbn: Pbn) -> Result<bool, PageId> {
        if self.tables.is_losing_its_name(pbn) {
            return Ok(false);
        }
        if self.space.pending.get(pbn).is_some_and(|pending| pending.waits) {
            return Ok(true);
        }
        let (page, _) = self.geometry.fingerprint_of(pbn);
        match self.tables.ensure(&mut self.io, page) {
            Access::Ready(_) => Ok(true),
            Access::Unreadable => Ok(false),
            Access::Loading => Err(page),
        }
    }

    /// Whether a block is not to be linked to, whatever its entry says.
    fn is_excluded(&self, pbn: Pbn, compared: Comparison) -> bool {
        pbn.0 >= self.geometry.data_blocks || compared == Comparison::Differs(pbn) || self.contents.suspects.contains(pbn)
    }

    /// Finds out whether the LBN means this content already. It is not to be linked to any other block.
    pub fn find_unchanged(&mut self, lbn: Lbn, slice: &Slice, fp: &Fingerprint, compared: Comparison) -> Result<DuplicateSearch, Blocked> {
        if self.index.look_up(fp, 0).map_err(Blocked::Page)?.is_none() {
            return Ok(DuplicateSearch::New);
        }
        let Some(MapEntry::Block { pbn, slot }) = self.tables.lookup(&mut self.io, lbn).map_err(Blocked::Page)? else {
            return Ok(DuplicateSearch::Filtered);
        };
        if self.is_excluded(pbn, compared) {
            return Ok(DuplicateSearch::Filtered);
        }
        let is_there = match self.confirmed(pbn, fp, compared)? {
            Some(first) if first != slot => self.is_in_slot(pbn, slot, fp),
            found => found.is_some(),
        };
        let since = self.tables.overlay(lbn).map_or(MappedSince::Durable, |(_, epoch)| MappedSince::Epoch(epoch));
        let is_there = is_there && self.has_content((pbn, slot), slice, compared)?;
        Ok(if is_there { DuplicateSearch::Unchanged(pbn, slot, since) } else { DuplicateSearch::Filtered })
    }

    /// Whether a slot has this content, in a carrier in memory that may have it several times.
    fn is_in_slot(&mut self, pbn: Pbn, slot: u8, fp: &Fingerprint) -> bool {
        let fingerprints = self.in_memory(pbn).map(|block| unit::fingerprints(block.block(0)));
        fingerprints.is_some_and(|all| usize::from(slot).checked_sub(1).and_then(|at| all.get(at)) == Some(fp))
    }

    /// The slot of `pbn` that holds this content, as the fingerprint table or the pending block says.
    fn confirmed(&mut self, pbn: Pbn, fp: &Fingerprint, compared: Comparison) -> Result<Option<u8>, Blocked> {
        let waiting = self.space.pending.get(pbn).filter(|pending| pending.waits);
        let entry = match waiting.map(|pending| FingerprintEntry { kind: pending.kind, value: pending.fingerprint }) {
            Some(entry) => entry,
            None => {
                let (page, at) = self.geometry.fingerprint_of(pbn);
                match self.tables.ensure(&mut self.io, page) {
                    Access::Loading => return Err(Blocked::Page(page)),
                    Access::Unreadable => return Ok(None),
                    Access::Ready(resident) => resident.page().content.fingerprint(at),
                }
            }
        };
        match entry.kind {
            Kind::Fingerprint => Ok((entry.value == *fp).then_some(0)),
            // A carrier whose entry the log removes still has the entry on its page, and its slots may be in the index.
            Kind::Carrier if self.tables.is_losing_its_name(pbn) => Ok(None),
            // The entry shows that none of its slots has it.
            Kind::Carrier if !unit::heads_of_slots(&entry.value).any(|heads| heads.contains(&fp.head())) => Ok(None),
            Kind::Carrier => match compared {
                Comparison::SameSlot(same, slot, authenticator) if same == pbn && authenticator == entry.value => Ok(Some(slot)),
                _ => match self.in_memory(pbn) {
                    Some(block) => Ok(slot_of(block.block(0), fp)),
                    None => Err(Blocked::Carrier(pbn)),
                },
            },
            Kind::None | Kind::Checksum => Ok(None),
        }
    }

    /// The content of a block, if it is in memory and known to be right.
    pub fn in_memory(&mut self, pbn: Pbn) -> Option<Slice> {
        self.space.pending.get(pbn).and_then(|pending| pending.content.clone()).or_else(|| self.contents.cache.get(pbn))
    }

    /// The time since which the LBN is mapped to this slot, if that is known without I/O.
    fn mapped_since(&mut self, lbn: Lbn, pbn: Pbn, slot: u8) -> Option<MappedSince> {
        let (entry, epoch) = self.tables.lookup_here(lbn)?;
        let since = epoch.map_or(MappedSince::Durable, MappedSince::Epoch);
        (entry == MapEntry::Block { pbn, slot }).then_some(since)
    }

    /// Forgets the fingerprint of a pending block whose last link is gone: it need not enter the table.
    pub fn drop_fingerprint(&mut self, pbn: Pbn) {
        let pending = self.space.pending.get_mut(pbn).expect("only a pending block loses its fingerprint here");
        pending.waits_no_more();
        let (kind, fingerprint, epoch, done) = (pending.kind, pending.fingerprint, pending.epoch, pending.content.is_none());
        if self.contents.held.remove(Epoch(epoch), pbn).is_some() || done {
            self.space.forget_pending(pbn);
        }
        if kind == Kind::Fingerprint {
            self.index.remove(&fingerprint, pbn);
        }
    }

    /// Whether the content of a block is held back, and so neither on the device nor being written.
    pub fn is_held_back(&self, pbn: Pbn) -> bool {
        self.space.pending.get(pbn).is_some_and(|pending| self.contents.held.contains(Epoch(pending.epoch), pbn))
    }

    /// Notes that another LBN is mapped to a block, if the block is held back.
    pub fn also_mapped_by(&mut self, pbn: Pbn, lbn: Lbn) {
        if let Some(pending) = self.space.pending.get(pbn) {
            self.contents.held.add_lbn(Epoch(pending.epoch), pbn, lbn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferMut;
    use crate::format::page::Region;

    /// The place of content that was read is older than the removal of its block's entry, which the page does not show yet.
    #[test]
    fn content_that_was_read_is_not_linked_to_a_block_that_loses_its_entry() {
        let mut parts = crate::test_kit::parts();
        let (content, fp) = (BufferMut::zeroed(1).freeze().slice(0, 1), Fingerprint::of_digest(&[5; 20]));
        parts.pool.prefetched.note(fp, Pbn(10));
        let waits = parts.pool.find_duplicate(Lbn(6), &content, &fp, Comparison::Nothing);
        assert!(matches!(waits, Err(Blocked::Page(_))), "its entry has to confirm it");
        parts.pool.tables.open.removed.insert(Pbn(10));
        let found = parts.pool.find_duplicate(Lbn(6), &content, &fp, Comparison::Nothing);
        assert!(matches!(found, Ok(DuplicateSearch::New)));
        assert_eq!(parts.pool.prefetched.place(&fp), None);
    }

    #[test]
    fn a_write_waits_for_the_page_of_the_block_that_most_likely_goes_on_with_its_run() {
        let mut parts = crate::test_kit::parts();
        let (content, fp) = (BufferMut::zeroed(1).freeze().slice(0, 1), Fingerprint::of_digest(&[5; 20]));
        parts.pool.index.note_duplicate(Lbn(5), Pbn(10), &Fingerprint::of_digest(&[1; 20]));
        let (page, _) = parts.pool.geometry.fingerprint_of(Pbn(11));
        let next = parts.pool.find_duplicate(Lbn(6), &content, &fp, Comparison::Nothing);
        assert!(matches!(next, Err(Blocked::Page(waits_for)) if waits_for == page));
        assert!(
            matches!(parts.pool.find_duplicate(Lbn(900), &content, &fp, Comparison::Nothing), Ok(DuplicateSearch::New)),
            "no run leads there"
        );
    }

    #[test]
    fn a_write_waits_for_what_the_index_has_to_read_first() {
        let mut parts = crate::test_kit::parts();
        let page = PageId { region: Region::Fingerprints, index: 3 };
        let (content, fp) = (BufferMut::zeroed(1).freeze().slice(0, 1), Fingerprint::of_digest(&[5; 20]));
        parts.pool.index.absent = Some(page);
        let first = parts.pool.find_duplicate(Lbn(0), &content, &fp, Comparison::Nothing);
        assert!(matches!(first, Err(Blocked::Page(waits_for)) if waits_for == page));
        assert!(matches!(parts.pool.find_duplicate(Lbn(0), &content, &fp, Comparison::Nothing), Ok(DuplicateSearch::New)), "it asks again");
    }
}
