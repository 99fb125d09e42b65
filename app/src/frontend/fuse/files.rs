//! The file system: a directory with one file, as large as the target. Nothing in it can be made or changed.
//!
//! 1. [`decide`] is pure: it turns a request and the target's [`TargetInfo`] into the work to do. It never fails and never waits.
//! 2. Node numbers and file handles are constants, so that a new server knows all that the dead one knew.
//! 3. Requests to the target are in range and multiples of 512 bytes.

use super::wire::replies::{self, Attr};
use super::wire::{self, Operation, Request, falloc, fopen, setattr};
use crate::target::TargetInfo;
use onefold_engine::interface::Op;
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use rustix::io::Errno;

/// Returns the name of a session's file, made from the tag of its loop device. The kernel shows it as the file behind that device (`losetup
/// --list`), and programs take two devices over files of one name for the same: so each volume's has its own.
#[must_use]
pub fn disk_name(tag: &str) -> String {
    let mut name = tag.replace('/', "-");
    while name.len() > wire::NAME_BYTES_MAX {
        name.pop();
    }
    name
}

/// The inode of the file.
pub(super) const DISK: u64 = 2;
const DISK_HANDLE: u64 = 1;
const DIRECTORY_HANDLE: u64 = 2;

/// The work for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// The request wants no answer.
    Nothing,
    Answer(Vec<u8>),
    Refuse(Errno),
    /// Read `bytes` at `offset`, which may begin and end within a sector: only reads may.
    Read {
        offset: u64,
        bytes: u64,
    },
    Write {
        offset: u64,
        bytes: u64,
        fua: bool,
    },
    Flush,
    /// Do each of them, in any order; then send an empty answer.
    Clear(Vec<Clearing>),
}

/// A discard or write-zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clearing {
    pub op: Op,
    pub offset: u64,
    pub bytes: u64,
}

/// Returns the work for `request`, where the file is called `disk_name`.
#[must_use]
pub fn decide(request: &Request<'_>, info: &TargetInfo, disk_name: &str) -> Todo {
    let node = request.header.node;
    let is_disk = node == DISK;
    match request.ask {
        Operation::Forget => Todo::Nothing,
        // ENOSYS keeps the kernel from sending more of them: every request is answered in time anyway.
        Operation::Interrupt | Operation::Other => Todo::Refuse(Errno::NOSYS),
        Operation::Init { .. } => Todo::Refuse(Errno::PROTO),
        Operation::Destroy | Operation::Release | Operation::SyncDir => Todo::Answer(Vec::new()),
        Operation::Change => Todo::Refuse(Errno::PERM),
        Operation::Lookup { .. } if is_disk => Todo::Refuse(Errno::NOTDIR),
        Operation::Lookup { name } if name == Some(disk_name.as_bytes()) => Todo::Answer(replies::entry_out(disk(info)).to_vec()),
        Operation::Lookup { .. } => Todo::Refuse(Errno::NOENT),
        Operation::GetAttr => attributes(node, info),
        // The size is the volume's: a `dd` of an image needs conv=notrunc, as the refusal says.
        Operation::SetAttr { valid, size } => {
            let changed = valid & !(setattr::FH | setattr::LOCKOWNER | setattr::SIZE) != 0;
            let resized = valid & setattr::SIZE != 0 && (!is_disk || size != info.bytes);
            if changed || resized { Todo::Refuse(Errno::PERM) } else { attributes(node, info) }
        }
        Operation::Open { flags } if is_disk => open(flags, info),
        Operation::Open { .. } => Todo::Refuse(Errno::ISDIR),
        Operation::OpenDir if is_disk => Todo::Refuse(Errno::NOTDIR),
        Operation::OpenDir => Todo::Answer(replies::open_out(DIRECTORY_HANDLE, fopen::CACHE_DIR).to_vec()),
        Operation::Read { .. } | Operation::Write { .. } | Operation::Fallocate { .. } if !is_disk => Todo::Refuse(Errno::ISDIR),
        Operation::Read { offset, bytes } => {
            let bytes = u64::from(bytes).min(info.bytes.saturating_sub(offset));
            if bytes == 0 { Todo::Answer(Vec::new()) } else { Todo::Read { offset, bytes } }
        }
        Operation::Write { offset, bytes, fua } => write(offset, u64::from(bytes), fua, info),
        Operation::Statfs => Todo::Answer(replies::statfs_out(info.bytes / BLOCK_BYTES, 4096).to_vec()),
        Operation::Sync => Todo::Flush,
        Operation::ReadDir { .. } if is_disk => Todo::Refuse(Errno::NOTDIR),
        Operation::ReadDir { offset, bytes, plus } => Todo::Answer(read_directory(offset, bytes, plus, info, disk_name)),
        Operation::Fallocate { offset, bytes, mode } => clear(offset, bytes, mode, info),
    }
}

