//! How much room the file system below a sparse store has left, looked at all the time.

use super::backing::Backing;
use onefold_engine::interface::StoreRoom;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often, and how often where little is left.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_CLOSELY: Duration = Duration::from_millis(50);
/// Short is less than one part in so many of the file system.
const SHORT_PART: u64 = 8;
/// Out is less than one part in so many of it, within bounds: what is under way, and the log and pages of what was let in, has to find room.
const OUT_PART: u64 = 64;
const OUT_BYTES: (u64, u64) = (8 << 20, 256 << 20);

/// What `available` of `all` bytes means.
#[must_use]
pub fn room(available: u64, all: u64) -> StoreRoom {
    if available < (all / OUT_PART).clamp(OUT_BYTES.0, OUT_BYTES.1) {
        StoreRoom::Out
    } else if available < all / SHORT_PART {
        StoreRoom::Short
    } else {
        StoreRoom::Enough
    }
}

/// Has `tell` told of each change, as long as there is whom to tell.
///
/// # Panics
/// When the system has no more threads.
pub fn watch<T: Send + Sync + 'static>(backing: Arc<Backing>, whom: Weak<T>, tell: fn(&T, StoreRoom)) {
    let run = move || {
        let mut last = StoreRoom::Enough;
        while let Some(target) = whom.upgrade() {
            match backing.room() {
                Ok(Some((available, all))) => {
                    let now = room(available, all);
                    if now != last {
                        tracing::info!(available, all, "room of the store: {now:?}");
                        tell(&target, now);
                    }
                    last = now;
                }
                Ok(None) | Err(_) => return,
            }
            drop(target);
            std::thread::sleep(if last == StoreRoom::Enough { LOOK } else { LOOK_CLOSELY });
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
        for (available, all, means) in [
            (30 * mib, 200 * mib, StoreRoom::Enough),
            (20 * mib, 200 * mib, StoreRoom::Short),
            (7 * mib, 200 * mib, StoreRoom::Out),
            (300 * mib, 1000 * gib, StoreRoom::Short),
            (200 * mib, 1000 * gib, StoreRoom::Out),
        ] {
            assert_eq!(room(available, all), means, "{available} of {all}");
        }
    }
}
