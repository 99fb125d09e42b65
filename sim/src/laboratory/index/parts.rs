//! APP-Dedupe's index (section III.B): a part for each stream, of which the active ones are in memory and the others on the medium.
//!
//! 1. A stream finds in line what its own part in memory has, and nothing of another part.
//! 2. A stream is active if one of the last N requests is its own. A block device cannot see the foreground, and this it can.
//! 3. The request of a stream whose part is on the medium loads it, in one sequential read. Parts that are not active make room for it, the
//!    least recently active one first, each as a whole. If that does not do, the newcomer gets at least an equal share of the memory: the
//!    largest active parts lose fingerprints to it (by recency, with counts), and it loads those that were used last. It loads the rest as
//!    soon as no other stream is active.
//! 4. An entry is as large as one of the engine's index of the same memory, in memory and on the medium. The order of use and the count
//!    take no memory.
//! 5. With [`Medium::Swap`] a part that leaves memory is written as far as it changed since it was loaded, in one sequential write. Counts,
//!    the order and what was removed are no change. A fingerprint that is evicted before it was written is lost in line.
//! 6. With [`Medium::Placement`] the medium keeps the blocks of a stream together, and so their entries in the fingerprint table: nothing
//!    is written, and nothing is lost. An entry is as large as one of the table. The order of use survives there, too.
//! 7. The work out of line is the engine's: it reads the fingerprint table. A duplicate of another stream that it finds gets an entry in
//!    this stream's part; the table has none for it.
//!
//! Rules 4 to 6 read what the paper leaves open in its favour.

use super::interface::{Index, IndexIo, Skipped};
use super::part::Part;
use super::stored::{Pbn, Stored};
use super::streams::{STREAMS_MAX, Stream};
use super::swept::{ENTRIES_A_UNIT, sweep};
use super::writes::Content;
use onefold_engine::index::Index as InMemory;

/// The bytes of a unit, and of an entry of the fingerprint table.
const UNIT_BYTES: f64 = 4096.0;
const TABLE_ENTRY_BYTES: f64 = UNIT_BYTES / ENTRIES_A_UNIT as f64;
/// No stream.
const NOBODY: Stream = Stream::MAX;

/// The level on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Parts of their own, which are written when they leave memory.
    Swap,
    /// The fingerprint table, in which each stream's entries are together.
    Placement,
}

/// The index.
#[derive(Debug)]
pub struct Parts {
    entries_max: u64,
    entry_bytes: f64,
    medium: Medium,
    /// The number of requests within which an active stream has sent one; none if there is one part for all.
    active: Option<u64>,
    parts: Vec<Part>,
    /// The number of the last request of each stream.
    last: Vec<u64>,
    /// Whether a part has been loaded up to its share only.
    is_partial: Vec<bool>,
    requests: u64,
    current: usize,
    held: u64,
    /// The stream that stored each block, and the contents whose fingerprint each stream's part may have, a bit for each stream.
    storer: Vec<Stream>,
    holders: Vec<u64>,
    io: IndexIo,
}

impl Parts {
    /// Makes an index with room for as many entries as the engine's has with these bytes, for a volume of at most `blocks` blocks.
    #[must_use]
    pub fn new(bytes: u64, blocks: u64, contents: u32, medium: Medium, active: u64) -> Self {
        let model = InMemory::new(bytes, blocks);
        let entry_bytes = match medium {
            Medium::Swap => model.bytes() as f64 / model.capacity() as f64,
            Medium::Placement => TABLE_ENTRY_BYTES,
        };
        Self { entries_max: model.capacity(), entry_bytes, medium, active: Some(active), ..Self::empty(blocks, contents) }
    }

    /// Makes the same index with one part for all streams.
    #[must_use]
    pub fn undivided(bytes: u64, blocks: u64, contents: u32) -> Self {
        Self { active: None, ..Self::new(bytes, blocks, contents, Medium::Swap, 1) }
    }

    /// Makes an index of parts with room for everything.
    #[must_use]
    pub fn unbounded(blocks: u64, contents: u32) -> Self {
        Self { active: Some(1), ..Self::empty(blocks, contents) }
    }

    fn empty(blocks: u64, contents: u32) -> Self {
        Self {
            entries_max: u64::MAX,
            entry_bytes: 1.0,
            medium: Medium::Swap,
            active: None,
            parts: (0..STREAMS_MAX).map(|_| Part::default()).collect(),
            last: vec![0; STREAMS_MAX],
            is_partial: vec![false; STREAMS_MAX],
            requests: 0,
            current: 0,
            held: 0,
            storer: vec![NOBODY; usize::try_from(blocks).expect("it fits in memory")],
            holders: vec![0; contents as usize],
            io: IndexIo::default(),
        }
    }

    fn is_active(&self, part: usize) -> bool {
        let window = self.active.unwrap_or(1);
        part == self.current || self.last[part] > 0 && self.last[part] + window > self.requests
    }

