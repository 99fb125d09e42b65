//! The charges for records, held content and the log, in the account of memory.

use crate::memory::{Accountant, Part};
use std::cmp::Ordering;
use std::sync::Arc;

/// The accountant, and the current charges for what is counted at the end of each step.
pub(crate) struct Memory {
    pub accountant: Arc<Accountant>,
    dirty_charged: u64,
    log_charged: u64,
    held_charged: u64,
}

impl Memory {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        Self { accountant, dirty_charged: 0, log_charged: 0, held_charged: 0 }
    }

    /// Charges these bytes instead of the previous charges.
    pub fn charge(&mut self, dirty: u64, held: u64, log: u64) {
        let parts = [
            (Part::Dirty, dirty, &mut self.dirty_charged),
            (Part::Requests, held, &mut self.held_charged),
            (Part::Log, log, &mut self.log_charged),
        ];
        for (part, bytes, charged) in parts {
            match bytes.cmp(charged) {
                // Most steps change none of them, and the account is shared among threads.
                Ordering::Equal => {}
                Ordering::Greater => self.accountant.take(part, bytes - *charged),
                Ordering::Less => self.accountant.give(part, *charged - bytes),
            }
            *charged = bytes;
        }
    }
}
