//! Chunks: which addresses of the file system lie where on its devices.

use crate::layouts::bytes::{array, byte, le16, le64};
use std::ops::Range;

/// Bytes of the key of an item: object, type, offset.
pub(super) const KEY_BYTES: usize = 17;
const CHUNK_OBJECT: u64 = 256;
const CHUNK_TYPE: u8 = 228;
/// Bytes of a chunk before its stripes.
const FIXED_BYTES: usize = 48;
const STRIPE_BYTES: usize = 32;
const KIND_SYSTEM: u64 = 2;
const KIND_METADATA: u64 = 4;
const KIND_DUP: u64 = 0x20;
/// RAID 0, 10, 5 and 6, whose stripes hold parts of the chunk and no copies.
const KIND_STRIPED: u64 = 0x8 | 0x40 | 0x80 | 0x100;

/// A device of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) number: u64,
    pub(super) uuid: [u8; 16],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stripe {
    device: Device,
    first: u64,
}

/// A run of addresses of the file system, and where its copies or parts lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    logical: u64,
    bytes: u64,
    kind: u64,
    stripes: Vec<Stripe>,
}

impl Chunk {
    /// Reads the chunk of an item by its key and data, with the length of its data, or returns `None` if it is not a sound chunk.
    pub(super) fn parse(key: &[u8], data: &[u8]) -> Option<(Self, usize)> {
        let stripe_count = usize::from(le16(data, 44));
        let length = FIXED_BYTES + stripe_count * STRIPE_BYTES;
        let is_chunk = le64(key, 0) == CHUNK_OBJECT && byte(key, 8) == CHUNK_TYPE;
        if !is_chunk || stripe_count == 0 || data.len() < length {
            return None;
        }
        let stripes = data[FIXED_BYTES..length].chunks_exact(STRIPE_BYTES);
        let stripes =
            stripes.map(|stripe| Stripe { device: Device { number: le64(stripe, 0), uuid: array(stripe, 16) }, first: le64(stripe, 8) });
        let chunk = Self { logical: le64(key, 9), bytes: le64(data, 0), kind: le64(data, 24), stripes: stripes.collect() };
        let reaches = |first: u64| first.checked_add(chunk.bytes).is_some();
        let is_sound = chunk.bytes > 0 && reaches(chunk.logical) && chunk.stripes.iter().all(|stripe| reaches(stripe.first));
        is_sound.then_some((chunk, length))
    }

    /// The places on a device of copies of `bytes` bytes at an address of the file system.
    pub(super) fn copies(&self, logical: u64, bytes: u64, device: Device) -> impl Iterator<Item = u64> + '_ {
        let offset = logical.checked_sub(self.logical).filter(|offset| offset.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        let offset = offset.filter(|_| self.kind & KIND_STRIPED == 0);
        let stripes = self.stripes.iter().filter(move |stripe| stripe.device == device);
        stripes.filter_map(move |stripe| Some(stripe.first + offset?))
    }

    /// The stripe to protect so that the two copies of this chunk on a device share no block, in bytes of the device, if there are two.
    pub(super) fn main_copy(&self, device: Device) -> Option<Range<u64>> {
        let is_kept_twice = self.kind & KIND_DUP != 0 && self.kind & (KIND_SYSTEM | KIND_METADATA) != 0;
        let mut stripes = self.stripes.iter().filter(|stripe| stripe.device == device);
        let (first, _second) = (stripes.next()?, stripes.next()?);
        is_kept_twice.then(|| first.first..first.first + self.bytes)
    }

    /// Whether it holds the chunk tree, without which nothing can be read.
    pub(super) fn is_system(&self) -> bool {
        self.kind & KIND_SYSTEM != 0
    }
}
