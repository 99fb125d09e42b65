//! The purposes of device operations. A completion finds by its purpose the component that waits for it.

use crate::fingerprint::Fingerprint;
use crate::format::entry::FingerprintEntry;
use crate::format::page::PageId;
use crate::units::{Lbn, Pbn};

/// The purpose of a device operation.
pub(crate) enum IoFor {
    /// Reads pages that are neighbours on the device, from this one on.
    PageLoad(PageId),
    PageWrite {
        id: PageId,
        /// Blocks whose fingerprint entries this write removes.
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
    /// Reads a carrier for the index.
    ReadForIndex {
        pbn: Pbn,
        /// The value of the carrier's entry.
        authenticator: Fingerprint,
    },
    /// Reads blocks for the work out of line, from this one on.
    ReadForOutOfLine {
        first: Pbn,
        /// The entry of each block.
        entries: Vec<FingerprintEntry>,
    },
    /// Reads pages of the sieve, from this block on.
    ReadForSieve {
        first: Pbn,
    },
    /// Writes a page of the sieve.
    SievePage,
    /// Reads blocks that lack a whole fingerprint.
    ReadForFingerprint {
        first: Pbn,
    },
    /// Reads blocks that were deferred, to give them their fingerprints.
    ReadForNaming {
        first: Pbn,
        /// The one that is needed now.
        wanted: Pbn,
    },
    /// Reads a run of pieces for the scrub, which knows the run.
    ReadForScrub,
    DigestForWrite {
        op: usize,
    },
    /// Reads blocks to which the acknowledgement journal refers.
    ReadForProof {
        first: Pbn,
    },
    /// Writes this many such blocks again, with the content that was found.
    ProvedContent(u64),
    /// Reads a block to which the acknowledgement journal refers and which takes no more links, to write its content again.
    ReadForReplay {
        pbn: Pbn,
        slot: u8,
        lbn: Lbn,
    },
    /// Compresses the content of a new block.
    Compress {
        pbn: Pbn,
    },
    Flush {
        why: FlushFor,
        mark: u64,
    },
    Superblock,
    /// Reads the front copies of the superblock before an update.
    SuperblockRead,
    Discard {
        first: Pbn,
        blocks: u64,
    },
    /// Writes zeros to free blocks, for the stock of a store in a file.
    Fill {
        first: Pbn,
        blocks: u64,
    },
    /// Writes neighbouring units of the log.
    Units {
        units: usize,
        /// Those units that are carriers.
        carriers: Vec<Pbn>,
        /// The write is durable when it completes.
        fua: bool,
    },
    /// Reads the place of a unit.
    ReadForScan {
        unit: LogUnit,
        pbn: Pbn,
    },
    /// Writes neighbouring units of the compacted log.
    CompactedUnits {
        units: usize,
    },
    /// Reads content that may not have been flushed.
    ReadForVerification {
        pbn: Pbn,
        /// The entry that says what the content should be.
        name: FingerprintEntry,
    },
    /// Reads a page that may hold the epoch of such content.
    PageForVerification(PageId),
}

impl IoFor {
    /// Whether it reads what only background work waits for. A page that enters memory is not of that kind: a client may come to wait for
    /// it, too.
    pub const fn is_idle(&self) -> bool {
        matches!(
            self,
            Self::ReadForIndex { .. }
                | Self::ReadForOutOfLine { .. }
                | Self::ReadForNaming { .. }
                | Self::ReadForSieve { .. }
                | Self::ReadForFingerprint { .. }
                | Self::ReadForScrub
        )
    }
}

/// The purpose of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushFor {
    Opening,
    CommitContent,
    CommitLinks,
    Superblock,
    Closing,
    Checkpoint,
    /// Covers the units that the opening found in the log and wrote again, then the unit that ends the log after a crash.
    OpeningUnits,
    /// Covers blocks to which the acknowledgement journal refers and which were written again.
    PromisedContents,
}

/// A unit of the log that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogUnit {
    /// A compacted unit, counted from the first one.
    Compacted(usize),
    /// A unit of the log tail, by its sequence.
    Tail(u64),
}
