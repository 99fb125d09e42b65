//! A run of pieces that a scrub reads at once, and what it expects of them.

use crate::format::entry::FingerprintEntry;
use crate::format::superblock::ScrubPart;
use crate::units::Pbn;

/// The pieces that are being read.
pub(super) struct Run {
    pub part: ScrubPart,
    pub first: u64,
    pub pieces: u64,
    pub expects: Expects,
}

impl Run {
    /// The number of its first piece, as reports have it.
    pub const fn number(&self) -> u64 {
        if let Expects::Unit(unit) = &self.expects { unit.pbn.0 } else { self.first }
    }
}

/// The expected content of the pieces of a run.
pub(super) enum Expects {
    /// Copy `first` of the superblock; the generation at the time.
    Superblock { generation: u64 },
    /// Pages, each with its *written* bit.
    Pages { written: Vec<bool> },
    /// Blocks with these entries, pinned.
    Blocks(Vec<FingerprintEntry>),
    /// A unit of the log, pinned.
    Unit(NextUnit),
}

/// The reason why a scrub stays at a piece.
pub(super) enum Awaited {
    /// The write of the next page.
    Page,
    /// Updates that write all copies of the superblock.
    Superblocks,
    /// The end of the log's need for this unit.
    Unit(NextUnit),
    /// The medium has to keep what was found of the next block, which is damaged: the next server knows of it.
    Find(u64),
}

/// The result of a look at the pieces of a run.
pub(super) enum LookResult {
    Sound,
    /// This piece of it is bad.
    Bad(u64),
    /// Nothing is proved of this piece of it; those before it are sound.
    Unproved(u64),
}

/// The unit that is looked at next. Units leave the log from its front meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NextUnit {
    /// The index of the next compacted one.
    pub compacted: usize,
    /// The sequence of the next one of the log tail.
    pub sequence: u64,
    pub pbn: Pbn,
    pub is_compacted: bool,
}

impl NextUnit {
    /// Goes on to the one after it.
    pub const fn step(&mut self) {
        if self.is_compacted { self.compacted += 1 } else { self.sequence += 1 }
    }
}