    fn active_parts(&self) -> u64 {
        (0..STREAMS_MAX).filter(|&part| self.is_active(part)).count() as u64
    }

    fn units(&self, entries: u64) -> u64 {
        (entries as f64 * self.entry_bytes / UNIT_BYTES).ceil() as u64
    }

    /// Takes the least recently active part out of memory that is not active. Returns whether there was one.
    fn drop_idle(&mut self) -> bool {
        let idle = (0..STREAMS_MAX).filter(|&part| !self.is_active(part) && self.parts[part].held() > 0);
        let Some(part) = idle.min_by_key(|&part| self.last[part]) else { return false };
        self.held -= self.parts[part].held();
        let (medium, storer) = (self.medium, &self.storer);
        let unwritten = self.parts[part].swap_out(|pbn| medium == Medium::Swap || usize::from(storer[pbn as usize]) == part);
        if medium == Medium::Swap {
            self.io.written += self.units(unwritten);
        }
        true
    }

    /// Evicts a fingerprint of the largest part, other than one that is spared.
    fn evict_but(&mut self, spared: Option<usize>) {
        let others = (0..STREAMS_MAX).filter(|&part| Some(part) != spared);
        let part = others.max_by_key(|&part| self.parts[part].held()).expect("there are several parts");
        let (medium, storer) = (self.medium, &self.storer);
        self.held -= u64::from(self.parts[part].evict(|pbn, is_written| match medium {
            Medium::Swap => is_written,
            Medium::Placement => usize::from(storer[pbn as usize]) == part,
        }));
    }

    /// Loads the current part as far as it has room.
    fn load(&mut self) {
        let part = self.current;
        let wanted = self.parts[part].away();
        while self.held.saturating_add(wanted) > self.entries_max && self.drop_idle() {}
        let active = self.active_parts();
        let share = (self.entries_max / active).saturating_sub(self.parts[part].held());
        let room = (self.entries_max - self.held).max(share).min(wanted);
        while self.held + room > self.entries_max {
            self.evict_but(Some(part));
        }
        let loaded = self.parts[part].swap_in(room);
        self.held += loaded;
        self.io.read += self.units(loaded);
        self.is_partial[part] = loaded < wanted && active > 1;
    }

    fn put(&mut self, part: usize, content: Content, pbn: Pbn) {
        self.holders[content as usize] |= 1 << part;
        self.held += u64::from(self.parts[part].insert(content, pbn));
        while self.held > self.entries_max {
            if !self.drop_idle() {
                self.evict_but(None);
            }
        }
    }
}

impl Index for Parts {
    fn request_of(&mut self, stream: Stream) {
        if self.active.is_none() {
            return;
        }
        self.requests += 1;
        self.current = usize::from(stream);
        self.last[self.current] = self.requests;
        let part = &self.parts[self.current];
        if part.away() > 0 && (part.held() == 0 || self.is_partial[self.current] && self.active_parts() == 1) {
            self.load();
        }
    }

    fn look_up(&mut self, content: Content, _lbn: u32, _stored: &Stored) -> Option<Pbn> {
        self.parts[self.current].look_up(content)
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        let part = self.current;
        self.storer[pbn as usize] = Stream::try_from(part).expect("a part of a stream");
        self.put(part, content, pbn);
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        let holders = self.holders[content as usize];
        for part in (0..STREAMS_MAX).filter(|part| holders & 1 << part != 0) {
            self.held -= u64::from(self.parts[part].remove(content, pbn));
        }
        self.storer[pbn as usize] = NOBODY;
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        let (found, read) = sweep(skipped, stored);
        self.io.looked_up += read;
        for (one, pbn) in skipped.iter().zip(&found) {
            let part = usize::from(self.storer[one.pbn as usize]);
            let Some(pbn) = pbn.filter(|_| part < STREAMS_MAX) else { continue };
            if self.parts[part].held() > 0 {
                self.put(part, one.content, pbn);
            }
        }
        found
    }

    fn io(&self) -> IndexIo {
        self.io
    }

