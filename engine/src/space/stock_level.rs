//! The size of the stock of a store in a file (`stock.rs`), and its growth.

use crate::units::Time;

/// The stock's size, and what is being added to it.
pub(super) struct Stock {
    pub blocks: u64,
    pub is_growing: bool,
    pub refused: Option<Time>,
}

impl Stock {
    pub fn of(blocks: u64) -> Self {
        Self { blocks, is_growing: false, refused: None }
    }
}
