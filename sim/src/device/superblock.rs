//! The superblock that an opening would find on a simulated device.

use super::disk::SimDisk;
use fastrand::Rng;
use onefold_engine::format::copies::{Chosen, OpenError, choose, end_copies};
use onefold_engine::units::{BLOCK_BYTES, Bytes};

/// Returns the superblock that is found on a device.
///
/// # Errors
/// Fails if there is no volume, or no usable one.
pub fn superblock_of(disk: &SimDisk, rng: &mut Rng) -> Result<Chosen, OpenError> {
    let bytes = Bytes(disk.blocks() * BLOCK_BYTES);
    let front = [disk.read(0, rng), disk.read(1, rng)];
    let ends = end_copies([Some(front[0].bytes()), Some(front[1].bytes())], bytes);
    let end = ends.map(|at| disk.read(at.get() / BLOCK_BYTES, rng));
    choose([Some(front[0].bytes()), Some(front[1].bytes()), Some(end[0].bytes()), Some(end[1].bytes())], bytes)
}
