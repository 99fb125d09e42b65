//! Who waits for which device operation.

use onefold_engine::interface::IoId;
use rustc_hash::FxHashMap;

/// Operations in flight and what each is for.
pub struct Desk<T> {
    issued: u64,
    open: FxHashMap<u64, T>,
}

impl<T> Default for Desk<T> {
    fn default() -> Self {
        Self { issued: 0, open: FxHashMap::default() }
    }
}

impl<T> Desk<T> {
    /// A number for a new operation.
    pub fn issue(&mut self, purpose: T) -> IoId {
        self.issued += 1;
        self.open.insert(self.issued, purpose);
        IoId(self.issued)
    }

    /// What a completed operation was for.
    ///
    /// # Panics
    /// When no such operation is in flight: each completes once.
    pub fn done(&mut self, io: IoId) -> T {
        self.open.remove(&io.0).unwrap_or_else(|| panic!("operation {} is not in flight", io.0))
    }

    /// How many are in flight.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}