    fn resident(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index with room for twelve fingerprints, and a volume.
    struct Scene {
        index: Parts,
        stored: Stored,
        lbns: u32,
    }

    fn scene(medium: Medium, active: u64) -> Scene {
        let index = Parts::new(0, 10_000, 1000, medium, active);
        assert_eq!(index.entries_max, 12);
        Scene { index, stored: Stored::new(1000, 1000), lbns: 0 }
    }

    impl Scene {
        /// Sends a request of a stream with these contents. Returns how many of them the index found.
        fn request(&mut self, stream: Stream, contents: impl IntoIterator<Item = Content>) -> usize {
            self.index.request_of(stream);
            contents.into_iter().filter(|&content| self.write(content)).count()
        }

        fn write(&mut self, content: Content) -> bool {
            let known = self.index.look_up(content, self.lbns, &self.stored);
            let pbn = known.unwrap_or_else(|| self.stored.store(content));
            self.stored.link(self.lbns, Some(pbn));
            if known.is_none() {
                self.index.insert(content, pbn, self.lbns, &self.stored);
            }
            self.lbns += 1;
            known.is_some()
        }

        /// Discards the block that an LBN means.
        fn discard(&mut self, lbn: u32) {
            let (content, pbn) = self.stored.link(lbn, None).expect("the only link");
            self.index.remove(content, pbn);
        }

        fn io(&self) -> (u64, u64) {
            (self.index.io.read, self.index.io.written)
        }
    }

    #[test]
    fn a_part_never_finds_the_content_of_another_stream() {
        for active in [1, 64] {
            let mut scene = scene(Medium::Swap, active);
            assert_eq!((scene.request(0, [1, 2]), scene.request(1, [1, 2])), (0, 0), "both have room");
            assert_eq!((scene.request(0, [1, 2]), scene.request(1, [2, 1])), (2, 2), "each finds its own");
            assert_eq!(scene.request(2, [1, 2]), 0);
        }
    }

    #[test]
    fn an_undivided_index_finds_them() {
        let mut index = Parts::undivided(0, 10_000, 1000);
        let mut stored = Stored::new(10, 10);
        let pbn = stored.store(1);
        stored.link(0, Some(pbn));
        index.request_of(0);
        index.insert(1, pbn, 0, &stored);
        index.request_of(1);
        assert_eq!(index.look_up(1, 1, &stored), Some(pbn));
    }

    #[test]
    fn a_loaded_part_finds_what_it_held_and_units_are_counted() {
        for (medium, written) in [(Medium::Swap, 1), (Medium::Placement, 0)] {
            let mut scene = scene(medium, 1);
            scene.request(0, 1..9);
            scene.request(1, 11..15);
            assert_eq!((scene.io(), scene.index.resident()), ((0, 0), 12), "both have room");
            scene.request(1, [15]);
            assert_eq!((scene.io(), scene.index.resident()), ((0, written), 5), "the part of stream 0 has left as a whole");
            assert_eq!((scene.request(0, 1..9), scene.io()), (8, (1, 2 * written)), "it is loaded, and that of stream 1 leaves");
            assert_eq!((scene.request(1, 11..16), scene.io()), (5, (2, 2 * written)), "nothing of it had changed");
        }
    }

    #[test]
    fn what_is_free_is_forgotten_in_memory_and_on_the_medium() {
        let mut scene = scene(Medium::Swap, 1);
        scene.request(0, 1..9);
        scene.discard(0);
        scene.request(1, 11..17);
        scene.discard(1);
        assert_eq!((scene.index.parts[0].held(), scene.index.parts[0].away()), (0, 6));
        assert_eq!((scene.request(0, 1..9), scene.io()), (6, (1, 2)));
    }

    #[test]
    fn active_parts_share_the_memory() {
        let mut scene = scene(Medium::Swap, 64);
        scene.request(0, 1..13);
        scene.request(1, 21..27);
        assert_eq!((scene.index.parts[0].held(), scene.index.parts[1].held()), (6, 6), "the largest loses fingerprints");
        scene.request(1, [27]);
        assert_eq!((scene.request(0, 7..13), scene.request(1, 22..28)), (6, 6), "the oldest ones of both have left");
        assert_eq!(scene.io(), (0, 0), "and no part was moved");
    }

    #[test]
    fn a_newcomer_gets_an_equal_share_and_the_rest_when_it_is_alone() {
        let mut scene = scene(Medium::Swap, 3);
        scene.request(0, 1..11);
        (0..3).for_each(|_| assert_eq!(scene.request(1, []), 0));
        scene.request(1, 21..31);
        assert_eq!((scene.io(), scene.index.resident()), ((0, 1), 10));
        assert_eq!((scene.request(0, []), scene.index.parts[0].held(), scene.index.parts[1].held()), (0, 6, 6));
        assert_eq!(scene.request(0, 5..11), 6, "those that were used last");
        (0..2).for_each(|_| assert_eq!(scene.request(0, []), 0));
        assert_eq!((scene.request(0, 1..11), scene.io()), (10, (2, 2)), "the part of stream 1 was swapped for the rest");
    }

    #[test]
    fn what_work_out_of_line_finds_is_the_streams_own_from_then_on() {
        let mut scene = scene(Medium::Swap, 1);
        scene.request(0, [1]);
        scene.request(1, [1]);
        let skipped = [Skipped { lbn: 1, pbn: 1, content: 1 }];
        assert_eq!(scene.index.find_out_of_line(&skipped, &scene.stored), [Some(0)]);
        let (content, free) = scene.stored.link(1, Some(0)).expect("the other block is free");
        scene.index.remove(content, free);
        scene.index.request_of(1);
        assert_eq!((scene.index.look_up(1, 9, &scene.stored), scene.index.io.looked_up), (Some(0), 1));
    }
}
