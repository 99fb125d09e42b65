//! The names of what lies in given bytes of a block device: the files of mounted file systems, or what else is there.
//!
//! 1. Nothing is changed, and no content of a file is read.
//! 2. Every byte that was asked for is in at least one piece of the answer; with shared content it is in one for each file.
//! 3. A piece is called free or metadata only where the file system reports it, or where everything that could have a name was looked at.
//! 4. A file system is traversed once, whatever the number of ranges, and only where the file system cannot say whose a block is.

mod btrfs;
mod chunks;
mod devices;
mod fiemap;
mod fsmap;
mod holder;
mod ioctl;
pub mod mounts;
mod ranges;
mod subvolumes;
mod traversal;

pub use holder::{Holder, Named};

use holder::join;
use mounts::Mount;
use ranges::{clip, merge, subtract};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

/// Returns the names of these bytes of a block device, in order of their offsets. File systems on the device and on its partitions are
/// looked at where they are mounted. What is not found before `deadline` is unknown.
///
/// # Errors
/// When the device cannot be looked at, or is not a block device.
pub fn find(device: &Path, ranges: &[Range<u64>], deadline: Instant) -> io::Result<Vec<Named>> {
    let meta = device.metadata()?;
    if !meta.file_type().is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a block device", device.display())));
    }
    let wanted = merge(ranges);
    let mounts = mounts::read()?;
    let mut named = Vec::new();
    for part in devices::with_partitions(meta.rdev())? {
        let within: Vec<_> =
            clip(&wanted, &part.place).iter().map(|range| range.start - part.place.start..range.end - part.place.start).collect();
        if within.is_empty() {
            continue;
        }
        if let Some(mount) = mount_on(&mounts, part.device) {
            let found = names_in(mount, part.device, &within, deadline);
            named.extend(found.into_iter().map(|piece| Named { offset: piece.offset + part.place.start, ..piece }));
        }
    }
    let unnamed = subtract(&wanted, &merge(&named.iter().map(Named::range).collect::<Vec<_>>()));
    named.extend(unnamed.iter().map(|range| Named::of(range, Holder::NotMounted)));
    Ok(join(named))
}

/// Returns a mount of the file system on this block device, if there is one: one that shows all of it, where there is such a one. Btrfs
/// may have several devices.
fn mount_on(mounts: &[Mount], device: u64) -> Option<&Mount> {
    let has = |mount: &&Mount| if mount.kind == "btrfs" { btrfs::has_device(&mount.path, device) } else { mount.device == device };
    let mut those: Vec<_> = mounts.iter().filter(has).collect();
    those.sort_by_key(|mount| !mount.is_whole());
    those.first().copied()
}

/// Returns the names of bytes of the device that a file system is on.
fn names_in(mount: &Mount, device: u64, wanted: &[Range<u64>], deadline: Instant) -> Vec<Named> {
    let found = if mount.kind == "btrfs" { btrfs::names(mount, device, wanted) } else { fsmap::names(mount, device, wanted, deadline) };
    found.unwrap_or_else(|error| {
        let unknown = Holder::Unknown { mount: mount.point(), why: error.to_string() };
        wanted.iter().map(|range| Named::of(range, unknown.clone())).collect()
    })
}
