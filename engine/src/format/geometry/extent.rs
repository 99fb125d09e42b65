//! Extents: stretches of the device that each belong to one region.

use crate::format::page::Region;
use crate::units::{BLOCK_BYTES, Bytes};

/// The region to which an extent belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtentKind {
    Pages(Region),
    Data,
}

impl ExtentKind {
    /// Kind number of the data region; 5 is kept for the index.
    const DATA: u32 = 6;

    /// Its number on the medium.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Pages(region) => region.kind(),
            Self::Data => Self::DATA,
        }
    }

    /// The kind with this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        if number == Self::DATA {
            return Some(Self::Data);
        }
        Region::ALL.into_iter().find(|r| r.kind() == number).map(Self::Pages)
    }

    /// Entries in each 4 KiB of it.
    #[must_use]
    pub const fn entries_per_page(self) -> u64 {
        match self {
            Self::Pages(region) => region.entries_per_page(),
            Self::Data => 1,
        }
    }

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages(region) => region.name(),
            Self::Data => "data",
        }
    }
}

/// A stretch of the device that belongs to one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub kind: ExtentKind,
    /// Leaves room for more than one map; 0 for now.
    pub instance: u32,
    /// The number in its region of its first entry (for data: the first PBN).
    pub first_entry: u64,
    /// Its first byte on the device; a multiple of 4096.
    pub offset: Bytes,
    /// A multiple of 4096, not 0.
    pub length: Bytes,
}

impl Extent {
    /// The 4 KiB pages (or blocks) that it holds.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.length.get() / BLOCK_BYTES
    }
}
