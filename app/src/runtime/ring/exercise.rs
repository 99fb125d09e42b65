//! What the fuzz target of the ring runs: rings as somebody else could have written them, with any numbers, and checks that fit.

use super::{BYTES_MIN, DURABLE_BYTES, DURABLE_SLOTS, Durable, Identity, PAGE, RECORD_BYTES, kind, left_in_lap, record_check, settle};
use onefold_engine::interface::Traces;
use onefold_engine::units::{Epoch, count, index};

/// What the first page says.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub incarnation: u64,
    /// Where the records begin.
    pub tail: u64,
    /// Up to which epoch promises are kept.
    pub epoch: u64,
    pub traces: Traces,
}

/// A record of any numbers.
#[derive(Clone, Debug)]
pub struct Forged {
    /// What kind of record it is, which need not be one.
    pub code: u32,
    pub first: u64,
    pub value: u64,
    pub epoch: u64,
    /// The content that it has, and how many bytes it says it has.
    pub content: Vec<u8>,
    pub content_bytes: u32,
}

impl Forged {
    /// The kinds that there are.
    pub const KINDS: [u32; 5] = [kind::SKIP, kind::LINK, kind::ZERO, kind::UNMAP, kind::CONTENT];
}

/// The bytes of a ring file of the smallest size with these records, as many as it has room for. They begin at the tail, or where a record can begin
/// behind it.
#[must_use]
pub fn forge(volume: [u8; 16], said: &Said, records: &[Forged]) -> Vec<u8> {
    let identity = Identity { volume, incarnation: said.incarnation, bytes: BYTES_MIN };
    let mut file = vec![0; PAGE + index(BYTES_MIN)];
    file[..44].copy_from_slice(&identity.encode());
    // A position that no ring can have is left as it is.
    let tail = if said.tail < u64::MAX / 2 { settle(said.tail / 8 * 8, BYTES_MIN) } else { said.tail };
    let durable = Durable { turn: 1, tail, epoch: Epoch(said.epoch), traces: said.traces };
    file[DURABLE_SLOTS[1]..][..DURABLE_BYTES].copy_from_slice(&durable.encode(identity.seed()));
    let mut position = tail;
    for record in records {
        let left = left_in_lap(position, BYTES_MIN);
        if position >= u64::MAX / 2 || left < RECORD_BYTES + count(record.content.len()) {
            break;
        }
        let at = PAGE + index(position % BYTES_MIN);
        put(&mut file[at..], position, record, identity.seed());
        let bytes = RECORD_BYTES + u64::from(record.content_bytes).next_multiple_of(8);
        if bytes > left {
            break;
        }
        position = settle(position + bytes, BYTES_MIN);
        if position - tail >= BYTES_MIN {
            break;
        }
    }
    file
}

fn put(place: &mut [u8], position: u64, record: &Forged, seed: u32) {
    place[..8].copy_from_slice(&position.to_ne_bytes());
    place[8..12].copy_from_slice(&record.code.to_ne_bytes());
    place[12..16].copy_from_slice(&record.content_bytes.to_ne_bytes());
    place[16..24].copy_from_slice(&record.first.to_ne_bytes());
    place[24..32].copy_from_slice(&record.value.to_ne_bytes());
    place[36..40].fill(0);
    place[40..48].copy_from_slice(&record.epoch.to_ne_bytes());
    place[48..][..record.content.len()].copy_from_slice(&record.content);
    let (fixed, content) = place.split_at(48);
    let covered = if record.code == kind::SKIP { 0 } else { index(record.content_bytes.into()).min(content.len()) };
    let check = record_check(seed, fixed, &content[..covered]);
    place[32..36].copy_from_slice(&check.to_ne_bytes());
}
