//! The room that the file system below a sparse store has left, watched all the time.

use super::backing::{Backing, Room};
use onefold_engine::interface::StoreRoom;
use onefold_engine::units::BLOCK_BYTES;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The time between two looks, and between two where little is left.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_CLOSELY: Duration = Duration::from_millis(50);
/// The limit of little room: a second of writing may use that much.
const FEW_BLOCKS: u64 = (2 << 30) / BLOCK_BYTES;
/// The room is short when less than one part in this many of the file system is left.
const SHORT_PART: u64 = 8;
/// The room is out when less than one part in this many of it is left, within bounds: requests under way, and the log and pages of admitted
/// ones, have to find room.
const OUT_PART: u64 = 64;
const OUT_BYTES: (u64, u64) = (8 << 20, 256 << 20);

/// Returns the consequence of a store's room for its volume.
#[must_use]
pub fn meaning(Room { available, all, holes }: Room) -> StoreRoom {
    let out = (all / OUT_PART).clamp(OUT_BYTES.0, OUT_BYTES.1);
    if available >= holes.saturating_add(OUT_BYTES.0) {
        // All writes to it find room.
        return StoreRoom::default();
    }
    StoreRoom { is_short: available < all / SHORT_PART, blocks: available.saturating_sub(out) / BLOCK_BYTES }
}

/// Calls `tell` again and again, as long as `whom` exists, and as long as the file may need more room than there is.
///
/// # Panics
/// When the system has no more threads.
pub fn watch<T: Send + Sync + 'static>(backing: Arc<Backing>, whom: Weak<T>, tell: fn(&T, StoreRoom)) {
    let run = move || {
        let mut last = StoreRoom::default();
        while let Some(target) = whom.upgrade() {
            let known = backing.room().ok().flatten();
            let now = known.map_or_else(StoreRoom::default, meaning);
            if now.is_short != last.is_short {
                tracing::info!(
                    room = ?known,
                    "the file system of the store {}",
                    if now.is_short { "runs short of room" } else { "has room again" }
                );
            }
            if now != last || now != StoreRoom::default() {
                tell(&target, now);
            }
            last = now;
            drop(target);
            if known.is_none() {
                return;
            }
            std::thread::sleep(if now.blocks < FEW_BLOCKS { LOOK_CLOSELY } else { LOOK });
        }
    };
    std::thread::Builder::new().name("room".to_owned()).spawn(run).expect("the system has threads left");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_short_before_it_is_out() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (available, all, is_short, blocks_mib) in [
            (30 * mib, 200 * mib, false, 22),
            (20 * mib, 200 * mib, true, 12),
            (7 * mib, 200 * mib, true, 0),
            (300 * mib, 1000 * gib, true, 44),
            (200 * mib, 1000 * gib, true, 0),
        ] {
            let means = StoreRoom { is_short, blocks: blocks_mib * mib / BLOCK_BYTES };
            assert_eq!(meaning(Room { available, all, holes: 2000 * gib }), means, "{available} of {all}");
        }
    }

    #[test]
    fn a_file_that_finds_room_for_all_of_itself_is_never_short() {
        let mib = 1 << 20;
        let of_holes = |holes| meaning(Room { available: 100 * mib, all: 1 << 40, holes });
        assert_eq!(of_holes(92 * mib), StoreRoom::default());
        assert!(of_holes(93 * mib).is_short);
    }
}
