//! The search for a stored block that holds the written content.
//!
//! 1. A block is linked to only when the fingerprint table, or a pending block, confirms the index.
//! 2. Nothing here waits: [`Blocked`] names what is missing, and the caller tries again once it is there.

use super::Store;
use super::slot::{in_slot, slot_of};
use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, REFS_UNKNOWN};
use crate::interface::Notice;
use crate::schedule::Blocked;
use crate::tables::Access;
use crate::units::{Epoch, Lbn, Pbn};

/// The result of a byte-by-byte comparison so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Nothing,
    Same(Pbn),
    /// The same as the content of that slot, in the carrier with this authenticator.
    SameSlot(Pbn, u8, Fingerprint),
    Differs(Pbn),
}

/// The time since which an LBN has its mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Durable,
    /// Since this epoch, which fills or commits.
    Epoch(Epoch),
}

/// The result of the search for a duplicate.
pub(crate) enum Known {
    /// The LBN is to be linked to this slot of the block, whose refs page is in memory.
    Duplicate(Pbn, u8),
    /// The LBN is mapped to this slot of the block already.
    Unchanged(Pbn, u8, Since),
    New,
}

impl Store {
    /// Finds a stored block with this content that may take one more link.
    pub fn find_duplicate(&mut self, lbn: Lbn, slice: &Slice, fp: &Fingerprint, compared: Compared) -> Result<Known, Blocked> {
        let Some(pbn) = self.index.look_up(fp).map_err(Blocked::Page)? else { return Ok(Known::New) };
        if compared == Compared::Differs(pbn) || self.contents.suspects.contains(&pbn) {
            return Ok(Known::New);
        }
        let Some(slot) = self.confirmed(pbn, fp, compared)? else {
            self.index.remove(fp, pbn);
            return Ok(Known::New);
        };
        if let Some(since) = self.means_already(lbn, pbn, slot) {
            return Ok(Known::Unchanged(pbn, slot, since));
        }
        let (page, _) = self.geometry.refs_of(pbn);
        match self.tables.ensure(&mut self.io, page) {
            Access::Loading => return Err(Blocked::Page(page)),
            Access::Unreadable => return Ok(Known::New),
            Access::Ready(_) => {}
        }
        let refs = self.tables.refs_now(pbn);
        if refs == 0 {
            self.io.notice(Notice::Damage { what: "a fingerprint names a block without links", at: pbn.0 });
            self.index.remove(fp, pbn);
            return Ok(Known::New);
        }
        if refs == REFS_UNKNOWN || refs >= self.space.link_limit(&self.tables) {
            self.io.ledger.overflows += u64::from(refs != REFS_UNKNOWN);
            return Ok(Known::New);
        }
        // A slot has been compared if its carrier had to be read; otherwise it is compared here.
        let is_compared = compared == Compared::Same(pbn) || matches!(compared, Compared::SameSlot(same, ..) if same == pbn);
        if self.settings.verify_duplicates && !is_compared {
            match self.in_memory(pbn).map(|block| in_slot(&block, slot)) {
                Some(Some(stored)) if stored.block(0) == slice.block(0) => {}
                Some(_) => return Ok(Known::New),
                None if slot > 0 => return Err(Blocked::Carrier(pbn)),
                None => return Err(Blocked::Compare(pbn)),
            }
        }
        Ok(Known::Duplicate(pbn, slot))
    }

    /// The slot of `pbn` that holds this content, as the fingerprint table or the pending block says.
    fn confirmed(&mut self, pbn: Pbn, fp: &Fingerprint, compared: Compared) -> Result<Option<u8>, Blocked> {
        if pbn.0 >= self.geometry.data_blocks {
            return Ok(None);
        }
        let birth = self.space.fresh.get(pbn).filter(|fresh| fresh.waits);
        let entry = match birth.map(|fresh| FingerprintEntry { kind: fresh.kind, value: fresh.fingerprint }) {
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
            Kind::Carrier => match compared {
                Compared::SameSlot(same, slot, authenticator) if same == pbn && authenticator == entry.value => Ok(Some(slot)),
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
        self.space.fresh.get(pbn).and_then(|fresh| fresh.held.clone()).or_else(|| self.contents.cache.get(pbn))
    }

    /// The time since which the LBN is mapped to this slot, if that is known without I/O.
    fn means_already(&mut self, lbn: Lbn, pbn: Pbn, slot: u8) -> Option<Since> {
        let (entry, since) = match self.tables.overlay(lbn) {
            Some((entry, epoch)) => (entry, Since::Epoch(epoch)),
            None => {
                let (page, at) = self.geometry.map_of(lbn);
                (self.geometry.known(self.tables.pages.get(page)?.content.map(at)), Since::Durable)
            }
        };
        (entry == MapEntry::Block { pbn, slot }).then_some(since)
    }

    /// Forgets the fingerprint of a pending block whose last link is gone: it need not enter the table.
    pub fn end_birth(&mut self, pbn: Pbn) {
        let Some(fresh) = self.space.fresh.get_mut(pbn) else { return };
        fresh.waits = false;
        let (kind, fingerprint, epoch, done) = (fresh.kind, fresh.fingerprint, fresh.epoch, fresh.held.is_none());
        if self.contents.held.remove(Epoch(epoch), pbn).is_some() || done {
            self.space.forget_fresh(pbn);
        }
        if kind == Kind::Fingerprint {
            self.index.remove(&fingerprint, pbn);
        }
    }

    /// Whether the content of a block is held back, and so neither on the device nor on its way there.
    pub fn is_held_back(&self, pbn: Pbn) -> bool {
        self.space.fresh.get(pbn).is_some_and(|fresh| self.contents.held.contains(Epoch(fresh.epoch), pbn))
    }

    /// Notes that another LBN is mapped to a block, if the block is held back.
    pub fn held_for_another(&mut self, pbn: Pbn, lbn: Lbn) {
        if let Some(fresh) = self.space.fresh.get(pbn) {
            self.contents.held.means_too(Epoch(fresh.epoch), pbn, lbn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferMut;
    use crate::format::page::{PageId, Region};

    #[test]
    fn a_write_waits_for_what_the_index_has_to_read_first() {
        let mut store = crate::test_kit::store();
        let page = PageId { region: Region::Fingerprints, index: 3 };
        let (content, fp) = (BufferMut::zeroed(1).freeze().slice(0, 1), Fingerprint::of_digest(&[5; 20]));
        store.index.absent = Some(page);
        let first = store.find_duplicate(Lbn(0), &content, &fp, Compared::Nothing);
        assert!(matches!(first, Err(Blocked::Page(waits_for)) if waits_for == page));
        assert!(matches!(store.find_duplicate(Lbn(0), &content, &fp, Compared::Nothing), Ok(Known::New)), "it asks again");
    }
}
