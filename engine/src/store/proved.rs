//! A volume whose records are damaged serves what it can prove.
//!
//! 1. Records count up to the last epoch before the hole. What came later may stand on pages all the same, each sector as new as its tag
//!    says.
//! 2. An LBN is served where its content is what a fingerprint says, or its carrier the one that the carrier's entry names, *and* the
//!    sectors of its map entry and of that fingerprint are of the same age: then both are of one moment, and the content is the LBN's own
//!    as of then, never a stranger's.
//! 3. Everything else is an error: zeros, for nothing proves them; content with a checksum only; what cannot be read.

use super::Store;
use super::verify::Expect;
use crate::fingerprint::Digest;
use crate::format::page::PageId;
use crate::tables::Access;
use crate::units::{BLOCK_SIZE, Epoch, Lbn, Pbn, count, index};

impl Store {
    /// Whether what came from the device for an LBN is proved to be its own (invariant 2). `Err`: that page has to come first.
    pub fn is_proved(&mut self, lbn: Lbn, pbn: Pbn, expect: &Expect, digest: Digest, block: &[u8; BLOCK_SIZE]) -> Result<bool, PageId> {
        let Some(last) = self.tables.proved_only else { return Ok(true) };
        let is_it = match expect {
            Expect::Fingerprint(value) => digest == Digest::Of(*value),
            Expect::Carrier(value) => self.authentic(pbn, block) == Some(*value),
            // Too short a name to prove whose content it is.
            Expect::Short(_) | Expect::Checksum(_) | Expect::Unknown | Expect::Page(_) => false,
        };
        let map = self.age(self.geometry.map_of(lbn), last)?;
        let name = self.age(self.geometry.fingerprint_of(pbn), last)?;
        Ok(is_it && map.is_some() && map == name)
    }

    /// Up to which epoch the sector of an entry is known; none where it cannot be read.
    fn age(&mut self, (page, entry): (PageId, usize), last: Epoch) -> Result<Option<Epoch>, PageId> {
        let sector = index(count(entry) / page.region.entries_per_sector());
        match self.tables.ensure(&mut self.io, page) {
            Access::Loading => Err(page),
            Access::Unreadable => Ok(None),
            Access::Ready(resident) => Ok(Some(last.max(Epoch(resident.page().content.tag(sector))))),
        }
    }
}
