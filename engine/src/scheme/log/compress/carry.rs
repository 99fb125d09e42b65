//! Assigns held blocks to units, and moves all references of a block that rides to its carrier.
//!
//! 1. The first unit keeps room for the records. Then the blocks are packed, first fit, largest first. A block that would have a unit to
//!    itself, where the records do not need that unit, goes to its own block: it costs no more there, and is read without its unit.
//! 2. All counts of a packed block move to its carrier in one step, together with every reference to it: points of both epochs, records,
//!    the index. Its own block, which was never written, is free again.
//! 3. The counts of a carrier stay within one byte: its own entry, and all links to its slots.

use super::rider::Rider;
use crate::buffer::Slice;
use crate::contents::{HeldBlock, HeldState};
use crate::format::entry::MapEntry;
use crate::format::geometry::Geometry;
use crate::format::record::Record;
use crate::format::unit::{CARRIER_BYTES, SLOT_BYTES};
use crate::map::Map;
use crate::pool::Pool;
use crate::scheme::log::Log;
use crate::scheme::log::commit::Commit;
use crate::space::{PendingBlock, Space};
use crate::tables::Tables;
use crate::units::{Epoch, Pbn};
use std::cmp::Reverse;

/// A held block that may ride.
struct Candidate {
    pbn: Pbn,
    bytes: usize,
    /// Links to it.
    links: i16,
}

struct Bin {
    room: usize,
    counts: i16,
    blocks: Vec<Pbn>,
}

impl Bin {
    fn takes(&self, candidate: &Candidate, limits: Limits) -> bool {
        let fits = SLOT_BYTES + candidate.bytes <= self.room && self.blocks.len() < limits.slots;
        fits && self.counts + candidate.links <= i16::from(limits.counts)
    }
}

/// The limits of one carrier: its slots, and its count.
#[derive(Clone, Copy)]
struct Limits {
    slots: usize,
    counts: u8,
}

/// The blocks of each carrier (invariants 1 and 3).
fn plan(mut candidates: Vec<Candidate>, record_bytes: usize, limits: Limits) -> Vec<Vec<Pbn>> {
    candidates.sort_unstable_by_key(|candidate| (Reverse(candidate.bytes), candidate.pbn));
    let mut bins = vec![Bin { room: CARRIER_BYTES.saturating_sub(record_bytes), counts: 1, blocks: Vec::new() }];
    for candidate in &candidates {
        let fits = bins.iter().position(|bin| bin.takes(candidate, limits));
        let bin = fits.unwrap_or_else(|| {
            bins.push(Bin { room: CARRIER_BYTES, counts: 1, blocks: Vec::new() });
            bins.len() - 1
        });
        if bins[bin].takes(candidate, limits) {
            bins[bin].room -= SLOT_BYTES + candidate.bytes;
            bins[bin].counts += candidate.links;
            bins[bin].blocks.push(candidate.pbn);
        }
    }
    let pays = |(i, bin): &(usize, Bin)| bin.blocks.len() > usize::from(*i > 0);
    bins.into_iter().enumerate().filter(pays).map(|(_, bin)| bin.blocks).collect()
}

/// The blocks of each carrier of the committing epoch, whose records take this many bytes.
pub fn plan_carriers(pool: &Pool, epoch: Epoch, record_bytes: usize) -> Vec<Vec<Pbn>> {
    let candidates = pool.contents.held.of(epoch).filter_map(|(pbn, held)| match &held.state {
        HeldState::Compressed(data) => {
            let counts = pool.tables.pending_counts.get(pbn);
            assert!(counts > 0, "its fingerprint is counted too");
            Some(Candidate { pbn, bytes: data.len(), links: counts - 1 })
        }
        HeldState::Compressing(_) | HeldState::Incompressible | HeldState::Noise => None,
    });
    let limits = Limits { slots: pool.settings.knobs.carrier_slots_max, counts: pool.space.link_limit(&pool.tables) };
    plan(candidates.collect(), record_bytes, limits)
}

impl Log {
    /// Moves the blocks into units at the next places. Returns the riders of each unit.
    pub fn carry(&mut self, commit: &mut Commit, pool: &mut Pool, epoch: Epoch, carriers: &[Vec<Pbn>]) -> Vec<Vec<Rider>> {
        let mut moved: Map<Pbn, MapEntry> = Map::default();
        let mut riders = Vec::new();
        let mut free = Vec::new();
        for (&pbn, blocks) in self.places.iter().zip(carriers) {
            let mut counts = 1;
            let mut these = Vec::new();
            for (&block, slot) in blocks.iter().zip(1..) {
                moved.insert(block, MapEntry::Block { pbn, slot });
                let (rider, counted) = take_rider(pool, epoch, block, pbn);
                counts += counted - 1;
                these.push(rider);
                free.push(block);
            }
            pool.space.becomes_carrier(pbn);
            counts_now(&mut pool.tables, &mut pool.space, &pool.geometry, pbn, counts, true);
            riders.push(these);
        }
        rename(commit, &mut pool.tables, &moved);
        free_unwritten(&mut pool.space, free);
        riders
    }
}

/// Takes a held block to where it is packed. Returns it with what it counted.
pub(super) fn take_rider(pool: &mut Pool, epoch: Epoch, block: Pbn, to: Pbn) -> (Rider, i16) {
    let Moving { state, pending, counted, .. } = take_away(pool, epoch, block, to);
    let HeldState::Compressed(data) = state else { unreachable!("only what compresses is packed") };
    (Rider { fingerprint: pending.fingerprint, data }, counted)
}

/// A held block that has left its own block, and is not at its new place yet.
pub(super) struct Moving {
    pub state: HeldState,
    pub pending: PendingBlock,
    pub content: Slice,
    /// The count of its own block.
    pub counted: i16,
}

