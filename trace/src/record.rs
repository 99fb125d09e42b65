//! A recorded request.
//!
//! 1. Content is known by its name only: a fingerprint, of which a trace may keep fewer bytes than the algorithm gives.
//! 2. A field that the source does not give is none; nothing is guessed.

use onefold_engine::units::{BLOCK_BYTES, Bytes, SECTOR_BYTES};
use std::sync::Arc;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    /// Not a request: the beginning of a phase, which `note` names.
    Mark,
}

/// The names of operations in rows and reports.
const OPS: [(Op, &str); 6] = [
    (Op::Read, "read"),
    (Op::Write, "write"),
    (Op::Flush, "flush"),
    (Op::Discard, "discard"),
    (Op::WriteZeroes, "write-zeroes"),
    (Op::Mark, "mark"),
];

impl Op {
    /// Returns the name of the operation, in rows and reports.
    ///
    /// # Panics
    /// Never panics: each operation has a name.
    #[must_use]
    pub fn name(self) -> &'static str {
        OPS.iter().find(|(op, _)| *op == self).expect("each op has a name").1
    }

    /// Returns the operation with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        OPS.iter().find(|(_, known)| *known == name).map(|(op, _)| *op)
    }
}

/// The largest number of bytes that a trace keeps of a fingerprint.
pub const NAME_BYTES_MAX: usize = 20;

/// Returns the number of bytes to keep in a trace of this width; all of them if the width is not known.
pub(crate) const fn kept(width: usize) -> usize {
    if width == 0 || width > NAME_BYTES_MAX { NAME_BYTES_MAX } else { width }
}

/// The content of one block of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentName {
    Zero,
    /// The first bytes of the block's fingerprint, followed by zeros.
    Of([u8; NAME_BYTES_MAX]),
    Unknown,
}

/// One block of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub name: ContentName,
    /// The size to which the slot codec compresses the block, in bytes, rounded up to a multiple of 64.
    pub compressed: Option<u16>,
}

impl Block {
    /// Makes a block of which only the name is known.
    #[must_use]
    pub const fn named(name: ContentName) -> Self {
        Self { name, compressed: None }
    }
}

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time since the trace began.
    pub time_ns: u64,
    pub op: Op,
    pub fua: bool,
    /// The position on the device; a multiple of 512, as is `length`. 0 for a flush.
    pub offset: Bytes,
    pub length: Bytes,
    pub pid: Option<u32>,
    pub process: Option<Arc<str>>,
    /// The recorder's classification of the data: file data, metadata, a journal.
    pub stream: Option<Arc<str>>,
    /// The kernel's request flags as in blktrace.
    pub flags: Option<Arc<str>>,
    /// The device, as "major minor".
    pub device: Option<Arc<str>>,
    pub note: Option<Arc<str>>,
    /// The path of the file that the data belong to, or its name alone.
    pub file: Option<Arc<str>>,
    /// The control group that the request is charged to.
    pub cgroup: Option<Arc<str>>,
    /// The content of a write, if it was recorded: one entry for each 4 KiB of the volume that the write touches or, in a trace by sectors,
    /// for each 512 bytes. Published traces have entries for reads, too, and count them from the beginning of the request, wherever that
    /// lies; [`crate::content`] handles this.
    pub blocks: Vec<Block>,
}

impl Record {
    /// Makes a request of which nothing else is known.
    #[must_use]
    pub const fn new(time_ns: u64, op: Op, offset: Bytes, length: Bytes) -> Self {
        Self {
            time_ns,
            op,
            fua: false,
            offset,
            length,
            pid: None,
            process: None,
            stream: None,
            flags: None,
            device: None,
            note: None,
            file: None,
            cgroup: None,
            blocks: Vec::new(),
        }
    }

    /// Returns whether offset and length are whole sectors, or both 0 for a flush or a mark.
    #[must_use]
    pub const fn is_well_formed(&self) -> bool {
        match self.op {
            Op::Flush | Op::Mark => self.length.get() == 0,
            _ => self.offset.get() % SECTOR_BYTES == 0 && self.length.get() % SECTOR_BYTES == 0 && self.length.get() > 0,
        }
    }

    /// Returns the number of blocks of 4 KiB that the request touches.
    #[must_use]
    pub const fn blocks_touched(&self) -> u64 {
        (self.offset.get() + self.length.get()).div_ceil(BLOCK_BYTES) - self.offset.get() / BLOCK_BYTES
    }
}
