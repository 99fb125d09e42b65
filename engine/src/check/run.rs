//! The steps of a check.

use super::finding::Finding;
use super::log::read_log;
use super::medium::{ReadMedium, read_superblock};
use super::recount::Recount;
use super::report::{Listener, Report};
use super::settings::CheckSettings;
use crate::format::{Chosen, CopyState, OpenError, SuperblockError};
use crate::units::Bytes;

/// Checks the volume on a device of `device_bytes`.
///
/// # Errors
/// When no superblock can be used, or the device is smaller than the volume.
pub fn check(
    medium: &mut dyn ReadMedium,
    device_bytes: Bytes,
    settings: &CheckSettings,
    listener: &mut dyn Listener,
) -> Result<Report, OpenError> {
    let Chosen { superblock, states } = read_superblock(medium, device_bytes)?;
    let log = read_log(medium, &superblock);
    let mut recount = Recount::new(medium, &superblock, settings, listener);
    match log {
        Ok(log) => recount.take_log(log),
        Err(finding) => recount.lose_log(finding),
    }
    for (copy, state) in states.into_iter().enumerate() {
        if !matches!(state, CopyState::Sound { .. }) {
            recount.tell(Finding::SuperblockCopy { copy, torn: !superblock.clean && is_torn(&state), state });
        }
    }
    Ok(recount.run())
}

/// Whether a copy looks as a crash in the middle of an update leaves it: with sectors of two generations.
const fn is_torn(state: &CopyState) -> bool {
    matches!(state, CopyState::Bad(SuperblockError::Checksum { .. }))
}
