//! The sources of bios: rings in shared memory, which are drained without a system call.

mod bpf;
mod cpu_ring;
mod format;
mod partitions;
mod tracepoint;

use crate::Means;
use crate::join::Bio;

pub(crate) use bpf::Bpf;
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

    /// Passes on each bio that was seen before this began.
    pub fn drain(&mut self, each: impl FnMut(Bio)) -> Drained {
        match self {
            Self::Bpf(bpf) => bpf.drain(each),
            Self::Tracepoint(tracepoint) => tracepoint.drain(each),
        }
    }
}

/// Returns the largest ring within this many bytes: a power of two.
fn ring_bytes_within(bytes: usize) -> usize {
    /// The kernel takes a ring of this size on each architecture.
    const RING_BYTES_MAX: usize = 64 << 20;
    (1 << bytes.ilog2()).min(RING_BYTES_MAX)
}
