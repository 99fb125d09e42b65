//! The superblock of a volume that nobody serves: it is read, changed, and written into all copies.
//!
//! A server may have been killed during an update. Then the device's cache has the newest pair of copies, and nothing else is known to be
//! durable: it is flushed before it is read, and so before the other pair is written (R8).

use super::error::RepairError;
use super::write::{RepairMedium, superblock as write_copies};
use crate::check::{ReadMedium, read_superblock};
use crate::format::{Chosen, Superblock, pair_of};
use crate::interface::IoFailure;
use crate::units::Bytes;

/// Reads the superblock of a volume that may be written.
pub(super) fn writable<M: ReadMedium>(medium: &mut M, device_bytes: Bytes) -> Result<Chosen, RepairError> {
    let chosen = read_superblock(medium, device_bytes)?;
    if chosen.superblock.used_up().is_some() || chosen.superblock.read_only_because() != 0 {
        return Err(RepairError::ReadOnly);
    }
    Ok(chosen)
}

/// Writes all copies, one pair after the other, so that one pair is whole at any moment.
pub(super) fn write<M: RepairMedium>(medium: &mut M, superblock: &mut Superblock) -> Result<(), IoFailure> {
    for _pair in 0..2 {
        superblock.next_generation();
        write_copies(medium, superblock, pair_of(superblock.generation))?;
        medium.flush()?;
    }
    Ok(())
}

/// Changes the superblock of a volume that was closed, and returns it. If that is cut off, the volume has the old one or the new one.
///
/// # Errors
/// When no superblock can be used, when the volume was not closed or may not be written, or when the device fails.
pub fn change_superblock<M: RepairMedium>(
    medium: &mut M,
    device_bytes: Bytes,
    change: impl FnOnce(&mut Superblock),
) -> Result<Superblock, RepairError> {
    changed(medium, device_bytes, change, Superblock::is_whole_in_pages)
}

/// Changes the superblock of a volume that may not have been closed, such as a copy of an attached one: the next opening recovers it as it
/// would have before. Nobody may hold an acknowledgement journal of it, which would no longer be known as its own.
///
/// # Errors
/// When no superblock can be used, when the volume may not be written, or when the device fails.
pub fn change_open_superblock<M: RepairMedium>(
    medium: &mut M,
    device_bytes: Bytes,
    change: impl FnOnce(&mut Superblock),
) -> Result<Superblock, RepairError> {
    changed(medium, device_bytes, change, |_| true)
}

fn changed<M: RepairMedium>(
    medium: &mut M,
    device_bytes: Bytes,
    change: impl FnOnce(&mut Superblock),
    may_change: impl FnOnce(&Superblock) -> bool,
) -> Result<Superblock, RepairError> {
    medium.flush()?;
    let chosen = writable(medium, device_bytes)?;
    if !may_change(&chosen.superblock) {
        return Err(RepairError::NotClosed);
    }
    let mut superblock = Chosen::into_service(chosen);
    change(&mut superblock);
    write(medium, &mut superblock)?;
    Ok(superblock)
}
