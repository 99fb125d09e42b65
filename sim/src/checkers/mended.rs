//! The check that a piece which a scrub calls mended is whole: in every state that a power loss could leave, and so after a kill, too.

use crate::device::disk::SimDisk;
use crate::device::volume::{BlockUse, Volume};
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::copies::copies;
use onefold_engine::format::page::open;
use onefold_engine::interface::Notice;
use onefold_engine::units::BLOCK_BYTES;

/// Checks a notice of something that was mended against the device. Units of the log are left to the lives that follow.
///
/// # Errors
/// Fails if what the notice names may still be damaged after a power loss.
pub fn check(notice: &Notice, disk: &SimDisk, volume: &Volume) -> Result<(), Violation> {
    let Notice::Mended { what, at } = notice else { return Ok(()) };
    let copy = usize::try_from(*at).ok().filter(|copy| *copy < 4 && what.contains("superblock"));
    let block = copy.map_or(*at, |copy| copies(volume.geometry.device_bytes)[copy].get()) / BLOCK_BYTES;
    let cell = disk.cell(block);
    let is_whole = match (copy, volume.place(block)) {
        (Some(copy), _) => cell.possible().all(|content| volume.superblock(copy, content).is_some()),
        (None, BlockUse::Page(id)) => cell.possible().all(|content| open(&volume.uuid, id, content.bytes(), true).damaged == 0),
        (None, _) => true,
    };
    if is_whole {
        Ok(())
    } else {
        Err(violation!("scrub: {what} at {at}, which is said to be mended, and a power loss may leave it damaged"))
    }
}
