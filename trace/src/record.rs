//! A recorded request.
//!
//! 1. Content is known by its name only: a fingerprint, of which a trace may keep fewer bytes than the algorithm gives.
//! 2. What a source does not tell is none; nothing is guessed.

use onefold_engine::units::{BLOCK_BYTES, Bytes, SECTOR_BYTES};
use std::sync::Arc;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    /// No request: a phase begins, and `note` names it.
    Mark,
}

/// The most bytes that a trace keeps of a fingerprint.
pub const NAME_BYTES_MAX: usize = 20;

/// Bytes to keep in a trace of this width; all where it is not known.
pub(crate) const fn kept(width: usize) -> usize {
    if width == 0 || width > NAME_BYTES_MAX { NAME_BYTES_MAX } else { width }
}

/// What one block of a write holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    Zero,
    /// The first bytes of its fingerprint, zeros behind them.
    Of([u8; NAME_BYTES_MAX]),
    Unknown,
}

/// One block of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub name: Name,
    /// Bytes that the codec of slots brings it to, rounded up to 64.
    pub compressed: Option<u16>,
}

impl Block {
    /// A block of which only the name is known.
    #[must_use]
    pub const fn named(name: Name) -> Self {
        Self { name, compressed: None }
    }
}

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Since the trace began.
    pub time_ns: u64,
    pub op: Op,
    pub fua: bool,
    /// Of the whole device; a multiple of 512, as is `length`. 0 for a flush.
    pub offset: Bytes,
    pub length: Bytes,
    pub pid: Option<u32>,
    pub process: Option<Arc<str>>,
    /// What the recorder took the data for: file data, metadata, a journal; or the file they belong to.
    pub stream: Option<Arc<str>>,
    /// The kernel's request flags as in blktrace.
    pub flags: Option<Arc<str>>,
    /// The device, "major minor".
    pub device: Option<Arc<str>>,
    pub note: Option<Arc<str>>,
    /// For a write whose content was recorded: one for each 4 KiB of the volume that it touches, or, in a trace by sectors, for each 512 bytes.
    /// Published traces have them for reads, too, and count them from the beginning of the request, wherever that lies: [`crate::content`] knows.
    pub blocks: Vec<Block>,
}

impl Record {
    /// A request of which nothing else is known.
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
            blocks: Vec::new(),
        }
    }

    /// Whether offset and length are whole sectors, or none for a flush or a mark.
    #[must_use]
    pub const fn is_well_formed(&self) -> bool {
        match self.op {
            Op::Flush | Op::Mark => self.length.get() == 0,
            _ => self.offset.get() % SECTOR_BYTES == 0 && self.length.get() % SECTOR_BYTES == 0 && self.length.get() > 0,
        }
    }

    /// Blocks of 4 KiB that it touches.
    #[must_use]
    pub const fn blocks_touched(&self) -> u64 {
        (self.offset.get() + self.length.get()).div_ceil(BLOCK_BYTES) - self.offset.get() / BLOCK_BYTES
    }
}
