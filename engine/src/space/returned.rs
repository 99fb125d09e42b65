//! Counts that a recount has lowered, until that is durable. A crash may bring back the excess of a page, and the records' counts are then
//! added to it. So the lowered counts give no room for links yet, and a block that has no room even for a new count stays out of use.

use crate::units::Pbn;

/// The effect of a recount that is not durable yet.
#[derive(Default)]
pub(crate) struct ReturnedExcess {
    /// The largest excess that was taken from one count.
    pub most: u8,
    /// Blocks that stay pinned until the recount is durable, because their counts have no room.
    pub kept: Vec<Pbn>,
    /// The recount is finished, but the superblock does not record that yet.
    pub is_unsaid: bool,
}
