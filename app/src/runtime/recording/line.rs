//! The ring between those who tell and the recorder.
//!
//! 1. Nobody waits: what finds no room is a gap, and so is what follows until half of the room is free again, so that gaps are few and
//!    long.
//! 2. What the recorder is done with comes back by a second ring, and those who tell let go of it. The recorder itself never does: it has
//!    idle priority, and would keep everybody waiting if it lost the processor with the lock of the pool or of the allocator in hand.
//! 3. Content that is not back yet is bounded in number and in bytes; so neither ring ever lacks room for it.

use super::entry::{Asked, Content, LastGap, Told, Wants, What};
use onefold_trace::header::Gap;
use rtrb::{Consumer, Producer};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::thread::Thread;

/// Contents that are let go of at once: the time that takes is somebody's.
pub const LET_GO_MAX: usize = 16;

/// Nanoseconds of the clock that never goes back.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The recorder, as those who tell know it.
pub struct Listener {
    pub thread: Thread,
    pub is_asleep: Arc<AtomicBool>,
}

impl Listener {
    fn wake(&self) {
        // The recorder says that it sleeps before it looks a last time, and we look whether it does after the push: one sees the other.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.is_asleep.store(false, Ordering::Relaxed);
            self.thread.unpark();
        }
    }
}

/// What comes back.
pub struct Spent {
    ring: Consumer<Content>,
    /// Contents that are not back.
    out: usize,
    /// What they hold.
    held_bytes: u64,
}

impl Spent {
    /// Some of what came back, to be let go of elsewhere.
    pub fn take(&mut self) -> [Option<Content>; LET_GO_MAX] {
        std::array::from_fn(|_| {
            let content = self.ring.pop().ok()?;
            self.out = self.out.saturating_sub(1);
            self.held_bytes = self.held_bytes.saturating_sub(content.held_bytes());
            Some(content)
        })
    }

    /// Lets go of all that came back.
    pub fn let_go(&mut self) {
        while self.take()[0].is_some() {}
    }
}

/// The tellers' end.
pub struct Line {
    entries: Producer<Told>,
    spent: Spent,
    wants: Wants,
    origin_ns: u64,
    held_max: u64,
    gap: Option<Gap>,
    listener: Listener,
}

impl Line {
    /// A line on which content of `held_max` bytes may wait.
    pub fn new(entries: Producer<Told>, spent: Consumer<Content>, wants: Wants, origin_ns: u64, held_max: u64, listener: Listener) -> Self {
        let spent = Spent { ring: spent, out: 0, held_bytes: 0 };
        Self { entries, spent, wants, origin_ns, held_max, gap: None, listener }
    }

    pub const fn wants(&self) -> Wants {
        self.wants
    }

    pub const fn spent(&mut self) -> &mut Spent {
        &mut self.spent
    }

    /// Writes down that a phase begins; whether there was room.
    #[must_use]
    pub fn mark(&mut self, phase: String) -> bool {
        let told = Told { time_ns: self.now_ns(), what: What::Mark(phase), content: Content::None, gap: None };
        let is_told = self.entries.push(told).is_ok();
        self.listener.wake();
        is_told
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    /// Writes down a request, or counts it as missed.
    pub fn tell(&mut self, asked: Asked, content: Content) {
        let time_ns = self.now_ns();
        let held_bytes = content.held_bytes();
        let comes_back = !matches!(content, Content::None);
        if self.has_room(held_bytes) && self.entries.push(Told { time_ns, what: What::Asked(asked), content, gap: self.gap }).is_ok() {
            self.gap = None;
            self.spent.out += usize::from(comes_back);
            self.spent.held_bytes += held_bytes;
            self.listener.wake();
        } else {
            self.gap.get_or_insert(Gap { time_ns, requests: 0 }).requests += 1;
        }
    }

    fn has_room(&self, more_bytes: u64) -> bool {
        let Spent { out, held_bytes, .. } = self.spent;
        let requests = self.entries.buffer().capacity();
        let is_open = match self.gap {
            None => out < requests,
            Some(_) => self.entries.slots() >= requests / 2 && out <= requests / 2 && held_bytes <= self.held_max / 2,
        };
        is_open && held_bytes + more_bytes <= self.held_max
    }

    /// Tells no more: leaves what was missed at the end where the recorder finds it, and wakes it.
    pub fn close(self, last_gap: &LastGap) -> Spent {
        *last_gap.lock().unwrap_or_else(PoisonError::into_inner) = self.gap;
        drop(self.entries);
        self.listener.thread.unpark();
        self.spent
    }
}
