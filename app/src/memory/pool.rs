//! Memory for blocks under way, recycled.
//!
//! 1. Every buffer of a volume comes from its one pool; the accountant bounds the pool, since each buffer is charged there first.
//! 2. A request's buffer is charged to [`Part::Requests`] until its last holder drops it; a request that finds no room waits
//!    (back-pressure).
//! 3. Arenas keep their place while the pool lives, so a back-end may register them.

use super::arena::{ARENA_BYTES, Arenas};
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::{BLOCK_BYTES, count};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The pool of one volume.
pub struct Pool {
    arenas: Mutex<Arenas>,
    accountant: Arc<Accountant>,
    room: Condvar,
    /// Guards only the sleep on `room`.
    queue: Mutex<()>,
    waiting: AtomicU32,
    is_closed: AtomicBool,
}

/// The error of a pool that takes no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Pool {
    /// Makes an empty pool that grows on demand.
    #[must_use]
    pub fn new(accountant: Arc<Accountant>) -> Arc<Self> {
        Arc::new(Self {
            arenas: Mutex::default(),
            accountant,
            room: Condvar::new(),
            queue: Mutex::new(()),
            waiting: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Returns a source of buffers whose charge, if they have one, goes back to `part` of the accountant when the last holder drops them.
    #[must_use]
    pub fn share(self: &Arc<Self>, part: Option<Part>) -> Arc<Share> {
        Arc::new(Share { pool: self.clone(), part, charges: false })
    }

    /// Returns a source of buffers that are charged to `part` as they are taken, room or not: for a user that bounds them by other means.
    #[must_use]
    pub fn share_and_charge(self: &Arc<Self>, part: Part) -> Arc<Share> {
        Arc::new(Share { pool: self.clone(), part: Some(part), charges: true })
    }

    /// Returns the largest request that a target with this pool takes: a quarter of what requests may have together, so that several are
    /// under way.
    #[must_use]
    pub fn request_bytes_max(&self) -> u64 {
        let quarter = self.accountant.limit(Part::Requests) / 4;
        // It is a power of two, as clients prefer.
        (1u64 << quarter.ilog2()).min(8 << 20)
    }

    /// Charges `blocks` to requests if there is room now.
    #[must_use]
    pub fn try_charge_request(&self, blocks: usize) -> bool {
        !self.is_closed.load(Ordering::Acquire) && self.accountant.try_take(Part::Requests, bytes_of(blocks))
    }

    /// Waits until requests have room for `blocks`, and charges them.
    ///
    /// # Errors
    /// When the pool is closed.
    pub fn charge_request(&self, blocks: usize) -> Result<(), Closed> {
        let bytes = bytes_of(blocks);
        if self.try_charge_request(blocks) {
            return Ok(());
        }
        let mut guard = ignore_poison(self.queue.lock());
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let result = loop {
            if self.is_closed.load(Ordering::Acquire) {
                break Err(Closed);
            }
            if self.accountant.try_take(Part::Requests, bytes) {
                break Ok(());
            }
            guard = ignore_poison(self.room.wait(guard));
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Returns a charge for requests that is in no buffer.
    pub fn refund_request(&self, blocks: usize) {
        self.accountant.give(Part::Requests, bytes_of(blocks));
        self.announce_room();
    }

    /// Closes the pool: no request gets a buffer from now on, and those that wait fail.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.announce_room();
    }

    /// Returns the address and the size of the arena with this tag; none for memory from elsewhere.
    #[must_use]
    pub fn arena(&self, tag: u32) -> Option<(*mut u8, usize)> {
        self.arenas().base(tag).map(|base| (base, ARENA_BYTES))
    }

    /// Returns the accountant that bounds it.
    #[must_use]
    pub fn accountant(&self) -> &Arc<Accountant> {
        &self.accountant
    }

    /// Returns the bytes that the pool has from the system.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arenas().bytes()
    }

    fn arenas(&self) -> MutexGuard<'_, Arenas> {
        ignore_poison(self.arenas.lock())
    }

    fn announce_room(&self) {
        fence(Ordering::SeqCst);
        // The waiter counts itself before it looks for room, and this thread looks for waiters after it made room: one sees the other.
        if self.waiting.load(Ordering::SeqCst) > 0 || self.is_closed.load(Ordering::Acquire) {
            drop(ignore_poison(self.queue.lock()));
            self.room.notify_all();
        }
    }
}

/// A source of buffers for one purpose.
pub struct Share {
    pool: Arc<Pool>,
    part: Option<Part>,
    /// The charge is made here; otherwise the caller has made it.
    charges: bool,
}

impl Home for Share {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        if let (true, Some(part)) = (self.charges, self.part) {
            self.pool.accountant.take(part, bytes_of(blocks));
        }
        let (frames, tag) = self.pool.arenas().get(blocks);
        BufferMut::of_pool(frames, tag, self)
    }

    fn give_back(&self, frames: Box<[Frame]>, tag: u32) {
        let bytes = bytes_of(frames.len());
        self.pool.arenas().put(frames, tag);
        if let Some(part) = self.part {
            self.pool.accountant.give(part, bytes);
            if part == Part::Requests {
                self.pool.announce_room();
            }
        }
    }
}

fn bytes_of(blocks: usize) -> u64 {
    count(blocks) * BLOCK_BYTES
}

/// Takes a lock whose holder panicked: its data is whole between any two lines that can panic.
fn ignore_poison<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn requests_wait_for_room() {
        let accountant = Accountant::new(2 << 20);
        let pool = Pool::new(accountant.clone());
        let limit = usize::try_from(accountant.limit(Part::Requests) / BLOCK_BYTES).unwrap();
        pool.charge_request(limit).unwrap();
        let first = pool.share(Some(Part::Requests)).take(limit);
        let waiter = std::thread::spawn({
            let pool = pool.clone();
            move || pool.charge_request(1)
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiter.is_finished(), "a request got memory beyond the budget");
        drop(first);
        assert_eq!(waiter.join().unwrap(), Ok(()));
        assert_eq!(accountant.used(Part::Requests), BLOCK_BYTES);
        accountant.give(Part::Requests, BLOCK_BYTES);
    }

    #[test]
    fn closing_sends_waiters_away() {
        let pool = Pool::new(Accountant::new(2 << 20));
        pool.charge_request(128).unwrap();
        let waiter = std::thread::spawn({
            let pool = pool.clone();
            move || pool.charge_request(128)
        });
        std::thread::sleep(Duration::from_millis(10));
        pool.close();
        assert_eq!(waiter.join().unwrap(), Err(Closed));
    }

    #[test]
    fn the_last_holder_gives_the_charge_back() {
        let accountant = Accountant::new(2 << 20);
        let pool = Pool::new(accountant.clone());
        pool.charge_request(2).unwrap();
        let buffer = pool.share(Some(Part::Requests)).take(2).freeze();
        let slice = buffer.slice(1, 1);
        drop(buffer);
        assert_eq!(accountant.used(Part::Requests), 2 * BLOCK_BYTES);
        drop(slice);
        assert_eq!(accountant.used(Part::Requests), 0);
    }
}
