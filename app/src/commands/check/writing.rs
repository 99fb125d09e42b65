//! The writing of a backing store that is repaired, and the claim that keeps other hosts away from it.

use super::reading::Medium;
use crate::device::backing::Backing;
use crate::exit::Outcome;
use crate::heartbeat::{Claim, Kept, Purpose, announce};
use crate::volume;
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::ReadMedium;
use onefold_engine::format::Chosen;
use onefold_engine::interface::IoFailure;
use onefold_engine::repair::RepairMedium;
use onefold_engine::units::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The backing store in the form that the repair needs. Nothing is written any more when the claim of a guarded volume is gone.
pub(super) struct Writable<'a> {
    pub(super) backing: &'a Backing,
    pub(super) is_gone: &'a AtomicBool,
}

impl ReadMedium for Writable<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        Medium(self.backing).read(at, buffer)
    }
}

impl RepairMedium for Writable<'_> {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(IoFailure);
        }
        self.backing.write(at.get(), block).map_err(|error| {
            tracing::error!(%error, %at, "cannot write");
            IoFailure
        })
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.backing.flush().map_err(|error| {
            tracing::error!(%error, "cannot flush");
            IoFailure
        })
    }
}

/// Claims a guarded volume, and keeps the claim; `is_gone` is set if another host takes it. Where there is no volume, or none with a guard,
/// there is nothing to claim.
///
/// # Errors
/// When a server of another host has it, or the guard block cannot be written.
pub(super) fn claimed(backing: &Arc<Backing>, is_gone: &Arc<AtomicBool>) -> Outcome<Option<Kept>> {
    let Ok(Chosen { superblock, .. }) = volume::load(backing) else { return Ok(None) };
    announce(&backing.facts().path, &superblock, Purpose::Claim);
    let pause = |time| {
        std::thread::sleep(time);
        Ok(())
    };
    let Some(mut claim) = Claim::make(backing, &superblock, &pause)? else { return Ok(None) };
    claim.confirm()?;
    let is_gone = is_gone.clone();
    Ok(Some(Kept::start(claim, || (), move |_| is_gone.store(true, Ordering::Relaxed))))
}
