//! The steps of a check.

use super::finding::Finding;
use super::log::read_log;
use super::medium::{ReadMedium, read_superblock};
use super::recount::Recount;
use super::report::{Listener, Report};
use super::settings::CheckSettings;
use crate::format::{Chosen, CopyState, FRONT_COPIES, OpenError, SuperblockError};
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
    let growth_was_cut_off = states.iter().any(|state| matches!(state, CopyState::Elsewhere { .. }));
    for (copy, state) in states.into_iter().enumerate() {
        if !matches!(state, CopyState::Sound { .. }) {
            let torn = (growth_was_cut_off || !superblock.clean) && is_torn(copy, &state);
            recount.tell(Finding::SuperblockCopy { copy, torn, state });
        }
    }
    Ok(recount.run())
}

/// Whether a copy looks as a crash in the middle of an update leaves it: with sectors of two generations; or in the middle of a growth: of
/// the volume as it was, or not there yet at its new end.
const fn is_torn(copy: usize, state: &CopyState) -> bool {
    match state {
        CopyState::Bad(SuperblockError::Checksum { .. }) | CopyState::Elsewhere { .. } => true,
        CopyState::Bad(SuperblockError::NotOnefold) => copy >= FRONT_COPIES,
        _ => false,
    }
}
