//! Counts that a recount has lowered, until that is durable: a crash may bring back the excess of a page, and what records count is added
//! to it. So what was returned is no room for links yet, and a block without room for a new one is kept out of use.

use crate::units::Pbn;

/// What was returned.
#[derive(Default)]
pub(crate) struct Returned {
    /// The most that was taken from one count, while that is not durable.
    pub most: u8,
    /// Blocks that stay pinned until then, because their counts have no room.
    pub kept: Vec<Pbn>,
    /// The recount is finished, and the superblock does not say so yet.
    pub is_unsaid: bool,
}
