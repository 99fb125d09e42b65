//! Orders to an open volume, and reports of its surroundings, which no request brings.

use crate::units::Lbn;

/// An order for the work out of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deduplicate {
    /// Looks for duplicates of what these LBNs mean, also if it was paused.
    Range {
        first: Lbn,
        end: Lbn,
    },
    /// Rests until it is resumed. What it has to do is kept.
    Pause,
    Resume,
}

/// An order for the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubOrder {
    /// Begins a scrub that reads at most so much in a second, or goes on with the one under way at this rate.
    Begin {
        kib_per_second: u32,
    },
    /// Rests until it is resumed.
    Pause,
    Resume,
    /// Forgets how far it is.
    Cancel,
}

/// The room below a store: in the file system of a sparse file, or on a device that is thin itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRoom {
    /// Little room is left: unused blocks are given back.
    pub is_short: bool,
    /// The number of new blocks that clients may write until the next report. 0: none, so that blocks under way have room.
    pub blocks: u64,
    /// The store has refused writes for want of room a moment ago. Those that it still refuses (`blocks` is 0) were not done, and are sent
    /// again until they are, or until [`Engine::waits_for_room`](crate::Engine::waits_for_room) says that nobody waits any more.
    pub refuses: bool,
}

impl Default for StoreRoom {
    /// Unlimited room.
    fn default() -> Self {
        Self { is_short: false, blocks: u64::MAX, refuses: false }
    }
}
