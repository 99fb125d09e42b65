//! The regions of metadata pages, and the names of pages.

use super::fields::SECTORS;
use crate::class::Class;
use crate::units::count;

/// A region of metadata pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// A bit for each page of the others, which says that the page has been written.
    Written,
    /// Maps a PBN to its count of links.
    Refs,
    /// Maps a PBN to its fingerprint entry.
    Fingerprints,
    /// Maps an LBN to a PBN.
    Map,
}

impl From<Region> for Class {
    fn from(region: Region) -> Self {
        match region {
            Region::Written => Self::Written,
            Region::Refs => Self::Refs,
            Region::Fingerprints => Self::Fingerprints,
            Region::Map => Self::Map,
        }
    }
}

impl Region {
    /// All regions, in the order of their kind numbers.
    pub const ALL: [Self; 4] = [Self::Written, Self::Refs, Self::Fingerprints, Self::Map];

    /// Its number on the medium.
    #[must_use]
    pub const fn kind(self) -> u32 {
        match self {
            Self::Written => 1,
            Self::Refs => 2,
            Self::Fingerprints => 3,
            Self::Map => 4,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Refs => "refs",
            Self::Fingerprints => "fingerprints",
            Self::Map => "map",
        }
    }

    /// Entries in one sector.
    #[must_use]
    pub const fn entries_per_sector(self) -> u64 {
        match self {
            Self::Written => 4000,
            Self::Refs => 500,
            Self::Fingerprints => 25,
            Self::Map => 100,
        }
    }

    /// Entries in one page.
    #[must_use]
    pub const fn entries_per_page(self) -> u64 {
        self.entries_per_sector() * 8
    }
}

/// One page of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    pub region: Region,
    /// Counted from the region's first page, across its extents.
    pub index: u64,
}

impl PageId {
    /// The page of its region that comes this number of pages after it.
    #[must_use]
    pub fn after(self, pages: u64) -> Self {
        Self { index: self.index + pages, ..self }
    }

    /// The index in its region of one of its sectors.
    #[must_use]
    pub fn sector(self, i: usize) -> u64 {
        self.index * count(SECTORS) + count(i)
    }
}
