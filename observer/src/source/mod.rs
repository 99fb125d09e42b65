//! The sources of bios: rings in shared memory, which are drained without a system call.

mod bpf;
mod cpu_ring;
mod format;
mod partitions;
mod tracepoint;

use crate::Means;
use crate::join::Bio;
use crate::piece::Piece;

pub(crate) use bpf::{Bpf, Count};
pub(crate) use tracepoint::Tracepoint;

/// The result of a drain, apart from the bios.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Drained {
    /// Bios that were seen before the drain are hidden from it.
    pub is_behind: bool,
    /// Bios may have been lost since the last drain.
    pub has_lost: bool,
    /// The number of these, as far as it is known by now.
    pub lost: u64,
}

/// A bio that was seen.
pub(crate) struct Seen {
    pub bio: Bio,
    /// The processor that saw it; the pieces of its content have the same, and its time. 0 by the tracepoint, which has no content.
    pub processor: u32,
    /// What was written before has to be durable when it is done.
    pub flushes: bool,
    /// The bio itself comes later: this has only what is wished of it.
    pub is_wish: bool,
}

/// A record of a source: a bio, or before it a piece of its content.
pub(crate) enum Record<'a> {
    Seen(Seen),
    Piece(Piece<'a>),
}

/// A source of the bios of one disk.
pub(crate) enum Sight {
    Bpf(Box<Bpf>),
    Tracepoint(Box<Tracepoint>),
}

impl Sight {
    /// Returns which one it is.
    pub fn means(&self) -> Means {
        match self {
            Self::Bpf(_) => Means::Bpf,
            Self::Tracepoint(_) => Means::Tracepoint,
        }
    }

    /// Returns the bytes of the rings.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Bpf(bpf) => bpf.bytes(),
            Self::Tracepoint(tracepoint) => tracepoint.bytes(),
        }
    }

    /// Passes on each record that was there before this began.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>)) -> Drained {
        match self {
            Self::Bpf(bpf) => bpf.drain(each),
            Self::Tracepoint(tracepoint) => tracepoint.drain(|seen| each(Record::Seen(seen))),
        }
    }
}

/// Returns the largest ring within this many bytes: a power of two.
fn ring_bytes_within(bytes: usize) -> usize {
    /// The kernel takes a ring of this size on each architecture.
    const RING_BYTES_MAX: usize = 64 << 20;
    (1 << bytes.ilog2()).min(RING_BYTES_MAX)
}
