//! The classes of device operations, by which the ledger counts.

/// The class of a device operation.
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
