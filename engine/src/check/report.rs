//! The results of a check: each finding while it runs, and a report at its end.

use super::finding::Finding;
use crate::format::Superblock;
use crate::units::Bytes;

/// The receiver of findings and progress while a check runs.
pub trait Listener {
    /// Takes a finding.
    fn finding(&mut self, finding: Finding);

    /// Takes note that `done` of about `total` bytes have been read.
    fn progress(&mut self, _done: Bytes, _total: Bytes) {}
}

impl<F: FnMut(Finding)> Listener for F {
    fn finding(&mut self, finding: Finding) {
        self(finding);
    }
}

/// The numbers of blocks that a volume holds, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Logical blocks that map to a block.
    pub mapped: u64,
    /// Runs of those that follow each other on the device, too.
    pub extents: u64,
    /// Logical blocks written as zeros.
    pub zero: u64,
    /// Logical blocks whose entry is lost, or stands in a sector that is damaged or cannot be read.
    pub lost: u64,
    /// Logical blocks never written, or discarded.
    pub unmapped: u64,
    /// Blocks with one link from the map.
    pub unique: u64,
    /// Blocks with several links from the map.
    pub shared: u64,
    /// Blocks that only their fingerprint keeps.
    pub fingerprint_only: u64,
    /// Blocks without a link whose count says otherwise.
    pub garbage: u64,
    /// Blocks without a link whose count is not known.
    pub unknown: u64,
    /// Blocks without a link and with a count of 0.
    pub free: u64,
    /// Blocks whose content was compared.
    pub compared: u64,
    /// Blocks in use that nothing can be compared with.
    pub not_comparable: u64,
}

/// The outcome of a check.
#[derive(Clone, Debug)]
pub struct Report {
    pub superblock: Superblock,
    pub counts: Counts,
    /// The number of findings of damage.
    pub damage: u64,
    /// The number of findings of garbage.
    pub garbage: u64,
    /// The number of notes.
    pub notes: u64,
    /// The number of passes over the map.
    pub passes: u64,
    pub bytes_read: Bytes,
}

impl Report {
    /// Whether nothing was found but garbage that a crash explains, and notes.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damage == 0
    }
}
