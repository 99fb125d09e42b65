//! The known facts about a backing store.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The kind of a backing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Block,
}

/// The size and properties of a backing store.
#[derive(Clone, Debug)]
pub struct Facts {
    pub path: PathBuf,
    pub kind: Kind,
    /// The size in bytes, as the store reports it (not rounded).
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
    /// The device and inode of a file, or the device number of a block device: they distinguish two stores.
    pub identity: (u64, u64),
}

/// The place of an open backing store, which may have been renamed or deleted since it was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorePlace {
    /// Its current name, or its last one.
    pub path: PathBuf,
    /// It is a file without a name: its content goes with its last user.
    pub is_deleted: bool,
    /// A path from which even a deleted store can be copied, while it is attached.
    pub open_as: PathBuf,
    /// The bytes at its end that are gone since it was opened.
    #[serde(default)]
    pub missing_bytes: u64,
}
