//! Bios seen by the BPF program of `observer/bpf/`, which another process has loaded.

use super::{Drained, Record, ring_bytes_within};
use crate::join::SECTOR_BYTES;
use crate::loader::{Order, Task, load};
use crate::mapping::Mapping;
use crate::piece::{BioName, Piece, split_whole};
use crate::record::Decoder;
use crate::ring::Ring;
use crate::{Disk, Refused, Wants};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The part of the ring at which the program wakes a reader.
const WAKE_AT: f64 = 0.125;

/// The attached program and its ring. The kernel removes both when this is dropped.
pub(crate) struct Bpf {
    ring: Ring,
    counts: Mapping,
    lost_before: u64,
    decoder: Decoder,
    ring_bytes: usize,
    /// Of a recording. An observer never waits, and needs no descriptor but that of its link.
    waking: Option<Waking>,
    /// The first sector of what is recorded: the content of a write lies as far behind it as the write does.
    start: u64,
    sees_wishes: bool,
    _links: Vec<OwnedFd>,
}

/// The words of the map `counts`.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    Lost = 0,
    LostBlocks = 1,
    Unreadable = 2,
    KnownAgreed = 5,
    KnownDisagreed = 6,
}

impl Bpf {
    /// Has the programs of a task loaded and attached by the process that `spawn` starts, with a ring of at most `memory_bytes`.
    pub fn begin(
        disk: Disk,
        wants: Wants,
        task: Task,
        memory_bytes: usize,
        spawn: impl FnOnce(Stdio) -> io::Result<Child>,
    ) -> Result<Self, Refused> {
        let ring_bytes = ring_bytes_within(memory_bytes);
        let order = Order { disk, wants, task, ring_bytes: u32::try_from(ring_bytes).expect("a ring is bounded") };
        let loaded = load(&order, spawn)?;
        let cannot = |what: &'static str| move |source| Refused::NotAllowed { what: what.to_owned(), source };
        let ring = Ring::new(loaded.ring.as_fd(), ring_bytes).map_err(cannot("mmap of the ring"))?;
        let counts = Mapping::new(loaded.counts.as_fd(), 0, rustix::param::page_size(), false).map_err(cannot("mmap of the counts"))?;
        let (waking, start) = match task {
            Task::Observe => (None, 0),
            Task::Record { start, .. } => (Some(Waking::of(loaded.ring).map_err(|e| cannot("epoll of the ring")(e.into()))?), start),
        };
        let (decoder, sees_wishes) = (Decoder::default(), loaded.sees_wishes);
        Ok(Self { ring, counts, lost_before: 0, decoder, ring_bytes, waking, start, sees_wishes, _links: loaded.links })
    }

    /// Returns the bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Returns whether it sees what is wished of bios before the kernel drops it.
    pub fn sees_wishes(&self) -> bool {
        self.sees_wishes
    }

    /// Returns the part of the ring that is in use, from 0 to 1.
    #[allow(clippy::cast_precision_loss)] // a part, to be compared with a bound
    pub fn fullness(&self) -> f64 {
        self.ring.waiting() as f64 / self.ring_bytes as f64
    }

    /// Returns one of the counts.
    pub fn count(&self, what: Count) -> u64 {
        self.counts.word(8 * what as usize).load(Ordering::Acquire)
    }

    /// Waits until much is in the ring, or for `time_max`. What little comes waits for that time: a reader that looks at each record as it
    /// comes takes the ring's memory away from the processors that write it, and costs them more than the record.
    pub fn wait(&self, time_max: Duration) -> io::Result<()> {
        let Some(waking) = self.waking.as_ref().filter(|_| self.fullness() < WAKE_AT) else { return Ok(()) };
        let time_max = Timespec::try_from(time_max).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
        match epoll::wait(&waking.events, &mut events, Some(&time_max)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes on each bio that was seen before this began, and before it the pieces of its content.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>)) -> Drained {
        let (decoder, start) = (&mut self.decoder, self.start);
        let is_behind = self.ring.drain(|record| {
            if let Some(piece) = Piece::decode(record) {
                each(Record::Piece(piece));
            } else if let Some((observation, content)) = split_whole(record) {
                let Some(seen) = decoder.decode(observation) else { return };
                let bio = BioName { time: seen.bio.time, processor: seen.processor };
                each(Record::Piece(Piece { bio, at: (seen.bio.start - start) * SECTOR_BYTES, content }));
                each(Record::Seen(seen));
            } else if let Some(seen) = decoder.decode(record) {
                each(Record::Seen(seen));
            }
        });
        // After the ring: whatever was lost before the request arrived is in the count by now.
        let lost = self.count(Count::Lost);
        let lost_now = lost - std::mem::replace(&mut self.lost_before, lost);
        Drained { is_behind, has_lost: lost_now > 0, lost: lost_now }
    }
}

/// The program's way to wake its reader, whatever lies in the ring.
struct Waking {
    events: OwnedFd,
    _ring: OwnedFd,
}

impl Waking {
    fn of(ring: OwnedFd) -> rustix::io::Result<Self> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&events, &ring, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { events, _ring: ring })
    }
}
