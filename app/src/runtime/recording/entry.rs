//! The entries that the reporting threads pass to the recorder.

use crate::target::Incoming;
use onefold_engine::buffer::Buffer;
use onefold_engine::fingerprint::Digest;
use onefold_engine::interface::{Op, Request};
use onefold_engine::units::{BLOCK_BYTES, count};
use onefold_trace::header::Gap;
use std::sync::{Arc, Mutex};

/// The number of bytes of each fingerprint that a trace keeps: enough that no two contents have one by chance.
pub const NAME_BYTES: usize = 16;

/// The gap after the last request that was reported.
pub type LastGap = Arc<Mutex<Option<Gap>>>;

/// The form in which content is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The content itself, which is fingerprinted later.
    Bytes,
    /// The digests that the volume made of it.
    Names,
}

/// The content of a write.
#[derive(Debug)]
pub enum Content {
    /// None, or none that has a fingerprint.
    None,
    /// Bytes, laid out by blocks, as in the engine's `Payload`.
    Bytes(Buffer),
    Named(Vec<Digest>),
}

impl Content {
    /// Returns the memory that it keeps from others, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Bytes(buffer) => count(buffer.blocks()) * BLOCK_BYTES,
            Self::Named(digests) => count(digests.capacity() * size_of::<Digest>()),
        }
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub op: Op,
    pub fua: bool,
    /// The offset in bytes; `length` is in bytes, too.
    pub offset: u64,
    pub length: u64,
}

impl Asked {
    /// Returns the header of a front-end's request.
    #[must_use]
    pub const fn of(incoming: &Incoming) -> Self {
        Self { op: incoming.op, fua: incoming.fua, offset: incoming.offset, length: incoming.length }
    }

    /// Returns the header of an engine's request.
    #[must_use]
    pub const fn by(request: &Request) -> Self {
        Self { op: request.op, fua: request.fua, offset: request.offset.get(), length: request.length.get() }
    }
}

/// One request for the recorder, or the beginning of a phase.
pub struct Entry {
    /// The time since the recording began.
    pub time_ns: u64,
    pub what: What,
    pub content: Content,
    /// The gap just before it.
    pub gap: Option<Gap>,
}

/// The subject of an entry.
pub enum What {
    Asked(Asked),
    /// A phase of this name begins.
    Mark(String),
}
