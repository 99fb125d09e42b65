//! The places of a file on its host's file system, and the parts that the file system has never written.
//!
//! 1. The host's own map says it, by FIEMAP: holes, and extents that have their space but no content yet. What we believe to have written
//!    is asked of nobody.
//! 2. To write to such a part makes the host write its map at the next flush. On a file system without FIEMAP (tmpfs) nothing is known, and
//!    the store is treated like a device.

use rustix::io::Errno;
use rustix::ioctl;
use std::fs::File;
use std::ops::Range;

/// The extents that one call returns.
const EXTENTS: usize = 256;
/// Write what is in the page cache first (linux/fiemap.h).
const FLAG_SYNC: u32 = 1;
/// The last extent of the file; one that has its space and no content.
const EXTENT_LAST: u32 = 1;
const EXTENT_UNWRITTEN: u32 = 0x800;
/// Extents whose place is not known, or is no place of their own: unknown, delayed, encoded, encrypted, inline, with tails of other files.
const EXTENT_NOWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x200 | 0x400;

/// `struct fiemap_extent` of linux/fiemap.h: some bytes of a file, and their place on the device of its file system.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MappedExtent {
    pub logical: u64,
    pub physical: u64,
    pub length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h, without extents.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Question {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}

/// A question, with room for the answer.
#[repr(C)]
struct Asked {
    question: Question,
    extents: [MappedExtent; EXTENTS],
}

const FS_IOC_FIEMAP: ioctl::Opcode = ioctl::opcode::read_write::<Question>(b'f', 11);

/// Returns the ranges of bytes below `length` that the host has never written, in order and apart; none where it cannot say.
///
/// # Errors
/// When the host fails.
pub(super) fn unwritten(file: &File, length: u64) -> Result<Option<Vec<Range<u64>>>, Errno> {
    let mut found = Found { ranges: Vec::new(), known_to: 0 };
    if !each_extent(file, length, FLAG_SYNC, |extent| found.take(extent, length))? {
        return Ok(None);
    }
    found.add(found.known_to..length);
    Ok(Some(found.ranges))
}

/// Returns where the content of a file lies below its file system, in bytes, in the order of the file; none where that cannot say. What is
/// written but not placed yet is placed first.
///
/// # Errors
/// When the file system fails.
pub fn places(file: &File) -> Result<Option<Vec<Range<u64>>>, Errno> {
    let mut found = Vec::new();
    let mut take = |extent: &MappedExtent| {
        if extent.has_place_of_its_own() {
            found.push(extent.place());
        }
    };
    Ok(each_extent(file, u64::MAX, FLAG_SYNC, &mut take)?.then_some(found))
}

/// Calls `see` with each extent of a file or directory, as it is on the device now. Returns whether the file system knows them.
///
/// # Errors
/// When the file system fails.
pub fn extents(file: &File, see: impl FnMut(&MappedExtent)) -> Result<bool, Errno> {
    each_extent(file, u64::MAX, 0, see)
}

/// Calls `take` with each extent of a file below `length` bytes, in order. Returns whether the file system knows them.
fn each_extent(file: &File, length: u64, flags: u32, mut take: impl FnMut(&MappedExtent)) -> Result<bool, Errno> {
    let mut known_to = 0;
    while known_to < length {
        let question = Question {
            start: known_to,
            length: length - known_to,
            flags,
            extent_count: u32::try_from(EXTENTS).expect("a few"),
            ..Question::default()
        };
        let mut asked = Asked { question, extents: [MappedExtent::default(); EXTENTS] };
        // SAFETY: the kernel writes the head and as many extents as it says that there is room for.
        let answer = unsafe { ioctl::ioctl(file, ioctl::Updater::<FS_IOC_FIEMAP, Asked>::new(&mut asked)) };
        match answer {
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => return Ok(false),
            other => other?,
        }
        let extents = &asked.extents[..EXTENTS.min(asked.question.mapped_extents as usize)];
        extents.iter().for_each(&mut take);
        let Some(last) = extents.last().filter(|extent| extent.flags & EXTENT_LAST == 0) else { break };
        known_to = last.logical.saturating_add(last.length);
    }
    Ok(true)
}

impl MappedExtent {
    /// Whether its place is known, and holds nothing else.
    #[must_use]
    pub fn has_place_of_its_own(&self) -> bool {
        self.flags & EXTENT_NOWHERE == 0
    }

    /// Its place, in bytes.
    #[must_use]
    pub fn place(&self) -> Range<u64> {
        self.physical..self.physical.saturating_add(self.length)
    }
}

/// The ranges that were found so far.
struct Found {
    ranges: Vec<Range<u64>>,
    /// Everything before this is known.
    known_to: u64,
}

impl Found {
    fn take(&mut self, extent: &MappedExtent, length: u64) {
        let end = extent.logical.saturating_add(extent.length).min(length);
        self.add(self.known_to..extent.logical.min(length));
        if extent.flags & EXTENT_UNWRITTEN != 0 {
            self.add(extent.logical..end);
        }
        self.known_to = self.known_to.max(end);
    }

    fn add(&mut self, range: Range<u64>) {
        match self.ranges.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kit::skipped;
    use rustix::fs::{FallocateFlags, fallocate, fsync};
    use std::os::unix::fs::FileExt;

    const MIB: u64 = 1 << 20;

    /// A file of 1,000 MiB with more written parts than one call returns, space in advance, and a hole at the end.
    #[test]
    fn holes_and_space_in_advance_are_unwritten() {
        // The build's folder is on a disk; the system's folder for temporary files may be a tmpfs.
        let build = std::env::current_exe().unwrap();
        let file = tempfile::tempfile_in(build.parent().unwrap()).unwrap();
        file.set_len(1000 * MIB).unwrap();
        fallocate(&file, FallocateFlags::KEEP_SIZE, 600 * MIB, 200 * MIB).unwrap();
        let written: Vec<u64> = (0..300).map(|i| i * 2 * MIB).chain([700 * MIB]).collect();
        written.iter().for_each(|&at| file.write_all_at(&[7; 4096], at).unwrap());
        fsync(&file).unwrap();
        let Some(found) = unwritten(&file, 1000 * MIB).unwrap() else { return skipped("no FIEMAP") };
        let ends = written.iter().skip(1).copied().chain([1000 * MIB]);
        let expected: Vec<_> = written.iter().zip(ends).map(|(&at, end)| at + 4096..end).collect();
        assert_eq!(found, expected);
    }
}
