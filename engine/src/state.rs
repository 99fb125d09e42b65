//! How far the service of the volume has come, and what it has found.

use crate::log::Opening;

/// Of an opening.
#[derive(Default)]
pub(crate) struct Recovery {
    pub opening: Option<Opening>,
    /// Updates of the superblock that it has begun.
    pub updates: u8,
}

/// Where the service stands.
#[derive(Default)]
pub(crate) struct State {
    /// A counter of the volume is used up (`counters.rs`).
    pub used_up: bool,
    /// The flush of the opening failed.
    pub unflushed: bool,
    pub close_asked: bool,
}
