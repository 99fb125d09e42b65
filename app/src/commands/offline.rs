//! Reading and changing a volume while nobody serves it, and the claim that keeps other hosts away from it meanwhile.

use crate::device::backing::{Access, Backing, PATIENCE};
use crate::exit::{Exit, Failed, Outcome};
use crate::growth::{self, Order};
use crate::heartbeat::{Claim, Kept, Lost, Purpose, announce};
use crate::volume;
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::ReadMedium;
use onefold_engine::format::Chosen;
use onefold_engine::interface::IoFailure;
use onefold_engine::repair::{RepairError, RepairMedium};
use onefold_engine::units::Bytes;
use std::path::Path;
use std::sync::Arc;

/// The backing store in the form that the check and the dump need.
pub(super) struct Medium<'a>(pub(super) &'a Backing);

impl ReadMedium for Medium<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        self.0.read_bytes(at.get(), buffer).map_err(|error| {
            tracing::warn!(%error, %at, "cannot read");
            IoFailure
        })
    }
}

/// The backing store in the form that changes need. Nothing is written any more when the claim of a guarded volume is gone.
pub(super) struct Writable<'a> {
    backing: &'a Backing,
    kept: Option<&'a Kept>,
}

impl Writable<'_> {
    /// The size of the store.
    pub(super) fn bytes(&self) -> Bytes {
        Bytes(self.backing.facts().length)
    }
}

impl Writable<'_> {
    /// Grows the volume.
    pub(super) fn grow(&self, order: &Order) -> Outcome {
        growth::grow(self.backing, order, || self.may_write())
    }

    fn may_write(&self) -> bool {
        self.kept.is_none_or(Kept::holds)
    }
}

impl ReadMedium for Writable<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        Medium(self.backing).read(at, buffer)
    }
}

impl RepairMedium for Writable<'_> {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        if !self.may_write() {
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

/// Opens the store of a volume that nobody serves, and does `work` on it. Of a guarded volume other hosts are kept away all the time.
///
/// # Errors
/// When the store is in use, here or on another host, or cannot be opened; and those of `work`.
pub(super) fn change<T>(path: &Path, buffered: bool, work: impl FnOnce(&mut Writable) -> Outcome<T>) -> Outcome<T> {
    let backing = Arc::new(Backing::open_patiently(path, Access::of(false, buffered), PATIENCE)?);
    let kept = claimed(&backing)?;
    let done = work(&mut Writable { backing: &backing, kept: kept.as_ref() });
    let claim = kept.map(Kept::end).transpose().map_err(|lost| without_claim(path, &lost))?;
    // After a failure of the device nothing is written (A5): another host waits as for a dead server.
    let is_usable = done.as_ref().map_or_else(|failed| failed.exit != Exit::DeviceFailed, |_| true);
    if let Some(claim) = claim.filter(|_| is_usable) {
        claim.release();
    }
    done
}

/// The same as [`change`], for work that needs the store itself.
///
/// # Errors
/// Those of [`change`].
pub(super) fn change_backing<T>(path: &Path, buffered: bool, work: impl FnOnce(&Backing) -> Outcome<T>) -> Outcome<T> {
    change(path, buffered, |medium| work(medium.backing))
}

/// Claims a guarded volume, and keeps the claim. Where there is no volume, or none with a guard, there is nothing to claim.
fn claimed(backing: &Arc<Backing>) -> Outcome<Option<Kept>> {
    let Ok(Chosen { superblock, .. }) = volume::load(backing) else { return Ok(None) };
    announce(&backing.facts().path, &superblock, Purpose::Claim);
    let pause = |time| {
        std::thread::sleep(time);
        Ok(())
    };
    let Some(mut claim) = Claim::make(backing, &superblock, &pause)? else { return Ok(None) };
    claim.confirm()?;
    Ok(Some(Kept::start(claim)))
}

/// The message to the user when a claim was not kept until the end.
fn without_claim(path: &Path, lost: &Lost) -> Failed {
    let at = path.display();
    match lost {
        Lost::Ousted => Failed::new(Exit::InUse, format!("{at}: another host has claimed the volume meanwhile"))
            .next("Detach it on that host, and try again."),
        Lost::Failed(error) => Failed::new(Exit::DeviceFailed, format!("{at}: the guard block cannot be read or written: {error}"))
            .next("Look at the device; then the same command goes on."),
    }
}

/// The message to the user when a volume cannot be changed.
pub(super) fn failed(path: &Path, error: RepairError) -> Failed {
    let at = path.display();
    match error {
        RepairError::Open(error) => {
            let failed = Failed::from(error);
            Failed { message: format!("{at}: {}", failed.message), ..failed }
        }
        RepairError::NotClosed => Failed::new(Exit::Damaged, format!("{at}: the volume was not closed in order"))
            .next("`onefold attach` and `onefold detach` close it."),
        RepairError::ReadOnly => Failed::new(Exit::Refused, format!("{at}: this program must not write the volume"))
            .next("`onefold attach --read-only` serves it, so that its content can be copied to another volume."),
        RepairError::TooMuch { blocks } => {
            Failed::new(Exit::Damaged, format!("{at}: more than {blocks} blocks are damaged")).next("Give more --memory.")
        }
        RepairError::Device => Failed::new(Exit::DeviceFailed, format!("{at}: the device failed before everything was written"))
            .next("Look at the device; then the same command goes on."),
    }
}
