//! File systems that say what each byte of their device is used for (GETFSMAP): XFS by inode where it has a reverse map; ext4 says at least
//! what is free and what is metadata. What is left is looked for in the extents of all files.

use super::fiemap::extents;
use super::holder::{Holder, Named};
use super::ioctl::{self, Buffer};
use super::mounts::Mount;
use super::ranges::{clip, merge, subtract};
use super::traversal::{TraversalResult, traverse};
use rustix::fs::{major, minor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Instant;

const FS_IOC_GETFSMAP: libc::c_ulong = 0xc0c0_583b;
const HEAD_BYTES: usize = 192;
const RECORD_BYTES: usize = 64;
const RECORDS: u32 = 128;
/// The places of the two keys between which records are wanted.
const KEYS: [usize; 2] = [64, 128];
const SPECIAL_OWNER: u32 = 0x10;
const OF_ATTRIBUTES_OR_MAP: u32 = 0x2 | 0x4;
const LAST: u32 = 0x20;
const OWNER_FREE: u64 = 1;
const OWNER_UNKNOWN: u64 = 2;

/// The use of some bytes of a device, as its file system has it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UseOfBytes {
    Free,
    Metadata,
    File {
        inode: u64,
        file_offset: u64,
    },
    /// Used, and nothing more.
    Unknown,
}

/// Returns the names of bytes of the device that a file system is on.
///
/// # Errors
/// When the file system cannot be asked.
pub fn names(mount: &Mount, device: u64, wanted: &[Range<u64>], deadline: Instant) -> io::Result<Vec<Named>> {
    let file = File::open(&mount.path)?;
    let mut uses = Vec::new();
    for range in wanted {
        match uses_of(&file, device, range) {
            Ok(found) => uses.extend(found),
            // It knows no such request.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL | libc::EPERM)) => {}
            Err(error) => return Err(error),
        }
    }
    let mut named = Vec::new();
    let (mut in_use, mut of_files) = (Vec::new(), Vec::new());
    for (range, of) in uses {
        match of {
            UseOfBytes::Free => named.push(Named::of(&range, Holder::Free { mount: mount.point() })),
            UseOfBytes::Metadata => named.push(Named::of(&range, Holder::Metadata { mount: mount.point() })),
            UseOfBytes::Unknown => in_use.push(range),
            UseOfBytes::File { inode, file_offset } => of_files.push((inode, file_offset, range)),
        }
    }
    named.extend(by_inode(mount, of_files, deadline));
    let left = subtract(wanted, &merge(&named.iter().map(Named::range).collect::<Vec<_>>()));
    named.extend(by_extents(mount, &left, &merge(&in_use), deadline));
    Ok(named)
}

/// Returns what a file system says of each byte of the range that it speaks of.
#[allow(unsafe_code)]
fn uses_of(file: &File, device: u64, wanted: &Range<u64>) -> io::Result<Vec<(Range<u64>, UseOfBytes)>> {
    let encoded = encoded(device);
    let mut uses = Vec::new();
    // The record behind which the next ones are wanted: device, flags, physical place, owner, offset, length. All bytes before the range.
    let mut low = [u64::from(encoded), wanted.start, 0, 0, 0];
    loop {
        let mut map = Buffer::of_bytes(HEAD_BYTES + RECORDS as usize * RECORD_BYTES);
        map.set_u32(8, RECORDS);
        low.iter().enumerate().for_each(|(word, number)| map.set_u64(KEYS[0] + word * 8, *number));
        map.set_u32(KEYS[1], encoded);
        map.set_u32(KEYS[1] + 4, u32::MAX);
        map.set_u64(KEYS[1] + 8, wanted.end - 1);
        map.set_u64(KEYS[1] + 16, u64::MAX);
        map.set_u64(KEYS[1] + 24, u64::MAX);
        // SAFETY: behind the head is room for the number of records that it has.
        unsafe { ioctl::ask(file, FS_IOC_GETFSMAP, &mut map)? };
        let count = map.u32(12).min(RECORDS) as usize;
        let mut is_last = count == 0;
        for at in (0..count).map(|number| HEAD_BYTES + number * RECORD_BYTES) {
            let (flags, physical, owner) = (map.u32(at + 4), map.u64(at + 8), map.u64(at + 16));
            let (file_offset, bytes) = (map.u64(at + 24), map.u64(at + 32));
            is_last |= flags & LAST != 0;
            low = [0, 1, 2, 3, 4].map(|word| map.u64(at + word * 8));
            let part = physical.max(wanted.start)..physical.saturating_add(bytes).min(wanted.end);
            if map.u32(at) != encoded || part.is_empty() {
                continue;
            }
            let of = match (flags & SPECIAL_OWNER != 0, owner) {
                (true, OWNER_FREE) => UseOfBytes::Free,
                (true, OWNER_UNKNOWN) => UseOfBytes::Unknown,
                (true, _) => UseOfBytes::Metadata,
                (false, _) if flags & OF_ATTRIBUTES_OR_MAP != 0 => UseOfBytes::Metadata,
                (false, inode) => UseOfBytes::File { inode, file_offset: file_offset + (part.start - physical) },
            };
            uses.push((part, of));
        }
        if is_last {
            return Ok(uses);
        }
    }
}

