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
/// More than a record of the program.
const RECORD_BYTES_MAX: usize = 512;
/// Looks at a record that is being copied, before the reader goes on without it; a copy takes tens of nanoseconds.
const PATIENCE: u32 = 200;

/// A ring buffer, of which this is the only reader.
pub(crate) struct Ring {
    consumer: Mapping,
    /// One page with the writers' position, then the data, twice: a record that goes across the end is in one piece.
    producer: Mapping,
    page_bytes: usize,
    ring_bytes: u64,
    position: u64,
}

impl Ring {
    /// Maps the ring of `ring_bytes`, a power of two.
    pub fn new(map: BorrowedFd<'_>, ring_bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let consumer = Mapping::new(map, 0, page_bytes, true)?;
        let producer = Mapping::new(map, page_bytes as u64, page_bytes + 2 * ring_bytes, false)?;
        let position = consumer.word(0).load(Ordering::Relaxed);
        Ok(Self { consumer, producer, page_bytes, ring_bytes: ring_bytes as u64, position })
    }

    /// Passes on each record that was there when this began, and returns whether some of them are hidden.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> bool {
        let end = self.producer.word(0).load(Ordering::Acquire);
        let begin = self.position;
        let mut is_behind = false;
        let mut record = [0; RECORD_BYTES_MAX];
        while self.position < end {
            let place = usize::try_from(self.position & (self.ring_bytes - 1)).expect("a ring fits into memory") + self.page_bytes;
            let Some(header) = self.published(place) else {
                is_behind = true;
                break;
            };
            let bytes = header & !DISCARDED;
            if header & DISCARDED == 0 {
                let record = &mut record[..(bytes as usize).min(RECORD_BYTES_MAX)];
                self.producer.copy(place + HEADER_BYTES, record);
                each(record);
            }
            self.position += (u64::from(bytes) + HEADER_BYTES as u64).next_multiple_of(8);
        }
        if self.position != begin {
            // Writers may have the room from now on: everything has been copied.
            self.consumer.word(0).store(self.position, Ordering::Release);
        }
        is_behind
    }

    /// Returns the header of a record that has been published.
    fn published(&self, place: usize) -> Option<u32> {
        for _ in 0..PATIENCE {
            let header = self.producer.half_word(place).load(Ordering::Acquire);
            if header & BUSY == 0 {
                return Some(header);
            }
            std::hint::spin_loop();
        }
        None
    }
}
