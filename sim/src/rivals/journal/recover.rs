//! Recovery of a journalling volume from a device: the home tables, and the epochs of the ring applied to them.

use super::home::Home;
use super::log::{Record, unpack};
use super::scheme::{Journal, superblock};
use onefold_engine::fingerprint::Digest;
use onefold_engine::units::BLOCK_SIZE;
use std::collections::BTreeMap;

/// The tables after recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredTables {
    /// The device block that holds the content of each LBN.
    pub map: BTreeMap<u64, u64>,
    /// The links of each device block that has any, and whether one of them is a fingerprint's.
    pub counts: BTreeMap<u64, (u16, bool)>,
    /// The number of ring blocks that were applied.
    pub applied: u64,
}

/// Recovers the tables from a device. `digest` computes a block's digest as the client does.
///
/// # Errors
/// Fails if there is no superblock.
pub fn recover(
    journal: &Journal,
    logical: u64,
    read: impl Fn(u64) -> [u8; BLOCK_SIZE],
    digest: impl Fn(&[u8; BLOCK_SIZE]) -> Digest,
) -> Result<RecoveredTables, String> {
    let layout = journal.layout();
    let first = read(0);
    let tail = u64::from_le_bytes(first[8..16].try_into().expect("eight bytes"));
    if first[..24] != superblock(tail) {
        return Err("block 0 is no superblock of a journalling volume".to_owned());
    }
    let mut home = Home::new(layout);
    layout.home().for_each(|block| home.load(block, &read(block)));
    // An epoch is applied if the next one is complete, because that one began after its flush, or if its content is there.
    let (mut number, mut complete, mut open) = (tail, Vec::new(), Vec::new());
    let (mut applied, mut upto) = (tail, tail);
    while number < tail + layout.ring_blocks {
        let Some((records, left)) = unpack(&read(layout.ring_block(number)), number) else { break };
        number += 1;
        open.extend(records);
        if left == 0 {
            complete.drain(..).for_each(|record| home.apply(record));
            (applied, upto) = (upto, number);
            complete.append(&mut open);
        }
    }
    let arrived = |record: &Record| match record {
        Record::Name { pbn, name } => digest(&read(layout.data_first + pbn)) == Digest::Of(*name),
        _ => true,
    };
    if complete.iter().all(arrived) {
        complete.into_iter().for_each(|record| home.apply(record));
        applied = upto;
    }
    let mut found = RecoveredTables { applied: applied - tail, ..RecoveredTables::default() };
    found.map = (0..logical).filter_map(|lbn| Some((lbn, layout.data_first + home.lookup(lbn)?))).collect();
    let links = (0..layout.data_blocks).map(|pbn| (layout.data_first + pbn, (home.count(pbn), home.named(pbn))));
    found.counts = links.filter(|(_, links)| *links != (0, false)).collect();
    Ok(found)
}
