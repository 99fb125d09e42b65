//! Allocation in the containers of streams.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use super::supply::Ground;
use crate::contents::ReadCache;
use crate::format::page::PageId;
use crate::io::Io;
use crate::policy::Stream;
use crate::tables::{Access, Tables};
use crate::units::{Pbn, count};
use std::ops::Range;

/// The containers in which a block is sought: the open one, and the next one.
const CONTAINERS_A_BLOCK: u64 = 2;

impl Space {
    /// Takes a free block of the stream's container, which is opened if there is none. None: the stream takes one as all do. `Err`: that
    /// page has to be loaded first.
    pub(super) fn take_from_container(
        &mut self,
        io: &mut Io,
        tables: &mut Tables,
        cache: &mut ReadCache,
        (ground, stream): (Ground, Stream),
    ) -> Result<Option<Pbn>, PageId> {
        for _ in 0..CONTAINERS_A_BLOCK {
            if !self.supply(ground).containers.has_one(stream) && !self.open_container(io, tables, ground, stream)? {
                break;
            }
            loop {
                if let Some(pbn) = self.take_ready(io, tables, cache, ground, stream)? {
                    return Ok(Some(pbn));
                }
                let Some((first, blocks)) = self.supply(ground).containers.next_of(stream) else { break };
                let free = self.free_blocks(io, tables, ground, (first, blocks))?;
                self.supply(ground).containers.looked_at(stream, blocks, free);
            }
            // It is filled. The search for all may find what it has skipped there.
            let supply = self.supply(ground);
            supply.containers.close(stream);
            supply.fruitless = 0;
        }
        Ok(None)
    }

    /// Opens a container for a stream, if one near has room.
    fn open_container(&mut self, io: &mut Io, tables: &mut Tables, ground: Ground, stream: Stream) -> Result<bool, PageId> {
        let (counted, data_blocks) = (self.scan_complete().then_some(self.census.free), self.data_blocks);
        if !self.supply(ground).containers.may_search(counted) {
            return Ok(false);
        }
        while let Some((number, blocks)) = self.supply(ground).containers.candidate(data_blocks) {
            let free = self.free_in(io, tables, ground, blocks)?;
            self.supply(ground).containers.looked(number, free);
        }
        let Some(number) = self.supply(ground).containers.end_search() else { return Ok(false) };
        self.supply(ground).open_container(stream, number);
        io.ledger.streams[stream.number()].containers += 1;
        Ok(true)
    }

    /// The number of free blocks of this ground among these. `Err`: that page has to be loaded first.
    fn free_in(&mut self, io: &mut Io, tables: &mut Tables, ground: Ground, blocks: Range<Pbn>) -> Result<u64, PageId> {
        let (mut first, end, mut free) = (blocks.start, blocks.end, 0);
        while first < end {
            let piece = (end - first).min(GRANULE_BLOCKS - first.0 % GRANULE_BLOCKS);
            let (refs, at) = self.geometry.refs_of(first);
            if !self.known_full(refs.index) {
                match tables.ensure(io, refs) {
                    Access::Loading => return Err(refs),
                    Access::Unreadable => {}
                    Access::Ready(_) => {
                        let without = tables.blocks_with(0, refs, at, first, piece);
                        free += count(without.into_iter().filter(|&pbn| self.ground_of(pbn) == ground).count());
                    }
                }
            }
            first += piece;
        }
        Ok(free)
    }
}
