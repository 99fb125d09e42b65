//! The number of blocks of each kind.

use crate::format::entry::REFS_UNKNOWN;

/// The number of blocks of each kind on the pages scanned so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    pub free: u64,
    /// Blocks with one link, which is almost always the fingerprint's.
    pub kept: u64,
    /// Blocks with two links: one LBN and the fingerprint.
    pub unique: u64,
    pub shared: u64,
    /// Blocks without a link that belong to the commit scheme.
    pub of_scheme: u64,
    /// Links from the map: all links but one for each block, which is almost always the fingerprint's.
    pub links: u64,
    /// Blocks whose count is not known.
    pub unknown: u64,
}

impl Census {
    /// Counts one more block with this number of links.
    pub(super) fn add(&mut self, refs: u8, of_scheme: bool) {
        *self.kind(refs, of_scheme) += 1;
        match refs {
            REFS_UNKNOWN => self.unknown += 1,
            _ => self.links += u64::from(refs.saturating_sub(1)),
        }
    }

    /// Counts one block less with this number of links. Where a page contradicts the commit scheme, no block of that kind was added, and
    /// the census is as wrong as the page.
    pub(super) fn take(&mut self, refs: u8, of_scheme: bool) {
        let kind = self.kind(refs, of_scheme);
        *kind = kind.saturating_sub(1);
        match refs {
            REFS_UNKNOWN => self.unknown = self.unknown.saturating_sub(1),
            _ => self.links = self.links.saturating_sub(u64::from(refs.saturating_sub(1))),
        }
    }

    fn kind(&mut self, refs: u8, of_scheme: bool) -> &mut u64 {
        match refs {
            0 if of_scheme => &mut self.of_scheme,
            0 => &mut self.free,
            1 => &mut self.kept,
            2 => &mut self.unique,
            _ => &mut self.shared,
        }
    }
}
