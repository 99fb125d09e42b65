//! The device that a check reads, and the superblock on it.

use crate::buffer::BufferMut;
use crate::format::{Chosen, OpenError, choose, end_copies};
use crate::interface::IoFailure;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};

/// A device that is only read.
pub trait ReadMedium {
    /// Fills `buffer` from byte `at`, a multiple of 4096 as is the length; the buffer is aligned to 4096.
    ///
    /// # Errors
    /// When any of it cannot be read, or lies beyond the end. A longer read that failed is tried again in pieces.
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure>;
}

/// Reads the four copies and chooses.
///
/// # Errors
/// When none can be used, or the device is smaller than the volume.
pub fn read_superblock(medium: &mut dyn ReadMedium, device_bytes: Bytes) -> Result<Chosen, OpenError> {
    let mut fetch = |at: Bytes| {
        let mut page = BufferMut::zeroed(1);
        let inside = at.get().checked_add(BLOCK_BYTES).is_some_and(|end| end <= device_bytes.get());
        (inside && medium.read(at, page.bytes_mut()).is_ok()).then_some(page)
    };
    let [a, b] = [Bytes(0), Bytes(BLOCK_BYTES)].map(&mut fetch);
    let front = [block(&a), block(&b)];
    let [c, d] = end_copies(front, device_bytes).map(&mut fetch);
    choose([front[0], front[1], block(&c), block(&d)], device_bytes)
}

fn block(page: &Option<BufferMut>) -> Option<&[u8; BLOCK_SIZE]> {
    page.as_ref().map(|page| page.block(0))
}