/// Returns a device number as the kernel has it in these records.
fn encoded(device: u64) -> u32 {
    let (major, minor) = (major(device), minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Finds the names of inodes in one traversal.
fn by_inode(mount: &Mount, of_files: Vec<(u64, u64, Range<u64>)>, deadline: Instant) -> Vec<Named> {
    let mut paths: BTreeMap<u64, Option<String>> = of_files.iter().map(|(inode, ..)| (*inode, None)).collect();
    if paths.is_empty() {
        return Vec::new();
    }
    let mut missing = paths.len();
    let ended = traverse(&mount.path, deadline, |visited| {
        if let Some(path @ None) = paths.get_mut(&visited.inode) {
            *path = Some(visited.path.display().to_string());
            missing -= 1;
        }
        missing > 0
    });
    let why = |inode: u64| match &ended {
        TraversalResult::Partial(why) => format!("inode {inode}, and {why}"),
        _ if mount.is_whole() => format!("inode {inode}, which has no name any more, or one that is hidden by another mount"),
        _ => format!("inode {inode}, outside the part that is mounted"),
    };
    let holder = |inode, file_offset| match paths.get(&inode) {
        Some(Some(path)) => Holder::File { path: path.clone(), file_offset },
        _ => Holder::Unknown { mount: mount.point(), why: why(inode) },
    };
    of_files.iter().map(|(inode, file_offset, range)| Named::of(range, holder(*inode, *file_offset))).collect()
}

/// Finds the files that have these bytes in their extents, in one traversal. `in_use` is what the file system says is used.
fn by_extents(mount: &Mount, wanted: &[Range<u64>], in_use: &[Range<u64>], deadline: Instant) -> Vec<Named> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut named: Vec<Named> = Vec::new();
    let mut unread = None;
    let mut seen = std::collections::BTreeSet::new();
    let ended = traverse(&mount.path, deadline, |visited| {
        // Another name of the same file has nothing new.
        if !visited.has_blocks || !seen.insert(visited.inode) {
            return true;
        }
        let result = extents(visited.path, |extent| {
            for part in clip(wanted, &extent.place) {
                let file_offset = extent.file_offset + (part.start - extent.place.start);
                named.push(Named::of(&part, Holder::File { path: visited.path.display().to_string(), file_offset }));
            }
        });
        if let Err(error) = result.as_ref().map_err(|error| (error.raw_os_error(), error)) {
            // A directory of a file system that maps files alone, or a file that has just gone.
            if !matches!(error.0, Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENOTTY)) || visited.path.is_file() {
                unread.get_or_insert_with(|| format!("{}: {}", visited.path.display(), error.1));
            }
        }
        true
    });
    let why = match (ended, unread) {
        (TraversalResult::Partial(why), _) | (_, Some(why)) => Some(why),
        _ if !mount.is_whole() => Some("a part of the file system is not mounted".to_owned()),
        _ => None,
    };
    let left = subtract(wanted, &merge(&named.iter().map(Named::range).collect::<Vec<_>>()));
    let unnamed = |range: &Range<u64>, otherwise: Holder| {
        let holder = why.clone().map_or(otherwise, |why| Holder::Unknown { mount: mount.point(), why });
        Named::of(range, holder)
    };
    let used = left.iter().flat_map(|range| clip(in_use, range)).collect::<Vec<_>>();
    let either = subtract(&left, &used);
    named.extend(used.iter().map(|range| unnamed(range, Holder::Metadata { mount: mount.point() })));
    named.extend(either.iter().map(|range| unnamed(range, Holder::MetadataOrFree { mount: mount.point() })));
    named
}
