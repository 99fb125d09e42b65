//! All bios of a disk, or of a part of it, with the content of writes.
//!
//! 1. Whoever writes never waits for the reader: what finds no room in the ring is lost, and counted.
//! 2. The content of a bio comes before the bio. A block that is not reported is unknown; none is reported that was not whole.
//! 3. The ring is the only memory that grows with the load, and it is bounded.
//!
//! Content is copied when the bio is submitted. The memory of a direct write may be changed later by its program.

mod address;
mod blocks;
mod wishes;

use crate::loader::Task;
use crate::observation::Observation;
use crate::observer::now_ns;
use crate::piece::BioName;
use crate::source::{Bpf, Count, Record, Seen, Sight, Tracepoint};
use crate::{BLOCK_BYTES, Means, Place, Refused, Wants};
use blocks::Blocks;
use std::io;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use wishes::Wishes;

/// The smallest ring: what content leaves free, and as much again.
const RING_BYTES_MIN: usize = 128 << 10;

/// A bio of the range.
#[derive(Clone, Debug)]
pub struct Request {
    pub bio: BioName,
    /// Nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Bytes from the beginning of the range; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush, which has no other meaning.
    pub length: u64,
    /// What was written before has to be durable when it is done.
    pub flushes: bool,
    pub observation: Observation,
}

/// Something that was seen.
pub enum Event<'a> {
    /// A whole block of a write that is reported later. `at`: bytes from the beginning of the range.
    Block {
        bio: BioName,
        at: u64,
        content: &'a [u8; 4096],
    },
    Request(Request),
}

/// The counts of a watch since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchCounts {
    pub requests: u64,
    /// Requests for which the ring had no room.
    pub lost_requests: u64,
    /// Blocks of reported requests for whose content it had no room.
    pub lost_blocks: u64,
    /// Pieces of content that the kernel could not read.
    pub unreadable: u64,
}

/// A watch of one disk or of a part of it. Dropping it removes everything from the kernel.
pub struct Watch {
    sight: Sight,
    place: Place,
    blocks: Blocks,
    wishes: Wishes,
    counts: WatchCounts,
}

impl Watch {
    /// Begins to watch, with a ring of at most `ring_bytes`. By the tracepoint, where there is no BPF, there are no files, no content, and
    /// no flushes of a disk without a write cache.
    ///
    /// `device` is the path of the device whose place it is: some pages of it are read. `spawn` is as in
    /// [`Observer::begin_in_child`](crate::Observer::begin_in_child).
    ///
    /// # Errors
    /// Returns why neither is possible, or why the child failed.
    pub fn begin_in_child(
        place: Place,
        device: &Path,
        wants: Wants,
        ring_bytes: usize,
        spawn: impl FnOnce(Stdio) -> io::Result<Child>,
    ) -> Result<Self, Refused> {
        if ring_bytes < RING_BYTES_MIN {
            return Err(Refused::Memory { given: ring_bytes, least: RING_BYTES_MIN });
        }
        // On 32 bits most memory has no address.
        let content = cfg!(target_pointer_width = "64");
        let Place { disk, start, .. } = place;
        let task = Task::Record { start, end: place.limit(), content, wishes: !place.has_write_cache() };
        let bpf = match Bpf::begin(disk, wants, task, ring_bytes, spawn) {
            Ok(bpf) => {
                // Where the disk cannot be opened, its file system's own buffers teach it, with the next commit of a journal.
                let _ = address::teach(device, place.bytes(), || knows_addresses(&bpf));
                return Ok(Self::new(Sight::Bpf(Box::new(bpf)), place));
            }
            Err(refused) if refused.leaves_tracepoint() => refused,
            Err(refused) => return Err(refused),
        };
        match Tracepoint::begin(disk, wants, true, ring_bytes) {
            Ok(tracepoint) => Ok(Self::new(Sight::Tracepoint(Box::new(tracepoint)), place)),
            Err(tracepoint) => Err(Refused::Neither { bpf: Box::new(bpf), tracepoint: Box::new(tracepoint) }),
        }
    }

    fn new(sight: Sight, place: Place) -> Self {
        Self { sight, place, blocks: Blocks::default(), wishes: Wishes::default(), counts: WatchCounts::default() }
    }

