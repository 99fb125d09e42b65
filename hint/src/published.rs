//! A value that is published at most once, and is read without a lock, also by a signal handler that interrupts its publication.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

const EMPTY: u8 = 0;
const CLAIMED: u8 = 1;
const READY: u8 = 2;

/// A place for one value.
pub struct Published<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by the one thread that moved the state from EMPTY to CLAIMED, and read only in the state READY, after
// which nobody writes it.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Published<T> {
    /// Returns an empty place.
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Returns the value, if it is published.
    pub fn get(&self) -> Option<&T> {
        let is_ready = self.state.load(Ordering::Acquire) == READY;
        // SAFETY: in the state READY the value is there and does not change.
        is_ready.then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Publishes the value that `make` returns, unless somebody else has claimed the place. Returns whether it did.
    pub fn publish(&self, make: impl FnOnce() -> T) -> bool {
        if self.state.compare_exchange(EMPTY, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let value = make();
        // SAFETY: this thread alone has claimed the place, and nobody reads it before the state is READY.
        unsafe { (*self.value.get()).write(value) };
        self.state.store(READY, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_published_once_and_not_seen_before() {
        let place = Published::new();
        assert_eq!(place.get(), None);
        let is_published = place.publish(|| {
            assert_eq!(place.get(), None, "a handler that interrupts the publication sees nothing");
            assert!(!place.publish(|| 2), "nor can it publish another value");
            1
        });
        assert!(is_published && !place.publish(|| 3));
        assert_eq!(place.get(), Some(&1));
    }
}
