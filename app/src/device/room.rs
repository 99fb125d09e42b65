//! The room that is left below a store: in the file system of a sparse file, watched all the time, and on whatever refuses writes.

use super::backing::{Backing, Room};
use super::patient::Refusals;
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
    StoreRoom { is_short: available < all / SHORT_PART, blocks: available.saturating_sub(out) / BLOCK_BYTES, refuses: false }
}

/// The time between two tries of writes that were refused.
const TRY: Duration = Duration::from_millis(100);
/// The time after a refusal in which the room that there is may end again, and the blocks that clients may write in each part of it.
const SETTLING: Duration = Duration::from_secs(1);
const TRIAL_BLOCKS: u64 = 1024;

/// Returns the room of a store whose file system would have `room`, and which has refused writes.
#[must_use]
fn after_refusals(room: StoreRoom, (keeps, since): (bool, Option<Duration>)) -> StoreRoom {
    match since {
        _ if keeps => StoreRoom { is_short: true, blocks: 0, refuses: true },
        Some(since) if since < SETTLING => StoreRoom { is_short: true, blocks: room.blocks.min(TRIAL_BLOCKS), refuses: true },
        _ => room,
    }
}

/// Calls `tell` again and again, as long as `whom` exists: while the file of a `backing` may need more room than there is, and while writes
/// are refused. Those are tried again until they are done, or until `tell` returns false.
///
/// # Panics
/// When the system has no more threads.
pub fn watch<T: Send + Sync + 'static>(backing: Option<Arc<Backing>>, refusals: Refusals, whom: Weak<T>, tell: fn(&T, StoreRoom) -> bool) {
    let run = move || {
        let mut last = StoreRoom::default();
        while let Some(target) = whom.upgrade() {
            let known = backing.as_ref().and_then(|backing| backing.room().ok().flatten());
            let now = after_refusals(known.map_or_else(StoreRoom::default, meaning), refusals.look());
            if now.is_short != last.is_short {
                tracing::info!(room = ?known, "there is {} below the store", if now.is_short { "little room" } else { "room again" });
            }
            if (now != last || now != StoreRoom::default()) && !tell(&target, now) {
                refusals.give_up();
            }
            last = now;
            drop(target);
            refusals.try_again();
            let pause = match known {
                _ if now.refuses => Some(TRY),
                Some(_) => Some(if now.blocks < FEW_BLOCKS { LOOK_CLOSELY } else { LOOK }),
                None => None,
            };
            if !refusals.wait(pause) {
                return;
            }
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
            let means = StoreRoom { is_short, blocks: blocks_mib * mib / BLOCK_BYTES, refuses: false };
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
