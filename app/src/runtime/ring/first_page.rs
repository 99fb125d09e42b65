//! The first page of a journal: its owner, and what is durable. The tables are in [`super`].

use onefold_engine::interface::{Trace, Traces};
use onefold_engine::units::Epoch;

const MAGIC: &[u8; 8] = b"1FRING04";
const IDENTITY: std::ops::Range<usize> = 0..48;
pub(super) const IDENTITY_BYTES: usize = 52;
pub(super) const DURABLE_SLOTS: [usize; 2] = [64, 192];
pub(super) const DURABLE_BYTES: usize = 80;

/// The owner of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) volume: [u8; 16],
    /// The incarnation of the volume when the journal was made, which keeps its records apart from those of others.
    pub(super) made_in: u64,
    pub(super) bytes: u64,
    pub(super) contents: u64,
}

impl Identity {
    pub(super) fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut page = [0; IDENTITY_BYTES];
        page[..8].copy_from_slice(MAGIC);
        page[8..24].copy_from_slice(&self.volume);
        page[24..32].copy_from_slice(&self.made_in.to_ne_bytes());
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
    /// The epoch up to which records are durable: of the server that made the records.
    pub(super) epoch: Epoch,
    pub(super) owner: Owner,
    /// Acknowledged writes are lost, and nobody has heard of it.
    pub(super) has_lost: bool,
    pub(super) traces: Traces,
}

/// The incarnation of the volume that a journal belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub incarnation: u64,
    /// A server is taking the journal over: from some moment on, and a kill may come before it, the volume is of the next incarnation.
    pub is_changing: bool,
}

impl Owner {
    /// Whether the journal belongs to a volume of this incarnation.
    #[must_use]
    pub fn is(self, incarnation: u64) -> bool {
        incarnation == self.incarnation || self.is_changing && Some(incarnation) == self.incarnation.checked_add(1)
    }
}

const IS_CHANGING: u64 = 1;
const HAS_LOST: u64 = 2;

impl Durable {
    pub(super) fn encode(&self, seed: u32) -> [u8; DURABLE_BYTES] {
        let mut bytes = [0; DURABLE_BYTES];
        let traces = self.traces.map(|trace| match trace {
            None => [0, 0],
            Some(Trace::Log { sequence }) => [sequence, 1 << 32],
            Some(Trace::Map { sector, sum }) => [sector, (2 << 32) | u64::from(sum)],
        });
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.owner.is_changing, IS_CHANGING) | flag(self.has_lost, HAS_LOST);
        let words = [self.turn, self.tail, self.epoch.get(), self.owner.incarnation, flags].into_iter().chain(traces.into_iter().flatten());
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
        let owner = Owner { incarnation: word(3), is_changing: word(4) & IS_CHANGING != 0 };
        let (has_lost, traces) = (word(4) & HAS_LOST != 0, [trace(5), trace(7)]);
        let durable = Self { turn: word(0), tail: word(1), epoch: Epoch(word(2)), owner, has_lost, traces };
        // There is one encoding for each: so the checksum is checked too.
        (durable.encode(seed) == *bytes).then_some(durable)
    }
}
