//! Btrfs says whose a logical address is; before, the bytes of the device are found in its chunks.

use super::chunks;
use super::holder::{Holder, Named};
use super::ioctl::{self, Buffer};
use super::mounts::Mount;
use super::ranges::{merge, subtract};
use super::subvolumes;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const DEV_INFO: libc::c_ulong = 0xd000_941e;
const FS_INFO: libc::c_ulong = 0x8400_941f;
const LOGICAL_INO: libc::c_ulong = 0xc038_9424;
const INFO_BYTES: usize = 4096;
const FS_INFO_BYTES: usize = 1024;
const PATH_AT: usize = 3072;
const LOGICAL_BYTES: usize = 56;
/// The room for the inodes that share a block.
const INODES_BYTES: usize = 64 << 10;
/// The smallest block that has an owner.
const SECTOR: u64 = 4096;

/// Whether the file system that is mounted there has this block device.
pub fn has_device(mounted: &Path, device: u64) -> bool {
    File::open(mounted).and_then(|file| number_of(&file, device)).is_ok_and(|number| number.is_some())
}

/// Returns the number by which the file system calls a block device.
#[allow(unsafe_code)]
fn number_of(file: &File, device: u64) -> io::Result<Option<u64>> {
    let mut info = Buffer::of_bytes(FS_INFO_BYTES);
    // SAFETY: the arguments have the size that the request names.
    unsafe { ioctl::ask(file, FS_INFO, &mut info)? };
    let largest = info.u64(0);
    for number in 1..=largest {
        let mut info = Buffer::of_bytes(INFO_BYTES);
        info.set_u64(0, number);
        // SAFETY: as above. A number that no device has is an error.
        if unsafe { ioctl::ask(file, DEV_INFO, &mut info) }.is_err() {
            continue;
        }
        let bytes = info.bytes();
        let path = Path::new(OsStr::from_bytes(bytes[PATH_AT..].split(|&byte| byte == 0).next().unwrap_or_default()));
        if path.metadata().is_ok_and(|meta| meta.rdev() == device) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Returns the names of bytes of a device of the file system.
///
/// # Errors
/// When the file system cannot be asked, as by a user who is not root.
pub fn names(mount: &Mount, device: u64, wanted: &[Range<u64>]) -> io::Result<Vec<Named>> {
    let file = File::open(&mount.path)?;
    let number = number_of(&file, device)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it has left the device"))?;
    let mounted = subvolumes::number_of(&file)?;
    let mut paths = BTreeMap::new();
    let mut named = Vec::new();
    for chunk in chunks::on_device(&file, number)? {
        for part in chunk.parts(wanted) {
            let here = |holder| Named::of(&part, holder);
            if !chunk.has_data {
                named.push(here(Holder::Metadata { mount: mount.point() }));
            } else if !chunk.is_plain {
                let why = "its data is striped over several devices".to_owned();
                named.push(here(Holder::Unknown { mount: mount.point(), why }));
            } else {
                for sector in sectors(&part) {
                    let logical = chunk.logical_of(sector.start);
                    named.extend(
                        of_sector(&file, mount, mounted, logical, &mut paths)?.into_iter().map(|holder| Named::of(&sector, holder)),
                    );
                }
            }
        }
    }
    // What is in no chunk is free, but for the superblocks.
    let left = subtract(wanted, &merge(&named.iter().map(Named::range).collect::<Vec<_>>()));
    named.extend(left.iter().map(|range| Named::of(range, Holder::MetadataOrFree { mount: mount.point() })));
    Ok(named)
}

/// Returns a range in pieces that do not reach over the boundary of a block.
fn sectors(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (range.start, range.end);
    let firsts = (start / SECTOR..end.div_ceil(SECTOR)).map(|number| number * SECTOR);
    firsts.map(move |first| first.max(start)..(first + SECTOR).min(end))
}

/// Returns the holders of a logical address.
fn of_sector(
    file: &File,
    mount: &Mount,
    mounted: u64,
    logical: u64,
    paths: &mut BTreeMap<(u64, u64), Result<String, String>>,
) -> io::Result<Vec<Holder>> {
    let mut holders = Vec::new();
    for (inode, file_offset, tree) in inodes_at(file, logical)? {
        let path = paths.entry((tree, inode)).or_insert_with(|| {
            let path = subvolumes::path(file, &mount.path, mounted, tree, inode);
            path.map(|path| path.display().to_string()).map_err(|error| format!("inode {inode} of subvolume {tree}: {error}"))
        });
        holders.push(match path.clone() {
            Ok(path) => Holder::File { path, file_offset },
            Err(why) => Holder::Unknown { mount: mount.point(), why },
        });
    }
    if holders.is_empty() {
        holders.push(Holder::Free { mount: mount.point() });
    }
    Ok(holders)
}

/// Returns inode, offset and tree of each file that has this address.
#[allow(unsafe_code)]
fn inodes_at(file: &File, logical: u64) -> io::Result<Vec<(u64, u64, u64)>> {
    let mut inodes = Buffer::of_bytes(INODES_BYTES);
    let mut arguments = Buffer::of_bytes(LOGICAL_BYTES);
    arguments.set_u64(0, logical);
    arguments.set_u64(8, inodes.len() as u64);
    arguments.set_u64(48, inodes.address());
    // SAFETY: the arguments have the size that the request names, and the buffer that they point to has the length that they have.
    match unsafe { ioctl::ask(file, LOGICAL_INO, &mut arguments) } {
        // No extent lies there.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Vec::new()),
        other => other?,
    }
    // Three numbers for each, behind four short ones.
    let count = inodes.u32(8) as usize / 3;
    let places = (0..count).map(|number| 16 + number * 24).filter(|at| at + 24 <= inodes.len());
    Ok(places.map(|at| (inodes.u64(at), inodes.u64(at + 8), inodes.u64(at + 16))).collect())
}
