//! How far the service of the volume has come, and what it has found.

use crate::log::Opening;
use crate::recover::{Recount, Refill};
use crate::units::Epoch;

/// Of an opening.
#[derive(Default)]
pub(crate) struct Recovery {
    pub opening: Option<Opening>,
    /// Updates of the superblock that it has begun.
    pub updates: u8,
}

/// Work that nobody waits for.
pub(crate) struct Background {
    pub refill: Refill,
    pub recount: Recount,
}

/// Where the service stands.
#[derive(Default)]
pub(crate) struct State {
    /// A counter of the volume is used up (`counters.rs`).
    pub used_up: bool,
    /// The flush of the opening failed.
    pub unflushed: bool,
    /// The log is a damaged one: its last epoch that counts.
    pub log_counts_upto: Option<Epoch>,
    pub close_asked: bool,
}