/// Takes a held block to another place: the index names that place, unless the block's policy keeps it out, and the count of its own block
/// becomes 0.
pub(super) fn take_away(pool: &mut Pool, epoch: Epoch, block: Pbn, to: Pbn) -> Moving {
    let pending = pool.space.pending.remove(block).and_then(|pending| Some((pending.content.clone()?, pending)));
    let held = pool.contents.held.remove(epoch, block).zip(pending);
    let (HeldBlock { state, policy, .. }, (content, pending)) = held.expect("a held block is pending, and has its content");
    pool.index.remove(&pending.fingerprint, block);
    if policy.is_indexed() {
        pool.index.insert(&pending.fingerprint, to);
    }
    Moving { state, pending, content, counted: empty(&mut pool.tables, &mut pool.space, &pool.geometry, block) }
}

/// Sets the count of a block that had none.
pub(super) fn counts_now(tables: &mut Tables, space: &mut Space, geometry: &Geometry, pbn: Pbn, counts: i16, is_of_scheme: bool) {
    tables.pending_counts.add(pbn, 1, counts);
    space.counted(geometry.refs_of(pbn).0.index, pbn, 0, byte_of(counts), is_of_scheme);
}

/// Frees the blocks of packed content, in their order: the next new blocks are allocated there.
pub(super) fn free_unwritten(space: &mut Space, mut blocks: Vec<Pbn>) {
    blocks.sort_unstable();
    space.take_back(blocks.into_iter());
}

/// Sets the count of a block that no page names to 0. Returns what it was.
fn empty(tables: &mut Tables, space: &mut Space, geometry: &Geometry, pbn: Pbn) -> i16 {
    let counts = tables.pending_counts.take(pbn);
    assert!(counts > 0, "a pending block has a count");
    space.counted(geometry.refs_of(pbn).0.index, pbn, byte_of(counts), 0, false);
    counts
}

fn byte_of(counts: i16) -> u8 {
    u8::try_from(counts).expect("a count stays within its byte, and what is packed together within one count")
}

/// Changes every reference to a block that has moved.
fn rename(commit: &mut Commit, tables: &mut Tables, moved: &Map<Pbn, MapEntry>) {
    let now = |pbn: Pbn| moved.get(&pbn).copied();
    for epoch in tables.committing.iter_mut().chain([&mut tables.open]) {
        for point in epoch.points.entries_mut() {
            *point = point.pbn().and_then(now).unwrap_or(*point);
        }
        for pbn in &mut epoch.cancelled {
            *pbn = now(*pbn).and_then(MapEntry::pbn).unwrap_or(*pbn);
        }
    }
    for record in &mut commit.records {
        *record = match record {
            Record::New { lbn, pbn, old, .. } if moved.contains_key(pbn) => Record::Link { lbn: *lbn, to: moved[pbn], old: *old },
            Record::Link { lbn, to, old } => {
                let to = to.pbn().and_then(now).unwrap_or(*to);
                Record::Link { lbn: *lbn, to, old: *old }
            }
            _ => continue,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::unit::SLOTS_MAX;

    fn candidates(bytes: &[usize]) -> Vec<Candidate> {
        bytes.iter().zip(1..).map(|(&bytes, pbn)| Candidate { pbn: Pbn(pbn), bytes, links: 1 }).collect()
    }

    fn planned(bytes: &[usize], record_bytes: usize) -> Vec<Vec<u64>> {
        let plan = plan(candidates(bytes), record_bytes, Limits { slots: SLOTS_MAX, counts: 254 });
        plan.into_iter().map(|bin| bin.into_iter().map(Pbn::get).collect()).collect()
    }

    #[test]
    fn a_lone_block_rides_with_its_record_if_both_fit() {
        assert_eq!(planned(&[2600], 19), [[1]]);
        assert_eq!(planned(&[CARRIER_BYTES - SLOT_BYTES - 19], 19), [[1]]);
        assert!(planned(&[CARRIER_BYTES - SLOT_BYTES - 18], 19).is_empty());
    }

    #[test]
    fn largest_first_into_the_first_that_has_room() {
        assert_eq!(planned(&[700, 3000, 1500, 2000], 200), [vec![2, 1], vec![4, 3]]);
    }

    #[test]
    fn a_block_alone_in_a_further_unit_does_not_ride() {
        assert_eq!(planned(&[3000, 3000, 3000], 100), [[1]]);
    }

    #[test]
    fn records_that_fill_a_unit_leave_the_others_to_the_blocks() {
        assert_eq!(planned(&[1000, 1000], 5000), [[1, 2]]);
        assert!(planned(&[1000], 5000).is_empty());
    }

    #[test]
    fn a_unit_has_no_more_slots_than_the_format() {
        let plan = planned(&[10; 40], 0);
        assert_eq!(plan.iter().map(Vec::len).collect::<Vec<_>>(), [15, 15, 10]);
    }

    #[test]
    fn of_one_slot_a_carrier_the_largest_block_that_fits_rides_alone() {
        let alone = Limits { slots: 1, counts: 254 };
        assert_eq!(plan(candidates(&[100, 700, 3950]), 50, alone), [[Pbn(2)]]);
    }

    #[test]
    fn counts_stay_within_the_limit() {
        let limits = |counts| Limits { slots: SLOTS_MAX, counts };
        let two = |limit| plan(candidates(&[100, 100]), 50, limits(limit)).len();
        assert_eq!((two(3), two(2)), (1, 1));
        assert_eq!(plan(candidates(&[100, 100]), 50, limits(2))[0].len(), 1);
        let many = vec![Candidate { pbn: Pbn(1), bytes: 100, links: 254 }];
        assert!(plan(many, 50, limits(254)).is_empty());
    }
}
