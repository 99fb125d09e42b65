//! Free blocks that were checked, and the search for further ones.
//!
//! 1. On a device there is one kind of them. On a file there are two: blocks at which the host has written before, and others
//!    (`unwritten.rs`).
//! 2. A search visits the granules in turn, and goes round. It skips those that have no block of its kind.

use super::containers::Containers;
use super::granules::GRANULE_BLOCKS;
use super::unwritten::Unwritten;
use crate::format::geometry::Geometry;
use crate::policy::Stream;
use crate::units::Pbn;
use std::collections::VecDeque;

/// The number of free blocks that are kept ready.
pub(super) const READY_BLOCKS: usize = 512;

/// The state of a block on the store, as its host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// It was written before, or the host makes no difference.
    Written,
    Unwritten,
}

impl Ground {
    pub const fn other(self) -> Self {
        match self {
            Self::Written => Self::Unwritten,
            Self::Unwritten => Self::Written,
        }
    }
}

/// Free blocks of one kind.
pub(super) struct Supply {
    /// The blocks, in the order in which they will be allocated.
    pub ready: VecDeque<Pbn>,
    /// The granule whose pages the search waits for.
    pub preparing: Option<u64>,
    /// The number of granules examined since the last one that had a free block.
    pub fruitless: u64,
    /// A free block was skipped since then, because it was in use.
    pub passed_over: bool,
    /// The granule that is examined next.
    pub cursor: u64,
    /// The containers that streams fill. The search skips their blocks.
    pub containers: Containers,
}

impl Supply {
    /// Nothing is ready; the search begins at this granule. `container_blocks`: the blocks of a container.
    pub fn from(granule: u64, container_blocks: u64) -> Self {
        let containers = Containers::from(Pbn(granule * GRANULE_BLOCKS), container_blocks);
        Self { ready: VecDeque::new(), preparing: None, fruitless: 0, passed_over: false, cursor: granule, containers }
    }

    /// The blocks that are ready for a stream: those of its open container. Those for all, if there is none.
    pub fn ready_of(&mut self, stream: Stream) -> &mut VecDeque<Pbn> {
        self.containers.ready_of(stream).unwrap_or(&mut self.ready)
    }

    /// The ready blocks among which a block belongs: those of the open container in which it lies, or those for all.
    pub fn ready_around(&mut self, pbn: Pbn) -> &mut VecDeque<Pbn> {
        self.containers.ready_around(pbn).unwrap_or(&mut self.ready)
    }

    /// Opens a container for a stream. Its blocks are no longer ready for all.
    pub fn open_container(&mut self, stream: Stream, number: u64) {
        self.containers.open(stream, number);
        let containers = &self.containers;
        self.ready.retain(|&pbn| !containers.have(pbn));
    }

    /// Some block is no longer in use. It may be one that was skipped.
    pub fn no_longer_busy(&mut self) {
        if std::mem::take(&mut self.passed_over) {
            self.fruitless = 0;
        }
    }
}

/// The number of granules from this one on that have no block of this kind for certain.
pub(super) fn granules_without(unwritten: &Unwritten, geometry: &Geometry, ground: Ground, granule: u64) -> u64 {
    let first = Pbn(granule * GRANULE_BLOCKS);
    let end = match ground {
        Ground::Written => unwritten.end_of_run(first).unwrap_or(first),
        Ground::Unwritten => unwritten.next_from(first).unwrap_or(Pbn(geometry.data_blocks)),
    };
    if end.0 == geometry.data_blocks { geometry.data_blocks.div_ceil(GRANULE_BLOCKS) - granule } else { (end - first) / GRANULE_BLOCKS }
}
