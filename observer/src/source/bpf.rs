//! Bios seen by the BPF program of `observer/bpf/`, which another process has loaded.

use super::{Drained, ring_bytes_within};
use crate::join::Bio;
use crate::loader::{Order, load};
use crate::mapping::Mapping;
use crate::record::Decoder;
use crate::ring::Ring;
use crate::{Disk, Refused, Wants};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;

/// The attached program and its ring. The kernel removes both when this is dropped.
pub(crate) struct Bpf {
    ring: Ring,
    lost: Mapping,
    lost_before: u64,
    decoder: Decoder,
    ring_bytes: usize,
    _link: OwnedFd,
}

impl Bpf {
    /// Has the program loaded and attached by the process that `spawn` starts, with a ring of at most `memory_bytes`.
    pub fn begin(disk: Disk, wants: Wants, memory_bytes: usize, spawn: impl FnOnce(Stdio) -> io::Result<Child>) -> Result<Self, Refused> {
        let ring_bytes = ring_bytes_within(memory_bytes);
        let order = Order { disk, wants, ring_bytes: u32::try_from(ring_bytes).expect("a ring is bounded") };
        let loaded = load(&order, spawn)?;
        let cannot = |what: &'static str| move |source| Refused::NotAllowed { what: format!("mmap of {what}"), source };
        let ring = Ring::new(loaded.ring.as_fd(), ring_bytes).map_err(cannot("the ring"))?;
        let lost = Mapping::new(loaded.lost.as_fd(), 0, rustix::param::page_size(), false).map_err(cannot("the count of losses"))?;
        Ok(Self { ring, lost, lost_before: 0, decoder: Decoder::default(), ring_bytes, _link: loaded.link })
    }

    /// Returns the bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Passes on each bio that was seen before this began.
    pub fn drain(&mut self, mut each: impl FnMut(Bio)) -> Drained {
        let decoder = &mut self.decoder;
        let is_behind = self.ring.drain(|record| {
            if let Some(bio) = decoder.decode(record) {
                each(bio);
            }
        });
        // After the ring: whatever was lost before the request arrived is in the count by now.
        let lost = self.lost.word(0).load(Ordering::Acquire);
        let lost_now = lost - std::mem::replace(&mut self.lost_before, lost);
        Drained { is_behind, has_lost: lost_now > 0, lost: lost_now }
    }
}
