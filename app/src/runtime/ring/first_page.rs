//! The first page of a journal: its owner, and what is durable. The tables are in [`super`].

use onefold_engine::interface::{Trace, Traces};
use onefold_engine::units::Epoch;

const MAGIC: &[u8; 8] = b"1FRING03";
const IDENTITY: std::ops::Range<usize> = 0..48;
pub(super) const IDENTITY_BYTES: usize = 52;
pub(super) const DURABLE_SLOTS: [usize; 2] = [64, 128];
pub(super) const DURABLE_BYTES: usize = 64;

/// The owner of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) volume: [u8; 16],
    pub(super) incarnation: u64,
    pub(super) bytes: u64,
    pub(super) contents: u64,
}

impl Identity {
    pub(super) fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut page = [0; IDENTITY_BYTES];
        page[..8].copy_from_slice(MAGIC);
        page[8..24].copy_from_slice(&self.volume);
        page[24..32].copy_from_slice(&self.incarnation.to_ne_bytes());
        page[32..40].copy_from_slice(&self.bytes.to_ne_bytes());
        page[40..48].copy_from_slice(&self.contents.to_ne_bytes());
        let check = crc32c::crc32c(&page[IDENTITY]);
        page[IDENTITY.end..].copy_from_slice(&check.to_ne_bytes());
        page
    }

    /// Returns the beginning of each record's checksum.
    pub(super) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.encode()[8..32])
    }
}

/// The durable state, as the first page has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Durable {
    /// The number of its writes.
    pub(super) turn: u64,
    /// The position of the oldest valid record.
    pub(super) tail: u64,
    /// The epoch up to which records are durable.
    pub(super) epoch: Epoch,
    pub(super) traces: Traces,
}

impl Durable {
    pub(super) fn encode(&self, seed: u32) -> [u8; DURABLE_BYTES] {
        let mut bytes = [0; DURABLE_BYTES];
        let traces = self.traces.map(|trace| match trace {
            None => [0, 0],
            Some(Trace::Log { sequence }) => [sequence, 1 << 32],
            Some(Trace::Map { sector, sum }) => [sector, (2 << 32) | u64::from(sum)],
        });
        let words = [self.turn, self.tail, self.epoch.get()].into_iter().chain(traces.into_iter().flatten());
        words.zip(bytes.chunks_exact_mut(8)).for_each(|(word, place)| place.copy_from_slice(&word.to_ne_bytes()));
        let check = (1 << 32) | u64::from(crc32c::crc32c_append(seed, &bytes[..DURABLE_BYTES - 8]));
        bytes[DURABLE_BYTES - 8..].copy_from_slice(&check.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; DURABLE_BYTES], seed: u32) -> Option<Self> {
        let word = |i: usize| u64::from_ne_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes"));
        let trace = |i: usize| {
            let sum = u32::try_from(word(i + 1) & u64::from(u32::MAX)).expect("half a word");
            match word(i + 1) >> 32 {
                1 => Some(Trace::Log { sequence: word(i) }),
                2 => Some(Trace::Map { sector: word(i), sum }),
                _ => None,
            }
        };
        let durable = Self { turn: word(0), tail: word(1), epoch: Epoch(word(2)), traces: [trace(3), trace(5)] };
        // There is one encoding for each: so the checksum is checked too.
        (durable.encode(seed) == *bytes).then_some(durable)
    }
}
