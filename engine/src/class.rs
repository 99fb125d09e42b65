//! The classes of what goes to the device and comes from it: the ledger counts by them.

/// What a device operation is for: the ledger counts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Data,
    Refs,
    Map,
    Fingerprints,
    Written,
    Superblock,
    Log,
}

impl Class {
    /// All classes, in the order of reports.
    pub const ALL: [Self; 7] = [Self::Data, Self::Refs, Self::Map, Self::Fingerprints, Self::Written, Self::Superblock, Self::Log];
}
