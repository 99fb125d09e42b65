//! What reads, writes and other operations of the device are for: by this an answer finds who waits for it.

use crate::fingerprint::Fingerprint;
use crate::format::entry::FingerprintEntry;
use crate::format::page::PageId;
use crate::units::{Lbn, Pbn};

/// What a device operation was for.
pub(crate) enum IoFor {
    PageLoad(PageId),
    /// With the blocks whose fingerprint entries this very write removes.
    PageWrite {
        id: PageId,
        removed: Vec<Pbn>,
    },
    Content {
        first: Pbn,
        blocks: u64,
    },
    Read {
        op: usize,
        run: usize,
    },
    ReadForWrite {
        op: usize,
        pbn: Pbn,
    },
    /// Of a carrier for the index; its authenticator, as its entry has it.
    ReadForIndex {
        pbn: Pbn,
        authenticator: Fingerprint,
    },
    /// Of blocks that lack a whole name.
    ReadForFingerprint {
        first: Pbn,
    },
    DigestForWrite {
        op: usize,
    },
    /// Reads blocks that recalled promises name.
    ReadForProof {
        first: Pbn,
    },
    /// Writes this many such blocks again, as they were found.
    ProvedContent(u64),
    /// Reads a block that a recalled promise names and that takes no more links, to write its content again.
    ReadForReplay {
        pbn: Pbn,
        slot: u8,
        lbn: Lbn,
    },
    /// Of the content of a new block.
    Compress {
        pbn: Pbn,
    },
    Flush {
        why: FlushFor,
        mark: u64,
    },
    Superblock,
    /// Reads the front copies before an update.
    SuperblockRead,
    Discard {
        first: Pbn,
        blocks: u64,
    },
    /// So many units of the log, side by side; those of them that are carriers; whether they are durable when they are written.
    Units {
        units: usize,
        carriers: Vec<Pbn>,
        fua: bool,
    },
    /// What lies at the place of a unit.
    ReadForScan {
        unit: LogUnit,
        pbn: Pbn,
    },
    /// So many units of what is condensed, side by side.
    CompactedUnits {
        units: usize,
    },
    /// Content that may not have been flushed, and what it should be.
    ReadForVerification {
        pbn: Pbn,
        name: FingerprintEntry,
    },
    /// A page that may hold the epoch of such content.
    PageForVerification(PageId),
}

/// Who asked for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushFor {
    Opening,
    CommitContent,
    CommitLinks,
    Superblock,
    Closing,
    Checkpoint,
    /// What the opening found in the log and writes again; then the unit that closes it after a crash.
    OpeningUnits,
    /// What recalled promises name was written again.
    Proofs,
}

/// Which unit is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogUnit {
    /// A condensed one, counted from the first.
    Compacted(usize),
    /// A unit of the walk, by its sequence.
    Tail(u64),
}
