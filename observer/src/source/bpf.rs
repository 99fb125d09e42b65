//! Bios seen by the BPF program of `observer/bpf/`, which another process has loaded.

use super::{Drained, Record, ring_bytes_within};
use crate::loader::{Order, Task, load};
use crate::mapping::Mapping;
use crate::piece::Piece;
use crate::record::Decoder;
use crate::ring::Ring;
use crate::{Disk, Refused, Wants};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The attached program and its ring. The kernel removes both when this is dropped.
pub(crate) struct Bpf {
    ring: Ring,
    counts: Mapping,
    lost_before: u64,
    decoder: Decoder,
    ring_bytes: usize,
    /// To wait for records of a recording. An observer never waits, and needs no descriptor but that of its link.
    ring_file: Option<OwnedFd>,
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
        let cannot = |what: &'static str| move |source| Refused::NotAllowed { what: format!("mmap of {what}"), source };
        let ring = Ring::new(loaded.ring.as_fd(), ring_bytes).map_err(cannot("the ring"))?;
        let counts = Mapping::new(loaded.counts.as_fd(), 0, rustix::param::page_size(), false).map_err(cannot("the counts"))?;
        let ring_file = (task != Task::Observe).then_some(loaded.ring);
        let (decoder, sees_wishes) = (Decoder::default(), loaded.sees_wishes);
        Ok(Self { ring, counts, lost_before: 0, decoder, ring_bytes, ring_file, sees_wishes, _links: loaded.links })
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

    /// Waits until the program says that much is in the ring, or for `time_max`.
    pub fn wait(&self, time_max: Duration) -> io::Result<()> {
        let time_max = Timespec::try_from(time_max).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut files: Vec<_> = self.ring_file.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
        match poll(&mut files, Some(&time_max)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes on each bio that was seen before this began, and before it the pieces of its content.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>)) -> Drained {
        let decoder = &mut self.decoder;
        let is_behind = self.ring.drain(|record| {
            if let Some(piece) = Piece::decode(record) {
                each(Record::Piece(piece));
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