    /// Returns by what it asks the kernel.
    pub fn means(&self) -> Means {
        self.sight.means()
    }

    /// Returns the range that is watched.
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Returns whether the content of writes is seen now. Where the disk cannot be opened, it may be seen only later.
    pub fn has_content(&self) -> bool {
        if let Sight::Bpf(bpf) = &self.sight { knows_addresses(bpf) } else { false }
    }

    /// Returns whether flushes are seen. The kernel drops those of a disk without a write cache, unless it takes a program before that.
    pub fn has_flushes(&self) -> bool {
        let sees_wishes = if let Sight::Bpf(bpf) = &self.sight { bpf.sees_wishes() } else { false };
        sees_wishes || self.place.has_write_cache()
    }

    /// Returns the bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.sight.bytes()
    }

    /// Returns what has been counted so far.
    pub fn counts(&self) -> WatchCounts {
        let Sight::Bpf(bpf) = &self.sight else { return self.counts };
        WatchCounts { lost_blocks: bpf.count(Count::LostBlocks), unreadable: bpf.count(Count::Unreadable), ..self.counts }
    }

    /// Returns the part of the ring that is in use, from 0 to 1; 0 by the tracepoint, which does not say.
    pub fn fullness(&self) -> f64 {
        if let Sight::Bpf(bpf) = &self.sight { bpf.fullness() } else { 0.0 }
    }

    /// Waits until much is in the ring, or for `time_max`.
    ///
    /// # Errors
    /// Fails if the system refuses to wait.
    pub fn wait(&self, time_max: Duration) -> io::Result<()> {
        match &self.sight {
            Sight::Bpf(bpf) => bpf.wait(time_max),
            Sight::Tracepoint(_) => {
                std::thread::sleep(time_max);
                Ok(())
            }
        }
    }

    /// Passes on what has been seen before this began.
    pub fn drain(&mut self, mut each: impl FnMut(Event<'_>)) {
        let has_content = self.has_content();
        let Self { sight, place, blocks, wishes, counts } = self;
        let drained = sight.drain(|record| match record {
            Record::Piece(piece) if has_content => {
                let bio = piece.bio;
                blocks.add(&piece, |at, content| each(Event::Block { bio, at, content }));
            }
            Record::Piece(_) => {}
            Record::Seen(seen) if seen.is_wish && seen.bio.start != seen.bio.end => wishes.keep(&seen),
            Record::Seen(mut seen) => {
                wishes.fulfil(&mut seen);
                if let Some(request) = request_of(seen, *place) {
                    blocks.end(request.bio);
                    counts.requests += 1;
                    each(Event::Request(request));
                }
            }
        });
        counts.lost_requests += drained.lost;
    }

    /// Returns the time by the clock of the requests, in nanoseconds.
    pub fn now_ns() -> u64 {
        now_ns()
    }
}

/// Returns whether the program can compute the address of any page: from one, and another one has agreed. Where the kernel's memory has
/// no one address for each page, there is no content.
fn knows_addresses(bpf: &Bpf) -> bool {
    bpf.count(Count::KnownAgreed) > 0 && bpf.count(Count::KnownDisagreed) == 0
}

/// Returns a bio as a request of the range, if it lies in it.
fn request_of(seen: Seen, place: Place) -> Option<Request> {
    let Seen { bio, processor, flushes, .. } = seen;
    let is_flush = bio.start == bio.end;
    let is_within = bio.start >= place.start && bio.end <= place.limit();
    let (offset, length) = if is_flush { (0, 0) } else { ((bio.start.checked_sub(place.start)?) * 512, (bio.end - bio.start) * 512) };
    let name = BioName { time: bio.time, processor };
    (is_flush || is_within).then_some(Request { bio: name, time_ns: bio.time, offset, length, flushes, observation: bio.observation })
}

/// The blocks of 4 KiB that a request touches.
impl Request {
    /// Returns the number of blocks of 4 KiB that it touches.
    pub const fn blocks(&self) -> u64 {
        if self.length == 0 { 0 } else { (self.offset + self.length).div_ceil(BLOCK_BYTES) - self.offset / BLOCK_BYTES }
    }
}
