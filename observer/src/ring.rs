//! The reader of a BPF ring buffer.
//!
//! The ring is read in shared memory, without a system call. A writer reserves its record, copies it, and publishes it; writers on other
//! processors do so meanwhile, in any order. A record that is not published yet stops the reader: it is *behind*, and the records after
//! it are hidden.

use crate::mapping::Mapping;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Bits of a record's header, whose other bits are its length.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;
/// More than a record of the program: a piece of content is the longest.
const RECORD_BYTES_MAX: usize = 4352;
/// The part of the ring that is read before writers may have its room.
const RELEASES: usize = 32;
/// Looks at a record that is being copied, before the reader goes on without it; a copy takes tens of nanoseconds.
const PATIENCE: u32 = 200;

/// A ring buffer, of which this is the only reader.
pub(crate) struct Ring {
    consumer: Mapping,
    /// One page with the writers' position, then the data.
    producer: Mapping,
    page_bytes: usize,
    ring_bytes: usize,
    position: u64,
    record: Box<[u8]>,
}

impl Ring {
    /// Maps the ring of `ring_bytes`, a power of two.
    pub fn new(map: BorrowedFd<'_>, ring_bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let consumer = Mapping::new(map, 0, page_bytes, true)?;
        let producer = Mapping::new(map, page_bytes as u64, page_bytes + ring_bytes, false)?;
        let position = consumer.word(0).load(Ordering::Relaxed);
        Ok(Self { consumer, producer, page_bytes, ring_bytes, position, record: vec![0; RECORD_BYTES_MAX].into() })
    }

    /// Returns the bytes that wait in the ring, of records that are published or not.
    pub fn waiting(&self) -> u64 {
        self.producer.word(0).load(Ordering::Acquire) - self.consumer.word(0).load(Ordering::Relaxed)
    }

