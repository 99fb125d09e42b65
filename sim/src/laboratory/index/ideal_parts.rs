//! The most that a division can do for the engine's own index: each stream has one of its own, with the whole memory.
//!
//! 1. A stream finds in line what its own index finds, with runs and samples. A run may lead to a block that another stream stored.
//! 2. One memory holds the parts that were used last, as far as their entries fit in. Others are loaded with the stream's request, from a
//!    fingerprint table that has each stream's entries together. Loading brings back every entry, the runs and the order, which no real
//!    table could: this is a bound, and no policy to build.
//! 3. The work out of line is the engine's.

use super::interface::{Index, IndexIo, Skipped};
use super::stored::{Pbn, Stored};
use super::streams::{STREAMS_MAX, Stream};
use super::swept::{ENTRIES_A_UNIT, Swept, sweep};
use super::writes::Content;
use onefold_engine::index::Index as InMemory;

/// The parts.
pub struct IdealParts {
    bytes: u64,
    blocks: u64,
    entries_max: u64,
    /// The index of each stream that has sent a request.
    parts: Vec<Option<Swept>>,
    /// The number of the last request of each stream, and whether its part is in memory.
    last: Vec<u64>,
    is_held: Vec<bool>,
    requests: u64,
    current: usize,
    /// The stream that stored each block; none is stored by as many streams as there are.
    storer: Vec<Stream>,
    io: IndexIo,
}

impl IdealParts {
    /// Makes an empty index for a volume of at most this many blocks.
    #[must_use]
    pub fn new(bytes: u64, blocks: u64) -> Self {
        Self {
            bytes,
            blocks,
            entries_max: InMemory::new(bytes, blocks).capacity(),
            parts: (0..STREAMS_MAX).map(|_| None).collect(),
            last: vec![0; STREAMS_MAX],
            is_held: vec![false; STREAMS_MAX],
            requests: 0,
            current: 0,
            storer: vec![Stream::MAX; usize::try_from(blocks).expect("it fits in memory")],
            io: IndexIo::default(),
        }
    }

    fn entries(&self, part: usize) -> u64 {
        self.parts[part].as_ref().map_or(0, Index::resident)
    }

    fn part(&mut self, part: usize) -> &mut Swept {
        let (bytes, blocks) = (self.bytes, self.blocks);
        self.parts[part].get_or_insert_with(|| Swept::new(bytes, blocks))
    }

    /// Drops the parts that were used longest ago until the others have room.
    fn make_room(&mut self) {
        while self.resident() > self.entries_max {
            let idle = (0..STREAMS_MAX).filter(|&part| part != self.current && self.is_held[part]);
            let Some(part) = idle.min_by_key(|&part| self.last[part]) else { return };
            self.is_held[part] = false;
        }
    }
}

impl Index for IdealParts {
    fn request_of(&mut self, stream: Stream) {
        self.requests += 1;
        self.current = usize::from(stream);
        self.last[self.current] = self.requests;
        if !std::mem::replace(&mut self.is_held[self.current], true) {
            self.io.read += self.entries(self.current).div_ceil(ENTRIES_A_UNIT);
        }
        self.make_room();
    }

    fn look_up(&mut self, content: Content, lbn: u32, stored: &Stored) -> Option<Pbn> {
        self.part(self.current).look_up(content, lbn, stored)
    }

    fn insert(&mut self, content: Content, pbn: Pbn, lbn: u32, stored: &Stored) {
        let part = self.current;
        self.storer[pbn as usize] = Stream::try_from(part).expect("a part of a stream");
        self.part(part).insert(content, pbn, lbn, stored);
        self.make_room();
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        for part in self.parts.iter_mut().flatten() {
            part.remove(content, pbn);
        }
        self.storer[pbn as usize] = Stream::MAX;
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        let (found, read) = sweep(skipped, stored);
        self.io.looked_up += read;
        for (one, pbn) in skipped.iter().zip(&found) {
            let part = usize::from(self.storer[one.pbn as usize]);
            let Some(pbn) = pbn.filter(|_| part < STREAMS_MAX && self.is_held[part]) else { continue };
            self.part(part).insert(one.content, pbn, one.lbn, stored);
        }
        found
    }

    fn io(&self) -> IndexIo {
        self.io
    }

    fn resident(&self) -> u64 {
        (0..STREAMS_MAX).filter(|&part| self.is_held[part]).map(|part| self.entries(part)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_loaded_when_they_have_left_and_find_their_own_alone() {
        let (mut index, mut stored) = (IdealParts::new(0, 10_000), Stored::new(100, 100));
        let mut request = |stream: Stream, contents: std::ops::Range<Content>| {
            index.request_of(stream);
            let found = contents.clone().filter(|&content| index.look_up(content, 99, &stored).is_some()).count();
            for content in contents.skip(found) {
                let pbn = stored.store(content);
                stored.link(content, Some(pbn));
                index.insert(content, pbn, content, &stored);
            }
            (found, index.io.read)
        };
        assert_eq!((request(0, 1..9), request(1, 11..15)), ((0, 0), (0, 0)), "both have room");
        assert_eq!(request(0, 1..9), (8, 0));
        assert_eq!((request(1, 15..20), request(0, 1..9), request(0, 1..9)), ((0, 0), (8, 1), (8, 1)), "the part of stream 0 had left");
        index.request_of(2);
        assert_eq!(index.look_up(1, 50, &stored), None);
    }
}
