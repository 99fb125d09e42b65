//! The ring between the threads that report requests and the recorder.
//!
//! 1. Nobody waits: an entry that finds no room becomes part of a gap, and so do those that follow until half of the room is free again, so
//!    that gaps are few and long.
//! 2. Contents that the recorder has read come back by a second ring, and the reporting threads free them. The recorder itself never does:
//!    it has idle priority, and would delay everybody if it lost the processor while it holds the lock of the pool or of the allocator.
//! 3. Content that is not back yet is bounded in number and in bytes, so neither ring ever lacks room for it.

use super::entry::{Asked, Content, Entry, LastGap, Wants, What};
use onefold_trace::header::Gap;
use rtrb::{Consumer, Producer};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::thread::Thread;

/// The number of contents that are freed at once, since a client's thread spends that time.
pub const RELEASE_MAX: usize = 16;

/// Returns nanoseconds of the clock that never goes back.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The recorder, as the reporting threads know it.
pub struct Listener {
    pub thread: Thread,
    pub is_asleep: Arc<AtomicBool>,
}

impl Listener {
    fn wake(&self) {
        // The recorder notes that it sleeps before it looks a last time, and this thread checks for that after the push: one sees the
        // other.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.is_asleep.store(false, Ordering::Relaxed);
            self.thread.unpark();
        }
    }
}

/// The contents that come back.
pub struct Spent {
    ring: Consumer<Content>,
    /// The number of contents that are not back.
    out: usize,
    /// The bytes that they hold.
    held_bytes: u64,
}

impl Spent {
    /// Takes some of the contents that came back, to be freed by the caller.
    pub fn take(&mut self) -> [Option<Content>; RELEASE_MAX] {
        std::array::from_fn(|_| {
            let content = self.ring.pop().ok()?;
            self.out = self.out.saturating_sub(1);
            self.held_bytes = self.held_bytes.saturating_sub(content.held_bytes());
            Some(content)
        })
    }

    /// Frees all contents that came back.
    pub fn release(&mut self) {
        while self.take()[0].is_some() {}
    }
}

/// The reporting threads' end.
pub struct Line {
    entries: Producer<Entry>,
    spent: Spent,
    wants: Wants,
    origin_ns: u64,
    held_max: u64,
    gap: Option<Gap>,
    listener: Listener,
}

impl Line {
    /// Makes a line on which content of `held_max` bytes may wait.
    pub fn new(
        entries: Producer<Entry>,
        spent: Consumer<Content>,
        wants: Wants,
        origin_ns: u64,
        held_max: u64,
        listener: Listener,
    ) -> Self {
        let spent = Spent { ring: spent, out: 0, held_bytes: 0 };
        Self { entries, spent, wants, origin_ns, held_max, gap: None, listener }
    }

    pub const fn wants(&self) -> Wants {
        self.wants
    }

    pub const fn spent(&mut self) -> &mut Spent {
        &mut self.spent
    }

    /// Adds the beginning of a phase; returns whether there was room.
    #[must_use]
    pub fn mark(&mut self, phase: String) -> bool {
        let entry = Entry { time_ns: self.now_ns(), what: What::Mark(phase), content: Content::None, gap: None };
        let is_reported = self.entries.push(entry).is_ok();
        self.listener.wake();
        is_reported
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    /// Adds a request, or counts it as missed.
    pub fn tell(&mut self, asked: Asked, content: Content) {
        let time_ns = self.now_ns();
        let held_bytes = content.held_bytes();
        let comes_back = !matches!(content, Content::None);
        if self.has_room(held_bytes) && self.entries.push(Entry { time_ns, what: What::Asked(asked), content, gap: self.gap }).is_ok() {
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

    /// Ends reporting: leaves the last gap where the recorder finds it, and wakes it.
    pub fn close(self, last_gap: &LastGap) -> Spent {
        *last_gap.lock().unwrap_or_else(PoisonError::into_inner) = self.gap;
        drop(self.entries);
        self.listener.thread.unpark();
        self.spent
    }
}
