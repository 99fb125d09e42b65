//! How many blocks there are of each kind.

use crate::format::entry::REFS_UNKNOWN;

/// How many blocks there are of each kind, as far as the scan has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    pub free: u64,
    /// One link: almost always the fingerprint's own.
    pub kept: u64,
    /// Two: one LBN and the fingerprint.
    pub unique: u64,
    pub shared: u64,
    /// No link, and the commit scheme's.
    pub of_scheme: u64,
    /// Their links but one each, which is almost always the fingerprint's: links from the map.
    pub links: u64,
    /// Blocks whose count is not known.
    pub unknown: u64,
}

impl Census {
    /// One more block with this number of links.
    pub(super) fn add(&mut self, refs: u8, of_scheme: bool) {
        *self.kind(refs, of_scheme) += 1;
        match refs {
            REFS_UNKNOWN => self.unknown += 1,
            _ => self.links += u64::from(refs.saturating_sub(1)),
        }
    }

    /// Where a page says something else of a block than the commit scheme does, no block of that kind was added: the census is as wrong as
    /// the page.
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
