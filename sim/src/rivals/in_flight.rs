//! Device operations in flight.

use onefold_engine::interface::IoId;
use rustc_hash::FxHashMap;

/// The device operations in flight, each with its purpose.
pub struct InFlight<T> {
    issued: u64,
    open: FxHashMap<u64, T>,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { issued: 0, open: FxHashMap::default() }
    }
}

impl<T> InFlight<T> {
    /// Issues a number for a new operation.
    pub fn issue(&mut self, purpose: T) -> IoId {
        self.issued += 1;
        self.open.insert(self.issued, purpose);
        IoId(self.issued)
    }

    /// Returns the purpose of a completed operation.
    ///
    /// # Panics
    /// Panics if no such operation is in flight: each completes once.
    pub fn done(&mut self, io: IoId) -> T {
        self.open.remove(&io.0).unwrap_or_else(|| panic!("operation {} is not in flight", io.0))
    }

    /// Returns the number of operations in flight.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}
