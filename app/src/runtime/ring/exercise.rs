//! The code that the fuzz target of the journal runs: journals as an attacker could have written them, with any numbers, and checksums that
//! fit.

use super::{
    BYTES_MIN, DURABLE_BYTES, DURABLE_SLOTS, Durable, IDENTITY_BYTES, Identity, Owner, PAGE, RECORD_BYTES, content_at, kind, left_in_lap,
    record_check, settle,
};
use onefold_engine::interface::Traces;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Epoch, count, index};

/// The number of contents that a forged journal has room for.
pub const CONTENTS: u32 = 4;

/// The values of the first page.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub incarnation: u64,
    /// The position where the records begin.
    pub tail: u64,
    /// The epoch up to which records are durable.
    pub epoch: u64,
    pub traces: Traces,
}

/// A record of any numbers.
#[derive(Clone, Debug)]
pub struct Forged {
    /// The code of its kind, which need not exist.
    pub code: u32,
    pub first: u64,
    pub value: u64,
    pub epoch: u64,
    /// The bytes after it, and their number as the record states it. The block of a content is in the place that `value` names, if there is
    /// one, and its checksum follows the record.
    pub content: Vec<u8>,
    pub content_bytes: u32,
}

impl Forged {
    /// The existing kinds.
    pub const KINDS: [u32; 5] = [kind::SKIP, kind::LINK, kind::ZERO, kind::UNMAP, kind::CONTENT];
}

/// Returns the bytes of a journal file of the smallest size with as many of these records as it has room for. They begin at the tail, or at
/// the next position where a record can begin.
#[must_use]
pub fn forge(volume: [u8; 16], numbers: &Numbers, records: &[Forged]) -> Vec<u8> {
    let identity = Identity { volume, made_in: numbers.incarnation, bytes: BYTES_MIN, contents: CONTENTS.into() };
    let mut file = vec![0; PAGE + index(BYTES_MIN + u64::from(CONTENTS) * BLOCK_BYTES)];
    file[..IDENTITY_BYTES].copy_from_slice(&identity.encode());
    // A position that no journal can have is left as it is.
    let tail = if numbers.tail < u64::MAX / 2 { settle(numbers.tail / 8 * 8, BYTES_MIN) } else { numbers.tail };
    let owner = Owner { incarnation: numbers.incarnation, is_changing: false };
    let durable = Durable { turn: 1, tail, epoch: Epoch(numbers.epoch), owner, has_lost: false, traces: numbers.traces };
    file[DURABLE_SLOTS[1]..][..DURABLE_BYTES].copy_from_slice(&durable.encode(identity.seed()));
    let mut position = tail;
    for record in records {
        let laid = lay(&mut file, record);
        let record = laid.as_ref().unwrap_or(record);
        let left = left_in_lap(position, BYTES_MIN);
        if position >= u64::MAX / 2 || left < RECORD_BYTES + count(record.content.len()) {
            break;
        }
        let at = PAGE + index(position % BYTES_MIN);
        put(&mut file[at..PAGE + index(BYTES_MIN)], position, record, identity.seed());
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

/// Puts a content into its place. Returns the record that names the place.
fn lay(file: &mut [u8], record: &Forged) -> Option<Forged> {
    let place = u32::try_from(record.value).ok().filter(|&place| place < CONTENTS)?;
    if record.code != kind::CONTENT || record.content.len() != BLOCK_SIZE || record.content_bytes as usize != BLOCK_SIZE {
        return None;
    }
    file[content_at(BYTES_MIN, place)..][..BLOCK_SIZE].copy_from_slice(&record.content);
    let sum = crc32c::crc32c(&record.content).to_ne_bytes();
    Some(Forged { content: sum.to_vec(), content_bytes: 4, ..record.clone() })
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
