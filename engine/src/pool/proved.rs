//! Proof of content on a volume whose records are damaged: such a volume serves only what it can prove.
//!
//! 1. Records count up to the last epoch before the hole. Pages may hold later changes; the tag of a sector says how new the sector is.
//! 2. An LBN is served if its content has the fingerprint of its entry, or its carrier is the one that the entry names, *and* the sectors
//!    of its map entry and of that fingerprint entry have the same age. Then both entries are of one moment, and the content belonged to
//!    the LBN at that moment.
//! 3. Everything else is an error: zeros, because nothing proves them; content that has only a checksum; content that cannot be read.

use super::Pool;
use super::expected::ExpectedContent;
use crate::fingerprint::Digest;
use crate::format::page::PageId;
use crate::format::unit;
use crate::tables::Entry;
use crate::units::{BLOCK_SIZE, Lbn, Pbn};

impl Pool {
    /// Whether a block that was read for an LBN is proved to be its own (invariant 2). `Err`: that page has to be loaded first.
    pub fn is_proved(
        &mut self,
        lbn: Lbn,
        pbn: Pbn,
        expect: &ExpectedContent,
        digest: Digest,
        block: &[u8; BLOCK_SIZE],
    ) -> Result<bool, PageId> {
        let Some(last) = self.tables.proved_only() else { return Ok(true) };
        let is_it = match expect {
            ExpectedContent::Fingerprint(value) => digest == Digest::Of(*value),
            ExpectedContent::Carrier(value) => self.keys.authentic(pbn, block).is_some() && unit::may_have_entry(value, block),
            // These prove nothing: a short fingerprint may belong to other content.
            ExpectedContent::Short(_) | ExpectedContent::Checksum(_) | ExpectedContent::Unknown | ExpectedContent::Page(_) => false,
        };
        let [map, name] = [self.tables.age(&mut self.io, Entry::Map(lbn))?, self.tables.age(&mut self.io, Entry::Fingerprint(pbn))?]
            .map(|age| age.map(|age| age.max(last)));
        Ok(is_it && map.is_some() && map == name)
    }
}
