//! The log tail, in the superblock: it names the compacted units of the log, and the place where the log scan through the others begins.
//! Recovery can begin nowhere else.

use super::layout::{Field, layout};
use super::places::{self, PLACES_BYTES, PLACES_MAX, Places};
use super::refused::SuperblockError;
use crate::units::{Epoch, count, index};

/// Bytes of the log tail.
pub const LOG_TAIL_BYTES: usize = 1024;
/// The most runs of compacted units.
pub const COMPACTED_RUNS_MAX: usize = 128;

layout! {
    /// The log tail's fields.
    at, "Log tail", LOG_TAIL_BYTES;
    SEQUENCE 8,
    INCARNATION 8,
    EPOCH 8,
    FLUSHED_UPTO 8,
    PLACES_COUNT 1,
    PLACES PLACES_BYTES * PLACES_MAX,
    BARRIER_SEQUENCE 8,
    BARRIER_INCARNATION 8,
    COMPACTED_SINCE 8,
    COMPACTED_COUNT 1,
    COMPACTED PLACES_BYTES * COMPACTED_RUNS_MAX,
    RESERVED 6,
}

/// The place where the log scan begins, and the state of the log there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTail {
    /// The sequence of the next unit; from 1.
    pub sequence: u64,
    /// The incarnation of the log before it: no unit of a lower one is accepted.
    pub incarnation: u64,
    /// The last epoch before it.
    pub epoch: Epoch,
    /// The last unit that is known to be flushed: the last one before the log scan, or one that lies further.
    pub flushed_upto: u64,
    /// The places of the units from here on, in order; at most [`PLACES_MAX`].
    pub places: Vec<Places>,
    pub barrier: Option<Barrier>,
    pub compacted: Compacted,
}

/// The records of units before the log scan, copied into fewer units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The last unit before those that were copied, which go up to the one before the log scan; 0 where there are none.
    pub since: u64,
    /// The places of the copies, in order; at most [`COMPACTED_RUNS_MAX`].
    pub places: Vec<Places>,
}

/// A bound that an opening sets when it finds that the log was closed and nothing behind counts: units behind this sequence count only if
/// they have this incarnation or a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The sequence of the closing unit, which lies behind the log tail.
    pub sequence: u64,
    pub incarnation: u64,
}

impl LogTail {
    /// The log tail of a log of this incarnation in which nothing was ever written.
    #[must_use]
    pub fn of_new_log(incarnation: u64, places: Vec<Places>) -> Self {
        let (barrier, compacted) = (None, Compacted::default());
        Self { sequence: 1, incarnation, epoch: Epoch(0), flushed_upto: 0, places, barrier, compacted }
    }

    /// Writes the field of a superblock: all zero where no log was ever begun.
    ///
    /// # Panics
    /// When there are too many places, or places that no volume can have, when the barrier lies before the log tail, or the compacted units
    /// behind it.
    pub(super) fn encode(log_tail: Option<&Self>, out: &mut [u8]) {
        out.fill(0);
        let Some(log_tail) = log_tail else { return };
        at::SEQUENCE.set(out, log_tail.sequence);
        at::INCARNATION.set(out, log_tail.incarnation);
        at::EPOCH.set(out, log_tail.epoch.get());
        at::FLUSHED_UPTO.set(out, log_tail.flushed_upto);
        at::PLACES_COUNT.set(out, count(log_tail.places.len()));
        places::encode(&log_tail.places, at::PLACES.of_mut(out));
        if let Some(barrier) = &log_tail.barrier {
            assert!(barrier.incarnation > 0 && barrier.sequence >= log_tail.sequence, "{barrier:?} lies before the log tail");
            at::BARRIER_SEQUENCE.set(out, barrier.sequence);
            at::BARRIER_INCARNATION.set(out, barrier.incarnation);
        }
        assert!(log_tail.compacted.is_sound(log_tail.sequence), "compacted: {:?} before {}", log_tail.compacted, log_tail.sequence);
        at::COMPACTED_SINCE.set(out, log_tail.compacted.since);
        at::COMPACTED_COUNT.set(out, count(log_tail.compacted.places.len()));
        places::encode(&log_tail.compacted.places, at::COMPACTED.of_mut(out));
    }

    /// Reads the field of a superblock. The superblock checks whether the rest is zero and whether the numbers are within its bounds.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>, SuperblockError> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let (sequence, flushed_upto) = (at::SEQUENCE.get(bytes), at::FLUSHED_UPTO.get(bytes));
        if sequence == 0 {
            return Err(SuperblockError::UnknownValue { field: at::SEQUENCE.name, value: sequence });
        }
        let runs = |of: Field, runs: Field| {
            let unknown = SuperblockError::UnknownValue { field: of.name, value: of.get(bytes) };
            let table = runs.of(bytes).get(..index(of.get(bytes)) * PLACES_BYTES).ok_or(unknown)?;
            places::decode(table).ok_or(SuperblockError::Places)
        };
        let places = runs(at::PLACES_COUNT, at::PLACES)?;
        let compacted = Compacted { since: at::COMPACTED_SINCE.get(bytes), places: runs(at::COMPACTED_COUNT, at::COMPACTED)? };
        if !compacted.is_sound(sequence) {
            return Err(SuperblockError::UnknownValue { field: at::COMPACTED_SINCE.name, value: compacted.since });
        }
        let (incarnation, epoch) = (at::INCARNATION.get(bytes), Epoch(at::EPOCH.get(bytes)));
        let barrier = Barrier { sequence: at::BARRIER_SEQUENCE.get(bytes), incarnation: at::BARRIER_INCARNATION.get(bytes) };
        let barrier = (barrier != Barrier { sequence: 0, incarnation: 0 }).then_some(barrier);
        if let Some(Barrier { sequence: value, .. }) = barrier.filter(|barrier| barrier.sequence < sequence || barrier.incarnation == 0) {
            return Err(SuperblockError::UnknownValue { field: at::BARRIER_SEQUENCE.name, value });
        }
        Ok(Some(Self { sequence, incarnation, epoch, flushed_upto, places, barrier, compacted }))
    }

    /// All places that it names.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Places> {
        self.places.iter().chain(&self.compacted.places)
    }
}

impl Compacted {
    /// Whether it can stand before a log scan that begins with this unit.
    fn is_sound(&self, sequence: u64) -> bool {
        if self.places.is_empty() { self.since == 0 } else { self.since < sequence.saturating_sub(1) }
    }
}
