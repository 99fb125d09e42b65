//! The number of units that blocks of these sizes take under the rules of the carried log (`docs/format.md`, "Log unit").
//!
//! 1. A size of a whole block or more means that the block does not compress.
//! 2. A record takes as much as the largest record of a slot; a unit of the log's chain names one run of places.
//! 3. A block that would be alone in a unit is stored uncompressed: it is one unit either way.

use onefold_engine::format::unit::{SLOT_BYTES, SLOTS_MAX};
use onefold_engine::format::{PLACES_BYTES, UNIT_ROOM_BYTES};

/// The size of a record of a client block that lies in a slot.
const RECORD_BYTES: usize = 15;
/// The room that a unit of the log's chain has for records and slots.
const CARRIER_BYTES: usize = UNIT_ROOM_BYTES - PLACES_BYTES;
/// The largest size of a block that lies in a carrier alone, with its record.
pub const ALONE_BYTES: usize = CARRIER_BYTES - SLOT_BYTES - RECORD_BYTES;
/// The largest number of new blocks of a small epoch.
pub const SMALL_EPOCH_BLOCKS: usize = 64;
/// The number of neighbours that are packed together.
pub const NEIGHBOURS: usize = 16;

/// A unit that is being filled.
#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    slots: usize,
}

impl Room {
    fn takes(&mut self, size: usize) -> bool {
        let fits = self.slots > 0 && SLOT_BYTES + size <= self.bytes;
        if fits {
            *self = Self { bytes: self.bytes - SLOT_BYTES - size, slots: self.slots - 1 };
        }
        fits
    }
}

/// Returns the units of these blocks, placed by first fit, largest first, into the units begun and as many others of `bytes` each as
/// necessary. A unit begun counts.
fn first_fit(sizes: &[u16], mut rooms: Vec<Room>, bytes: usize) -> usize {
    let mut sizes: Vec<usize> = sizes.iter().copied().map(usize::from).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut unpacked = 0;
    for size in sizes {
        let mut fresh = Room { bytes, slots: SLOTS_MAX };
        if rooms.iter_mut().any(|room| room.takes(size)) {
            continue;
        }
        if fresh.takes(size) {
            rooms.push(fresh);
        } else {
            unpacked += 1;
        }
    }
    rooms.len() + unpacked
}

/// Returns the units of an epoch of new blocks that is flushed: content and log. The packs and extents of a large epoch count, too.
#[must_use]
pub fn of_epoch(sizes: &[u16]) -> usize {
    if sizes.len() > SMALL_EPOCH_BLOCKS {
        return sizes.chunks(NEIGHBOURS).map(of_neighbours).sum::<usize>() + 1;
    }
    let first = Room { bytes: CARRIER_BYTES - RECORD_BYTES * sizes.len(), slots: SLOTS_MAX };
    first_fit(sizes, vec![first], CARRIER_BYTES)
}

/// Returns the units of neighbours in a large epoch, in as few packs as first fit finds, without records.
#[must_use]
pub fn of_neighbours(sizes: &[u16]) -> usize {
    first_fit(sizes, Vec::new(), UNIT_ROOM_BYTES)
}

/// Returns the units of neighbours whose packs hold consecutive blocks, each as full as possible: what one record can name.
#[must_use]
pub fn of_runs(sizes: &[u16]) -> usize {
    let (mut units, mut room) = (0, Room { bytes: 0, slots: 0 });
    for &size in sizes {
        if !room.takes(usize::from(size)) {
            units += 1;
            room = Room { bytes: UNIT_ROOM_BYTES, slots: SLOTS_MAX };
            if !room.takes(usize::from(size)) {
                room.slots = 0;
            }
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u16 = 4096;

    #[test]
    fn one_block_rides_with_its_record_or_takes_two_units() {
        let most = u16::try_from(ALONE_BYTES).expect("below a block");
        assert_eq!([of_epoch(&[100]), of_epoch(&[most]), of_epoch(&[most + 1]), of_epoch(&[WHOLE])], [1, 1, 2, 2]);
    }

    #[test]
    fn an_epoch_takes_as_few_carriers_as_first_fit_finds() {
        assert_eq!(of_epoch(&[1900, 1900]), 1);
        assert_eq!(of_epoch(&[WHOLE, 1900, 1900, WHOLE]), 3);
        assert_eq!(of_epoch(&[1300, 2600, 1300, 2600]), 2, "largest first");
        assert_eq!(of_epoch(&[10; 16]), 2, "no more than 15 slots");
        assert_eq!(of_epoch(&[WHOLE; 64]), 65);
    }

    #[test]
    fn records_come_before_slots() {
        let fits = u16::try_from(CARRIER_BYTES - SLOT_BYTES - 2 * RECORD_BYTES).expect("below a block");
        assert_eq!(of_epoch(&[fits, WHOLE]), 2);
        assert_eq!(of_epoch(&[fits + 1, WHOLE]), 3, "a unit of records and two blocks");
    }

    #[test]
    fn neighbours_are_packed_sixteen_at_a_time() {
        assert_eq!(of_neighbours(&[200; 15]), 1);
        assert_eq!(of_neighbours(&[200; 16]), 2);
        assert_eq!(of_epoch(&[1900; 80]), 41);
        assert_eq!(of_epoch(&[WHOLE; 80]), 81);
    }

    #[test]
    fn runs_end_where_something_does_not_fit() {
        assert_eq!(of_runs(&[1900, 1900, 1900, 1900]), 2);
        assert_eq!(of_runs(&[1900, WHOLE, 1900]), 3);
        assert_eq!(of_neighbours(&[1900, WHOLE, 1900]), 2);
        assert_eq!(of_runs(&[10; 16]), 2);
        assert_eq!(of_runs(&[]), 0);
    }
}