    /// Passes on each record that was there when this began, and returns whether some of them are hidden.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> bool {
        let end = self.producer.word(0).load(Ordering::Acquire);
        let mut released = self.position;
        let mut is_behind = false;
        while self.position < end {
            let Some(header) = self.published(self.place(self.position)) else {
                is_behind = true;
                break;
            };
            let bytes = header & !DISCARDED;
            if header & DISCARDED == 0 {
                let mut record = std::mem::take(&mut self.record);
                let length = (bytes as usize).min(record.len());
                self.copy(self.position + HEADER_BYTES as u64, &mut record[..length]);
                each(&record[..length]);
                self.record = record;
            }
            self.position += (u64::from(bytes) + HEADER_BYTES as u64).next_multiple_of(8);
            if self.position - released >= (self.ring_bytes / RELEASES) as u64 {
                released = self.release();
            }
        }
        if self.position != released {
            self.release();
        }
        is_behind
    }

    /// Gives writers the room of everything that has been copied.
    fn release(&self) -> u64 {
        self.consumer.word(0).store(self.position, Ordering::Release);
        self.position
    }

    fn place(&self, position: u64) -> usize {
        usize::try_from(position & (self.ring_bytes as u64 - 1)).expect("a ring fits into memory")
    }

    /// Copies what is in the ring at a position, around its end.
    fn copy(&self, position: u64, out: &mut [u8]) {
        let at = self.place(position);
        let (first, second) = out.split_at_mut(out.len().min(self.ring_bytes - at));
        self.producer.copy(self.page_bytes + at, first);
        self.producer.copy(self.page_bytes, second);
    }

    /// Returns the header of a record that has been published.
    fn published(&self, place: usize) -> Option<u32> {
        for _ in 0..PATIENCE {
            let header = self.producer.half_word(self.page_bytes + place).load(Ordering::Acquire);
            if header & BUSY == 0 {
                return Some(header);
            }
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::AsFd;

    const RING_BYTES: usize = 1 << 16;

    /// The kernel's side of a ring, in a file of memory.
    struct Writer {
        all: Mapping,
        page_bytes: usize,
        position: usize,
    }

    impl Writer {
        fn new() -> (Self, Ring) {
            let page_bytes = rustix::param::page_size();
            let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
            let bytes = 2 * page_bytes + RING_BYTES;
            ftruncate(&file, bytes as u64).unwrap();
            let all = Mapping::new(file.as_fd(), 0, bytes, true).unwrap();
            let ring = Ring::new(file.as_fd(), RING_BYTES).unwrap();
            (Self { all, page_bytes, position: 0 }, ring)
        }

        /// Reserves a record that begins with `content`, and returns its place.
        fn reserve(&mut self, header: u32, content: u32) -> usize {
            let place = |position: usize| 2 * self.page_bytes + position % RING_BYTES;
            let (place, content_place) = (place(self.position), place(self.position + HEADER_BYTES));
            self.all.half_word(place).store(header, Ordering::Relaxed);
            self.all.half_word(content_place).store(content, Ordering::Relaxed);
            let bytes = usize::try_from(header & !(BUSY | DISCARDED)).unwrap();
            self.position += (bytes + HEADER_BYTES).next_multiple_of(8);
            self.all.word(self.page_bytes).store(self.position as u64, Ordering::Release);
            place
        }

        fn consumed(&self) -> u64 {
            self.all.word(0).load(Ordering::Acquire)
        }
    }

    /// Drains a ring; returns the records' lengths and contents, and whether some are hidden.
    fn drained(ring: &mut Ring) -> (Vec<(usize, u32)>, bool) {
        let mut seen = Vec::new();
        let is_behind = ring.drain(|record| seen.push((record.len(), u32::from_ne_bytes(*record.first_chunk().unwrap()))));
        (seen, is_behind)
    }

    #[test]
    fn a_record_that_is_not_published_hides_those_behind_it() {
        let (mut writer, mut ring) = Writer::new();
        assert_eq!(drained(&mut ring), (vec![], false));
        writer.reserve(56, 1);
        let busy = writer.reserve(BUSY | 92, 2);
        writer.reserve(DISCARDED | 56, 3);
        writer.reserve(88, 4);
        assert_eq!(drained(&mut ring), (vec![(56, 1)], true));
        assert_eq!(writer.consumed(), 64);
        assert_eq!(drained(&mut ring), (vec![], true));
        writer.all.half_word(busy).store(92, Ordering::Release);
        assert_eq!(drained(&mut ring), (vec![(92, 2), (88, 4)], false));
        assert_eq!(writer.consumed(), writer.position as u64);
    }

    #[test]
    fn a_ring_goes_round_and_round() {
        let (mut writer, mut ring) = Writer::new();
        // Eight of these fill the ring.
        let bytes = u32::try_from(RING_BYTES / 8 - HEADER_BYTES).unwrap();
        for turn in 0..40 {
            writer.reserve(bytes, turn);
            assert_eq!(drained(&mut ring), (vec![(RECORD_BYTES_MAX, turn)], false), "longer ones are cut off");
        }
        assert_eq!(writer.consumed(), 5 * RING_BYTES as u64);
    }

    #[test]
    fn a_record_goes_across_the_end() {
        let (mut writer, mut ring) = Writer::new();
        let mut wrapped = 0;
        for turn in 0..10_000_u32 {
            let start = writer.position % RING_BYTES + HEADER_BYTES;
            let content: Vec<u8> = (0..56).map(|at: u32| (turn * 7 + at).to_le_bytes()[0]).collect();
            writer.reserve(56, 0);
            for (at, part) in content.chunks(4).enumerate() {
                let place = 2 * writer.page_bytes + (start + 4 * at) % RING_BYTES;
                writer.all.half_word(place).store(u32::from_ne_bytes(part.try_into().unwrap()), Ordering::Release);
            }
            let mut seen = Vec::new();
            assert!(!ring.drain(|record| seen.push(record.to_vec())));
            assert_eq!(seen, [content], "turn {turn}");
            wrapped += u32::from(start < RING_BYTES && start + 56 > RING_BYTES);
            // Steps of 72 bytes: the end of the ring is at each place of a record once.
            writer.reserve(DISCARDED, 0);
        }
        assert!(wrapped >= 6, "{wrapped}");
    }
}
