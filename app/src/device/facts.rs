//! What is known of a backing store.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Kind of a backing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Block,
}

/// Size and manners of a backing store.
#[derive(Clone, Debug)]
pub struct Facts {
    pub path: PathBuf,
    pub kind: Kind,
    /// Bytes, as the store says (not rounded).
    pub length: u64,
    /// I/O goes past the page cache.
    pub is_direct: bool,
    /// Offsets and lengths are multiples of this.
    pub offset_align: u64,
    /// Memory begins at multiples of this.
    pub memory_align: u64,
    /// It has no volatile cache, so that flushes are free.
    pub is_write_through: bool,
    /// It has a volatile cache, and writes bytes past it where it is asked to.
    pub takes_fua: bool,
    pub is_read_only: bool,
    /// Device and inode of a file, device number of a block device: what tells two stores apart.
    pub identity: (u64, u64),
}

/// Where an open backing store is: it may have been renamed or deleted since it was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorePlace {
    /// Its name now, or the last that it had.
    pub path: PathBuf,
    /// It is a file without a name: its content goes with its last user.
    pub is_deleted: bool,
    /// A path by which even a deleted one can be copied, while it is attached.
    pub open_as: PathBuf,
}
