//! Containers: neighbouring blocks that one stream fills, so that what an application writes lies together (APP-Dedupe, section III.C).
//!
//! 1. While a container is open, new blocks of its stream are allocated in it, and none of others. A stream fills one at a time on each
//!    ground, in ascending order.
//! 2. A container that was looked through is nobody's: what becomes free in it later is found by the search for all (`supply.rs`). So
//!    nothing on the medium says whose it is.
//! 3. It is advice. A stream that finds no container takes blocks as all do, and where these run out the open containers are given up.

use super::granules::GRANULE_BLOCKS;
use crate::policy::{STREAMS, Stream};
use crate::units::Pbn;
use std::collections::VecDeque;
use std::ops::Range;

/// The number of containers that a search looks at. If it finds none, streams take a container's worth of blocks elsewhere.
const LOOKS: u64 = 8;
/// The part of a container that has to be free, where none of those is free as a whole.
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

    /// Whether a stream has an open container.
    pub fn has_one(&self, stream: Stream) -> bool {
        self.open[stream.number()].is_some()
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

    /// Whether a stream may look for a container. `free`: the free blocks of the volume, if they are counted.
    pub fn may_search(&mut self, free: Option<u64>) -> bool {
        if free.is_some_and(|free| free < FREE_TIMES * self.blocks * (self.opened + 1)) {
            return false;
        }
        let rests = self.rest > 0;
        self.rest = self.rest.saturating_sub(1);
        !rests
    }

    /// The container that the search looks at next, of those of a volume with this number of blocks, and its blocks. None: it is over.
    pub fn candidate(&mut self, data_blocks: u64) -> Option<(u64, Range<Pbn>)> {
        let all = data_blocks / self.blocks;
        while self.looked < LOOKS.min(all) {
            let number = self.next % all;
            if !self.is_open(number) {
                return Some((number, Pbn(number * self.blocks)..Pbn((number + 1) * self.blocks)));
            }
            (self.next, self.looked) = (number + 1, self.looked + 1);
        }
        None
    }

    /// The search has seen how many blocks of a container are free. It ends with the first that is free as a whole.
    pub fn looked(&mut self, number: u64, free: u64) {
        (self.next, self.looked) = (number + 1, if free == self.blocks { LOOKS } else { self.looked + 1 });
        if free == self.blocks || self.chosen.is_none() && free >= self.blocks / FREE_FRACTION {
            self.chosen = Some(number);
        }
    }

    /// Ends a search. Returns what it has chosen; where that is none, streams take blocks elsewhere for a while.
    pub fn end_search(&mut self) -> Option<u64> {
        self.looked = 0;
        let chosen = self.chosen.take();
        if chosen.is_none() {
            self.rest = self.blocks;
        }
        chosen
    }

    /// Closes the container of a stream.
    pub fn close(&mut self, stream: Stream) {
        self.opened -= u64::from(self.open[stream.number()].take().is_some());
    }

    /// The next blocks of a stream's container that were not looked at: all of one granule. They are looked at when
    /// [`Self::looked_at`] is called.
    pub fn next_of(&mut self, stream: Stream) -> Option<(Pbn, u64)> {
        let blocks = self.blocks;
        let open = self.of(stream)?;
        let end = Pbn((open.number + 1) * blocks);
        (open.next < end).then(|| (open.next, (end - open.next).min(GRANULE_BLOCKS - open.next.0 % GRANULE_BLOCKS)))
    }

    /// The next blocks of a stream's container were looked at: these of them are free.
    pub fn looked_at(&mut self, stream: Stream, blocks: u64, free: Vec<Pbn>) {
        if let Some(open) = self.of(stream) {
            open.next += blocks;
            open.ready.extend(free);
        }
    }
}