fn attributes(node: u64, info: &TargetInfo) -> Todo {
    match node {
        wire::ROOT => Todo::Answer(replies::attr_out(directory()).to_vec()),
        DISK => Todo::Answer(replies::attr_out(disk(info)).to_vec()),
        _ => Todo::Refuse(Errno::NOENT),
    }
}

fn open(flags: u32, info: &TargetInfo) -> Todo {
    const ACCESS_MODE: u32 = 3;
    if info.read_only && flags & ACCESS_MODE != 0 {
        return Todo::Refuse(Errno::ROFS);
    }
    // Direct I/O: every request arrives here, none is served from the page cache, which would keep blocks twice and hide the order of
    // writes.
    // NOFLUSH: closing the file promises nothing.
    Todo::Answer(replies::open_out(DISK_HANDLE, fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES | fopen::NOFLUSH).to_vec())
}

fn write(offset: u64, bytes: u64, fua: bool, info: &TargetInfo) -> Todo {
    if info.read_only {
        return Todo::Refuse(Errno::ROFS);
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= info.bytes => {}
        _ => return Todo::Refuse(Errno::NOSPC),
    }
    if offset % SECTOR_BYTES != 0 || bytes % SECTOR_BYTES != 0 {
        return Todo::Refuse(Errno::INVAL);
    }
    if bytes == 0 {
        return Todo::Answer(replies::write_out(0).to_vec());
    }
    Todo::Write { offset, bytes, fua }
}

/// Decides on a fallocate: a punched hole is a discard, after which the range reads as zeros; a zeroed range stays allocated.
fn clear(offset: u64, bytes: u64, mode: u32, info: &TargetInfo) -> Todo {
    if info.read_only {
        return Todo::Refuse(Errno::ROFS);
    }
    let kind = mode & !falloc::KEEP_SIZE;
    if kind != falloc::PUNCH_HOLE && kind != falloc::ZERO_RANGE {
        return Todo::Refuse(Errno::OPNOTSUPP);
    }
    let Some(end) = offset.checked_add(bytes) else {
        return Todo::Refuse(Errno::FBIG);
    };
    // A hole beyond the end is nothing; zeros there would make the file grow.
    let end = match kind {
        falloc::PUNCH_HOLE => end.min(info.bytes),
        _ if end > info.bytes => return Todo::Refuse(Errno::NOSPC),
        _ => end,
    };
    if offset >= end {
        return Todo::Answer(Vec::new());
    }
    if offset % SECTOR_BYTES != 0 || end % SECTOR_BYTES != 0 {
        return Todo::Refuse(Errno::INVAL);
    }
    let piece = |op, from: u64, to: u64| (from < to).then_some(Clearing { op, offset: from, bytes: to - from });
    if kind == falloc::ZERO_RANGE {
        return Todo::Clear(piece(Op::WriteZeroes, offset, end).into_iter().collect());
    }
    // A target may ignore blocks that a discard covers in part, but a punched range must read as zeros: zero the ends.
    let (first, last) = (offset.next_multiple_of(BLOCK_BYTES), end - end % BLOCK_BYTES);
    if first >= last {
        return Todo::Clear(piece(Op::WriteZeroes, offset, end).into_iter().collect());
    }
    let pieces = [piece(Op::WriteZeroes, offset, first), piece(Op::Discard, first, last), piece(Op::WriteZeroes, last, end)];
    Todo::Clear(pieces.into_iter().flatten().collect())
}

fn read_directory(offset: u64, bytes: u32, plus: bool, info: &TargetInfo, disk_name: &str) -> Vec<u8> {
    let entries = [(directory(), "."), (directory(), ".."), (disk(info), disk_name)];
    let mut reply = Vec::new();
    for (next, (attr, name)) in (1..).zip(entries).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
        if !replies::push_dirent(&mut reply, bytes as usize, attr, name.as_bytes(), next, plus) {
            break;
        }
    }
    reply
}

fn disk(info: &TargetInfo) -> Attr {
    let mode = if info.read_only { 0o100_400 } else { 0o100_600 };
    Attr { ino: DISK, size: info.bytes, blocks: info.bytes / SECTOR_BYTES, mode, nlink: 1, ..blank() }
}

fn directory() -> Attr {
    Attr { ino: wire::ROOT, mode: 0o40_500, nlink: 2, ..blank() }
}

pub(super) const fn blank() -> Attr {
    Attr {
        ino: 0,
        size: 0,
        blocks: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        atimensec: 0,
        mtimensec: 0,
        ctimensec: 0,
        mode: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
