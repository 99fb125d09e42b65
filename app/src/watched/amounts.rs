//! The amounts of a watch.

use serde::Serialize;

/// The amounts that one request adds, or that several have added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    pub requests: u64,
    pub bytes: u64,
    pub units: u64,
    pub flushes: u64,
    pub duplicate_blocks: u64,
}

impl Part {
    /// Adds another one.
    pub(super) fn add(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
        self.units += more.units;
        self.flushes += more.flushes;
        self.duplicate_blocks += more.duplicate_blocks;
    }
}

/// The amounts that were written in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub all: Part,
    /// The journal of the file system, and its other metadata.
    pub journal: Part,
    pub metadata: Part,
    pub discarded_bytes: u64,
    /// Blocks whose content was seen, without zeros.
    pub known_blocks: u64,
    pub zero_blocks: u64,
    pub unknown_blocks: u64,
    /// The known blocks that were compressed on trial, their bytes then, and those that are half as large or less.
    pub measured_blocks: u64,
    pub compressed_bytes: u64,
    pub compressible_blocks: u64,
}

/// A share with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub name: String,
    #[serde(flatten)]
    pub part: Part,
}

/// The amounts that were written within an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hour {
    #[serde(flatten)]
    pub all: Part,
}
