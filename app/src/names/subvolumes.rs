//! Btrfs: the paths of inodes in subvolumes.

use super::chunks::items;
use super::ioctl::{self, Buffer};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const INO_LOOKUP: libc::c_ulong = 0xd000_9412;
const ARGUMENT_BYTES: usize = 4096;
const NAME_AT: usize = 16;

const TREE_OF_ROOTS: u64 = 1;
const ROOT_BACKREF: u32 = 144;
const BACKREF_NAME: usize = 18;
const FIRST_OBJECT: u64 = 256;
/// Subvolumes within subvolumes, at most: a damaged tree may have a circle.
const DEPTH_MAX: usize = 64;

/// Asks for the path of an inode in the tree of its subvolume, from the subvolume's root on. Of tree 0, that of the file, it returns the
/// number.
#[allow(unsafe_code)]
fn look_up(file: &File, tree: u64, inode: u64) -> io::Result<(u64, PathBuf)> {
    let mut arguments = Buffer::of_bytes(ARGUMENT_BYTES);
    arguments.set_u64(0, tree);
    arguments.set_u64(8, inode);
    // SAFETY: the arguments have the size that the request names.
    unsafe { ioctl::ask(file, INO_LOOKUP, &mut arguments)? };
    let bytes = arguments.bytes();
    let name = bytes[NAME_AT..].split(|&byte| byte == 0).next().unwrap_or_default();
    let name = name.strip_suffix(b"/").unwrap_or(name);
    Ok((arguments.u64(0), PathBuf::from(OsStr::from_bytes(name))))
}

/// Returns the number of the subvolume that a file lies in.
///
/// # Errors
/// When the file system does not say.
pub fn number_of(file: &File) -> io::Result<u64> {
    look_up(file, 0, FIRST_OBJECT).map(|(tree, _)| tree)
}

/// Returns a path of an inode of a subvolume, seen from a mount of the subvolume `mounted`.
///
/// # Errors
/// When it has no name, or none below the mount.
pub fn path(file: &File, mount: &Path, mounted: u64, tree: u64, inode: u64) -> io::Result<PathBuf> {
    let (_, mut below) = look_up(file, tree, inode)?;
    let mut tree = tree;
    for _ in 0..DEPTH_MAX {
        if tree == mounted {
            return Ok(mount.join(below));
        }
        let (parent, place) = place_of(file, tree)?;
        below = place.join(below);
        tree = parent;
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "subvolumes lie in a circle"))
}

/// Returns the subvolume that another one lies in, and its path there.
fn place_of(file: &File, tree: u64) -> io::Result<(u64, PathBuf)> {
    let outside = || io::Error::new(io::ErrorKind::NotFound, format!("subvolume {tree} is not mounted"));
    let entries = items(file, TREE_OF_ROOTS, tree, ROOT_BACKREF)?;
    let entry = entries.first().ok_or_else(outside)?;
    let parent = entry.key_offset;
    let name_bytes = usize::from(entry.u16(16).ok_or_else(outside)?);
    let name = entry.bytes.get(BACKREF_NAME..BACKREF_NAME + name_bytes).ok_or_else(outside)?;
    let (_, folder) = look_up(file, parent, entry.u64(0).ok_or_else(outside)?)?;
    Ok((parent, folder.join(OsStr::from_bytes(name))))
}
