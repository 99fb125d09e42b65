//! What passes from those who tell of a request to the recorder.

use crate::target::Incoming;
use onefold_engine::buffer::Buffer;
use onefold_engine::fingerprint::Digest;
use onefold_engine::interface::{Op, Request};
use onefold_engine::units::{BLOCK_BYTES, count};
use onefold_trace::header::Gap;
use std::sync::{Arc, Mutex};

/// Bytes of each fingerprint that a trace keeps: enough that no two contents have one by chance.
pub const NAME_BYTES: usize = 16;

/// What was missed behind the last request that was told.
pub type LastGap = Arc<Mutex<Option<Gap>>>;

/// What is recorded of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The content itself, to be named later.
    Bytes,
    /// The digests that the volume made of it.
    Names,
}

/// What a write brings.
#[derive(Debug)]
pub enum Content {
    /// Nothing, or nothing that has a name.
    None,
    /// Laid out by blocks, as in the engine's `Payload`.
    Bytes(Buffer),
    Named(Vec<Digest>),
}

impl Content {
    /// Memory that it keeps from others, in bytes.
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
    /// In bytes, as is `length`.
    pub offset: u64,
    pub length: u64,
}

impl Asked {
    /// Of what a front-end brought.
    #[must_use]
    pub const fn of(incoming: &Incoming) -> Self {
        Self { op: incoming.op, fua: incoming.fua, offset: incoming.offset, length: incoming.length }
    }

    /// Of what the engine gets.
    #[must_use]
    pub const fn by(request: &Request) -> Self {
        Self { op: request.op, fua: request.fua, offset: request.offset.get(), length: request.length.get() }
    }
}

/// One request on its way to the recorder, or the beginning of a phase.
pub struct Told {
    /// Since the recording began.
    pub time_ns: u64,
    pub what: What,
    pub content: Content,
    /// What was missed just before it.
    pub gap: Option<Gap>,
}

/// What is told.
pub enum What {
    Asked(Asked),
    /// A phase of this name begins.
    Mark(String),
}
