//! A planned request as the engine gets it.

use super::pool::Pool;
use super::slots::Slots;
use crate::replay::names::{digest_of, name_of_words, write_words};
use crate::replay::planned::PlannedRequest;
use onefold_engine::buffer::Home;
use onefold_engine::fingerprint::Digest;
use onefold_engine::interface::Payload;
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::BLOCK_BYTES;
use std::sync::Arc;

/// The memory of requests.
pub struct Memory {
    pool: Arc<Pool>,
    accountant: Arc<Accountant>,
}

impl Memory {
    /// Makes the memory of requests whose share of the budget the accountant has.
    #[must_use]
    pub fn new(accountant: Arc<Accountant>) -> Self {
        Self { pool: Pool::of_requests(accountant.clone()), accountant }
    }

    /// Returns whether there is room for a request now.
    #[must_use]
    pub fn has_room(&self, ask: &PlannedRequest) -> bool {
        let bytes = ask.contents.len() as u64 * BLOCK_BYTES;
        let held = self.accountant.used(Part::Requests);
        bytes == 0 || held == 0 || held + bytes <= self.accountant.limit(Part::Requests)
    }

    /// Returns the payload of a write for which there is room, and notes the sizes of its contents.
    ///
    /// # Panics
    /// Panics if there is no room.
    pub fn payload(&self, ask: &PlannedRequest, slots: &mut Slots) -> Payload {
        let blocks = ask.contents.len();
        let taken = self.accountant.try_take(Part::Requests, blocks as u64 * BLOCK_BYTES);
        assert!(taken, "there was room a moment ago");
        let mut buffer = self.pool.clone().take(blocks);
        let end = ask.offset + ask.length;
        let mut digests = Vec::with_capacity(blocks);
        for (i, content) in ask.contents.iter().enumerate() {
            slots.meet(content);
            write_words(&content.words, buffer.block_mut(i));
            let at = (ask.first_block() + i as u64) * BLOCK_BYTES;
            let whole = ask.offset <= at && at + BLOCK_BYTES <= end;
            digests.push(if whole { digest_of(name_of_words(&content.words)) } else { Digest::Partial });
        }
        Payload { buffer: buffer.freeze(), digests }
    }
}

/// Returns the largest request that a volume with this budget accepts, in bytes.
#[must_use]
pub fn request_bytes_max(accountant: &Accountant) -> u64 {
    (1_u64 << (accountant.limit(Part::Requests) / 4).ilog2()).min(8 << 20)
}
