//! Journal blocks: how changed entries are packed, and how journal blocks are recognized.

use crate::rivals::dedup::Changes;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::units::BLOCK_SIZE;
use twox_hash::XxHash3_64;

/// Checksum of the rest, number, number of following blocks of the epoch, bytes of records.
const HEADER: usize = 8 + 8 + 4 + 4;
const NO_PBN: u64 = (1 << 48) - 1;
/// The longest record: a fingerprint.
const RECORD_MAX: usize = 1 + 6 + 20;
/// The number of records of any kind that a block has room for.
pub const RECORDS_MIN: usize = (BLOCK_SIZE - HEADER) / RECORD_MAX;

/// A changed entry, with its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Map { lbn: u64, pbn: Option<u64> },
    Count { pbn: u64, count: u16 },
    Name { pbn: u64, name: Fingerprint },
    NoName { pbn: u64 },
}

fn u48(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..6].copy_from_slice(&bytes[..6]);
    u64::from_le_bytes(word)
}

impl Record {
    fn encode(self, out: &mut Vec<u8>) {
        let mut put = |tag: u8, number: u64, rest: &[u8]| {
            out.push(tag);
            out.extend_from_slice(&number.to_le_bytes()[..6]);
            out.extend_from_slice(rest);
        };
        match self {
            Self::Map { lbn, pbn } => put(1, lbn, &pbn.unwrap_or(NO_PBN).to_le_bytes()[..6]),
            Self::Count { pbn, count } => put(2, pbn, &count.to_le_bytes()),
            Self::Name { pbn, name } => put(3, pbn, &name.0),
            Self::NoName { pbn } => put(4, pbn, &[]),
        }
    }

    /// Decodes the first record of these bytes, and returns it with the bytes after it.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&tag, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_at_checked(6)?;
        let number = u48(number);
        let width = *[6, 2, 20, 0].get(usize::from(tag).checked_sub(1)?)?;
        let (value, rest) = rest.split_at_checked(width)?;
        let record = match tag {
            1 => Self::Map { lbn: number, pbn: Some(u48(value)).filter(|&pbn| pbn != NO_PBN) },
            2 => Self::Count { pbn: number, count: u16::from_le_bytes([value[0], value[1]]) },
            3 => Self::Name { pbn: number, name: Fingerprint(value.try_into().expect("twenty bytes")) },
            _ => Self::NoName { pbn: number },
        };
        Some((record, rest))
    }
}

/// Lists the records of an epoch: they are absolute, so that their order does not matter and they may be applied twice.
fn records(changes: &Changes) -> impl Iterator<Item = Record> + '_ {
    let map = changes.map.iter().map(|(&lbn, &pbn)| Record::Map { lbn, pbn });
    let counts = changes.refs.iter().map(|(&pbn, &count)| Record::Count { pbn, count: u16::try_from(count).expect("links are limited") });
    let name = |(&pbn, &(name, has)): (&u64, &(Fingerprint, bool))| if has { Record::Name { pbn, name } } else { Record::NoName { pbn } };
    map.chain(counts).chain(changes.names.iter().map(name))
}

/// Packs an epoch into blocks, numbered from `first` on.
///
/// # Panics
/// Panics if it has no changes: then there is nothing to commit.
#[must_use]
pub fn pack(changes: &Changes, first: u64) -> Vec<[u8; BLOCK_SIZE]> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut one = Vec::with_capacity(RECORD_MAX);
    for record in records(changes) {
        one.clear();
        record.encode(&mut one);
        match bodies.last_mut() {
            Some(body) if HEADER + body.len() + one.len() <= BLOCK_SIZE => body.extend_from_slice(&one),
            _ => bodies.push(one.clone()),
        }
    }
    assert!(!bodies.is_empty(), "an epoch without changes is not committed");
    let count = bodies.len();
    let block = |(i, body): (usize, Vec<u8>)| {
        let mut block = [0; BLOCK_SIZE];
        block[8..16].copy_from_slice(&(first + i as u64).to_le_bytes());
        block[16..20].copy_from_slice(&u32::try_from(count - 1 - i).expect("an epoch fits the ring").to_le_bytes());
        block[20..24].copy_from_slice(&u32::try_from(body.len()).expect("it fits a block").to_le_bytes());
        block[HEADER..HEADER + body.len()].copy_from_slice(&body);
        let sum = XxHash3_64::oneshot(&block[8..]);
        block[..8].copy_from_slice(&sum.to_le_bytes());
        block
    };
    bodies.into_iter().enumerate().map(block).collect()
}

/// Returns the records of the block with this number and the number of following blocks of its epoch; none if the block is something else,
/// or torn.
#[must_use]
pub fn unpack(block: &[u8; BLOCK_SIZE], number: u64) -> Option<(Vec<Record>, u32)> {
    let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    if word(8) != number || word(0) != XxHash3_64::oneshot(&block[8..]) {
        return None;
    }
    let mut rest = block[HEADER..].get(..short(20) as usize)?;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (record, behind) = Record::decode(rest)?;
        records.push(record);
        rest = behind;
    }
    Some((records, short(16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_blocks_are_unpacked_and_torn_ones_are_refused() {
        let mut changes = Changes::default();
        for i in 0..1000 {
            changes.map.insert(i, (i % 3 > 0).then_some(i * 7));
            changes.refs.insert(i, u32::try_from(i).expect("small"));
            changes.names.insert(i, (Fingerprint([u8::try_from(i % 200).expect("small"); 20]), i % 2 == 0));
        }
        let blocks = pack(&changes, 40);
        assert!(blocks.len() <= changes.len().div_ceil(RECORDS_MIN));
        let mut found = Vec::new();
        for (i, block) in blocks.iter().enumerate() {
            let (records, left) = unpack(block, 40 + i as u64).expect("it is sound");
            assert_eq!(left as usize, blocks.len() - 1 - i);
            found.extend(records);
            assert_eq!(unpack(block, 41 + i as u64), None, "another number");
            let mut torn = *block;
            torn[2048..2560].fill(0);
            assert_eq!(unpack(&torn, 40 + i as u64), None, "torn");
        }
        assert_eq!(found, records(&changes).collect::<Vec<_>>());
    }
}
