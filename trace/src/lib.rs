//! Content traces: what was asked of a block device, when, by whom, and the names of what was written.

pub mod folder;
pub mod header;
pub mod record;
pub mod text;
