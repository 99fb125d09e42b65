//! Btrfs: which logical addresses lie at some bytes of a device, by the items of its trees.

use super::ioctl::{self, Buffer};
use super::ranges::clip;
use std::fs::File;
use std::io;
use std::ops::Range;

const TREE_SEARCH: libc::c_ulong = 0xd000_9411;
const ARGUMENT_BYTES: usize = 4096;
const KEY_BYTES: usize = 104;
const HEAD_BYTES: usize = 32;
const ITEMS_MAX: u32 = 4096;

const CHUNK_TREE: u64 = 3;
const FIRST_CHUNK_TREE: u64 = 256;
const CHUNK_ITEM: u32 = 228;
const CHUNK_STRIPES: usize = 48;
const STRIPE_BYTES: usize = 32;
const OF_DATA: u64 = 1;
/// RAID0, RAID10, RAID5 and RAID6: each device has every n-th piece alone.
const STRIPED: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;

/// An item of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key_offset: u64,
    pub bytes: Vec<u8>,
}

impl Item {
    /// Returns a number of the item; none behind its end.
    pub fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes.get(at..at + 8)?.try_into().ok()?))
    }

    /// Returns a short number of the item; none behind its end.
    pub fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes.get(at..at + 2)?.try_into().ok()?))
    }
}

/// Returns all items of one type that an object has in a tree.
///
/// # Errors
/// When the tree cannot be read, which needs root.
#[allow(unsafe_code)]
pub fn items(file: &File, tree: u64, object: u64, kind: u32) -> io::Result<Vec<Item>> {
    let mut found = Vec::new();
    let mut from = 0;
    loop {
        let mut search = Buffer::of_bytes(ARGUMENT_BYTES);
        for (at, number) in [(0, tree), (8, object), (16, object), (24, from), (32, u64::MAX), (48, u64::MAX)] {
            search.set_u64(at, number);
        }
        for (at, number) in [(56, kind), (60, kind), (64, ITEMS_MAX)] {
            search.set_u32(at, number);
        }
        // SAFETY: the arguments have the size that the request names.
        unsafe { ioctl::ask(file, TREE_SEARCH, &mut search)? };
        let count = search.u32(64);
        if count == 0 {
            return Ok(found);
        }
        let bytes = search.bytes();
        let mut at = KEY_BYTES;
        for _ in 0..count {
            let Some(head) = bytes.get(at..at + HEAD_BYTES) else { break };
            let number = |place: usize| u64::from_ne_bytes(head[place..place + 8].try_into().expect("eight bytes"));
            // The type and the length are in one word.
            let length = u32::from_ne_bytes(head[28..32].try_into().expect("four bytes")) as usize;
            let Some(content) = bytes.get(at + HEAD_BYTES..at + HEAD_BYTES + length) else { break };
            from = number(16);
            found.push(Item { key_offset: from, bytes: content.to_vec() });
            at += HEAD_BYTES + length;
        }
        match from.checked_add(1) {
            Some(next) => from = next,
            None => return Ok(found),
        }
    }
}

/// Bytes of a device that one chunk has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub on_device: Range<u64>,
    pub logical: u64,
    pub has_data: bool,
    /// Logical and physical addresses have the same distance in all of it.
    pub is_plain: bool,
}

impl Chunk {
    /// Returns the parts of a set that lie in it.
    pub fn parts(&self, wanted: &[Range<u64>]) -> Vec<Range<u64>> {
        clip(wanted, &self.on_device)
    }

    /// Returns the logical address of a byte of a plain chunk.
    pub fn logical_of(&self, byte: u64) -> u64 {
        self.logical + (byte - self.on_device.start)
    }
}

/// Returns the chunks that have bytes on a device of the file system, which is called by Btrfs' own number.
///
/// # Errors
/// When the tree cannot be read, which needs root.
pub fn on_device(file: &File, number: u64) -> io::Result<Vec<Chunk>> {
    Ok(items(file, CHUNK_TREE, FIRST_CHUNK_TREE, CHUNK_ITEM)?.iter().flat_map(|item| stripes(item, number)).collect())
}

/// Returns the parts of a chunk that lie on this device.
fn stripes(item: &Item, number: u64) -> Vec<Chunk> {
    let head = || Some((item.u64(0)?, item.u64(24)?, item.u16(44)?));
    let Some((length, kind, count)) = head() else { return Vec::new() };
    let is_plain = kind & STRIPED == 0;
    let places = (0..usize::from(count)).map(|stripe| CHUNK_STRIPES + stripe * STRIPE_BYTES);
    let of_device = places.filter_map(|at| Some((item.u64(at)?, item.u64(at + 8)?))).filter(|(device, _)| *device == number);
    let chunk = |(_, first): (u64, u64)| Chunk {
        // A striped chunk has a share of its length on each device; more than that is never taken for it.
        on_device: first..first.saturating_add(if is_plain { length } else { length / u64::from(count.max(1)) }),
        logical: item.key_offset,
        has_data: kind & OF_DATA != 0,
        is_plain,
    };
    of_device.map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: u64, stripes: &[(u64, u64)]) -> Item {
        let mut bytes = vec![0; CHUNK_STRIPES];
        bytes[0..8].copy_from_slice(&4096_u64.to_le_bytes());
        bytes[24..32].copy_from_slice(&kind.to_le_bytes());
        bytes[44..46].copy_from_slice(&u16::try_from(stripes.len()).unwrap().to_le_bytes());
        for (device, offset) in stripes {
            bytes.extend(device.to_le_bytes().into_iter().chain(offset.to_le_bytes()).chain([0; 16]));
        }
        Item { key_offset: 1 << 20, bytes }
    }

    #[test]
    fn a_chunk_is_found_on_each_of_its_devices() {
        let of = |item: &Item, number| stripes(item, number).into_iter().map(|chunk| (chunk.on_device, chunk.is_plain)).collect::<Vec<_>>();
        let twice = item(OF_DATA | 1 << 5, &[(1, 8192), (1, 65_536), (2, 0)]);
        assert_eq!(of(&twice, 1), [(8192..12_288, true), (65_536..69_632, true)]);
        assert_eq!(stripes(&twice, 2)[0].logical_of(7), (1 << 20) + 7);
        assert_eq!(of(&item(OF_DATA | 1 << 3, &[(1, 0), (2, 4096)]), 2), [(4096..6144, false)]);
        assert!(of(&Item { key_offset: 0, bytes: vec![1; 40] }, 1).is_empty(), "a short item is none");
    }
}
