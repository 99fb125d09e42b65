//! Containers: neighbouring blocks that one stream fills, so that what an application writes lies together (APP-Dedupe, section III.C).
//!
//! 1. While a container is open, new blocks of its stream are allocated in it, and none of others. A stream fills one at a time on each
//!    ground, in ascending order.
//! 2. A container that was looked through is nobody's: what becomes free in it later is found by the search for all (`supply.rs`). So
//!    nothing on the medium says whose it is.
//! 3. It is advice. A stream that finds no container takes blocks as all do, and where these run out the open containers are given up.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use super::supply::Ground;
use crate::contents::ReadCache;
use crate::format::page::PageId;
use crate::io::Io;
use crate::policy::{STREAMS, Stream};
use crate::tables::{Access, Tables};
use crate::units::{Pbn, count};
use std::collections::VecDeque;

/// The number of containers that are looked at before a stream takes a container's worth of blocks elsewhere.
const LOOKS: u64 = 8;
/// The containers in which a block is sought: the open one, and the next one.
const CONTAINERS_A_BLOCK: u64 = 2;
/// A container is opened if this part of it is free.
const FREE_FRACTION: u64 = 2;
/// A container is opened only while the free blocks of the volume are this many times those of the open ones.
const FREE_TIMES: u64 = 4;

/// The open containers of one ground.
pub(super) struct Containers {
    /// The blocks of a container.
    blocks: u64,
    open: [Option<Container>; STREAMS],
    /// The number of open ones.
    opened: u64,
    /// The container that the search for the next one looks at next, and the number of those that it has looked at.
    next: u64,
    looked: u64,
    /// The first of these that is free for the most part; where one is free as a whole, that one.
    chosen: Option<u64>,
    /// The number of blocks that streams take elsewhere before they look for a container again.
    rest: u64,
}

/// A container that its stream fills.
struct Container {
    number: u64,
    /// The blocks that were found free, in ascending order.
    ready: VecDeque<Pbn>,
    /// The first block that was not looked at.
    next: Pbn,
}

impl Containers {
    /// None is open; the search begins at this block.
    pub fn from(first: Pbn, blocks: u64) -> Self {
        Self { blocks, open: [const { None }; STREAMS], opened: 0, next: first.0 / blocks, looked: 0, chosen: None, rest: 0 }
    }

    /// Whether a block lies in an open container.
    pub fn have(&self, pbn: Pbn) -> bool {
        self.opened > 0 && self.is_open(pbn.0 / self.blocks)
    }

    fn is_open(&self, number: u64) -> bool {
        self.open.iter().flatten().any(|open| open.number == number)
    }

    /// The blocks that are about to be allocated.
    pub fn ready(&self) -> impl Iterator<Item = Pbn> {
        self.open.iter().flatten().flat_map(|open| open.ready.iter().copied())
    }

    /// The list of ready blocks of the open container in which a block lies.
    pub fn ready_around(&mut self, pbn: Pbn) -> Option<&mut VecDeque<Pbn>> {
        let number = pbn.0 / self.blocks;
        self.open.iter_mut().flatten().find(|open| open.number == number).map(|open| &mut open.ready)
    }

    /// The ready blocks of a stream's open container.
    pub fn ready_of(&mut self, stream: Stream) -> Option<&mut VecDeque<Pbn>> {
        self.of(stream).map(|open| &mut open.ready)
    }

    /// Gives all open containers up. Whether there were any.
    pub fn give_up(&mut self) -> bool {
        self.rest = self.blocks;
        self.open = [const { None }; STREAMS];
        std::mem::take(&mut self.opened) > 0
    }

    fn of(&mut self, stream: Stream) -> Option<&mut Container> {
        self.open[stream.number()].as_mut()
    }

    /// Opens a container for a stream, which has none.
    pub fn open(&mut self, stream: Stream, number: u64) {
        let next = Pbn(number * self.blocks);
        self.open[stream.number()] = Some(Container { number, ready: VecDeque::new(), next });
        self.opened += 1;
    }

    /// The search has seen how many blocks of a container are free.
    fn looked(&mut self, number: u64, free: u64) {
        (self.next, self.looked) = (number + 1, self.looked + 1);
        if free == self.blocks || self.chosen.is_none() && free >= self.blocks / FREE_FRACTION {
            self.chosen = Some(number);
        }
    }

    /// Ends a search. Returns what it has chosen; where that is none, streams take blocks elsewhere for a while.
    fn end_search(&mut self) -> Option<u64> {
        self.looked = 0;
        let chosen = self.chosen.take();
        if chosen.is_none() {
            self.rest = self.blocks;
        }
        chosen
    }

    fn close(&mut self, stream: Stream) {
        self.opened -= u64::from(self.open[stream.number()].take().is_some());
    }

    /// The next blocks of a stream's container that were not looked at: all of one granule. They count as looked at once
    /// [`Self::looked_at`] says so.
    fn next_of(&mut self, stream: Stream) -> Option<(Pbn, u64)> {
        let blocks = self.blocks;
        let open = self.of(stream)?;
        let end = Pbn((open.number + 1) * blocks);
        (open.next < end).then(|| (open.next, (end - open.next).min(GRANULE_BLOCKS - open.next.0 % GRANULE_BLOCKS)))
    }

    fn looked_at(&mut self, stream: Stream, blocks: u64, free: Vec<Pbn>) {
        if let Some(open) = self.of(stream) {
            open.next = open.next + blocks;
            open.ready.extend(free);
        }
    }
}

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
            if self.supply(ground).containers.of(stream).is_none() && !self.open_container(io, tables, ground, stream)? {
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
            // It is filled. The search for all may find what it has passed over there.
            let supply = self.supply(ground);
            supply.containers.close(stream);
            supply.fruitless = 0;
        }
        Ok(None)
    }

    /// Opens a container for a stream, if one near has room.
    fn open_container(&mut self, io: &mut Io, tables: &mut Tables, ground: Ground, stream: Stream) -> Result<bool, PageId> {
        let containers = &mut self.supply(ground).containers;
        let (blocks, opened) = (containers.blocks, containers.opened);
        let all = self.data_blocks / blocks;
        if self.scan_complete() && self.census.free < FREE_TIMES * blocks * (opened + 1) || all == 0 {
            return Ok(false);
        }
        let containers = &mut self.supply(ground).containers;
        if containers.rest > 0 {
            containers.rest -= 1;
            return Ok(false);
        }
        while self.supply(ground).containers.looked < LOOKS.min(all) {
            let number = self.supply(ground).containers.next % all;
            let free = if self.supply(ground).containers.is_open(number) { 0 } else { self.free_in(io, tables, ground, number)? };
            self.supply(ground).containers.looked(number, free);
            if free == blocks {
                break;
            }
        }
        let Some(number) = self.supply(ground).containers.end_search() else { return Ok(false) };
        self.supply(ground).open_container(stream, number);
        io.ledger.streams[stream.number()].containers += 1;
        Ok(true)
    }

    /// The number of free blocks of this ground in a container.
    fn free_in(&mut self, io: &mut Io, tables: &mut Tables, ground: Ground, number: u64) -> Result<u64, PageId> {
        let blocks = self.supply(ground).containers.blocks;
        let (mut first, end, mut free) = (Pbn(number * blocks), Pbn((number + 1) * blocks), 0);
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
            first = first + piece;
        }
        Ok(free)
    }
}
