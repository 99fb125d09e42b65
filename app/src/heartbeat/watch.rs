//! Reading the guard block, and waiting for the servers that have written it.

use crate::device::backing::Backing;
use crate::exit::{Exit, Failed, Outcome};
use crate::volume;
use onefold_engine::buffer::BufferMut;
use onefold_engine::format::{Chosen, GUARD_AT, Guard, GuardState, Superblock};
use onefold_engine::units::BLOCK_SIZE;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// The number of intervals that a reader or a claimant waits.
pub(super) const WAIT_INTERVALS: u32 = 2;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The purpose for which a command opens a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read it, or format over it: [`watch`].
    Watch,
    /// Serve it for writing: [`Claim::make`](super::Claim::make).
    Claim,
}

/// A store as guard blocks name it: the boot id of this kernel, and the store's numbers here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    host: [u8; 16],
    store: (u64, u64),
}

impl Here {
    /// Returns the store of these numbers ([`Facts::identity`](crate::device::backing::Facts::identity)).
    ///
    /// # Errors
    /// Where there is no /proc.
    pub fn of(store: (u64, u64)) -> Outcome<Self> {
        let text = std::fs::read_to_string(BOOT_ID).map_err(|e| Failed::system(format!("cannot read {BOOT_ID}"), e))?;
        let host = Uuid::parse_str(text.trim()).map_err(|e| Failed::system(format!("{BOOT_ID} is no UUID"), e))?;
        Ok(Self { host: host.into_bytes(), store })
    }

    /// Returns the guard of a new volume that is created here.
    #[must_use]
    pub const fn new_guard(&self, uuid: [u8; 16]) -> Guard {
        Guard::new(uuid, self.host, self.store)
    }

    fn wrote(self, guard: Guard) -> bool {
        guard.host == self.host && guard.store == self.store
    }

    /// Returns the number of intervals that have to pass before a volume with this guard block can be used.
    pub(super) fn intervals(self, found: Option<Guard>, purpose: Purpose) -> u32 {
        let claim = if purpose == Purpose::Claim { WAIT_INTERVALS } else { 0 };
        match found {
            Some(guard) if self.wrote(guard) => 0,
            Some(Guard { state: GuardState::Free, .. }) => claim,
            Some(_) | None => WAIT_INTERVALS + claim,
        }
    }
}

/// Returns the interval of a guarded volume.
pub(super) fn interval(superblock: &Superblock) -> Duration {
    Duration::from_millis(superblock.guard_ms.into())
}

/// Decodes the guard block; none where it is damaged or of another volume.
fn decoded(page: &[u8; BLOCK_SIZE], uuid: &[u8; 16]) -> Option<Guard> {
    Guard::decode(page, uuid).inspect_err(|error| tracing::warn!(%error, "the guard block says nothing")).ok()
}

/// Does the same as [`watch`], for a command that reports on standard error that it waits. Does nothing where there is no volume.
///
/// # Errors
/// Those of `watch`.
pub fn look_first(backing: &Backing) -> Outcome {
    let Ok(Chosen { superblock, .. }) = volume::load(backing) else { return Ok(()) };
    announce(&backing.facts().path, &superblock, Purpose::Watch);
    watch(backing, &superblock)
}

pub(super) fn read(backing: &Backing, uuid: &[u8; 16]) -> std::io::Result<Option<Guard>> {
    let mut buffer = BufferMut::zeroed(1);
    backing.read(GUARD_AT.get(), &mut buffer)?;
    Ok(decoded(buffer.block(0), uuid))
}

/// Reads and decodes the block; none where it is damaged, or cannot be read.
pub(super) fn look(backing: &Backing, uuid: &[u8; 16]) -> Option<Guard> {
    read(backing, uuid).unwrap_or_else(|error| {
        tracing::warn!(%error, "the guard block cannot be read");
        None
    })
}

pub(super) fn failed(backing: &Backing, what: &str, error: std::io::Error) -> Failed {
    Failed::system(format!("cannot {what} the guard block of {}", backing.facts().path.display()), error)
        .next("Look at the device and the way to it, and try again.")
}

/// Makes sure that no server of another host has a volume, which is then read, or formatted over. Does nothing where the volume has no
/// guard.
///
/// # Errors
/// When a server has it.
pub fn watch(backing: &Backing, superblock: &Superblock) -> Outcome {
    if !superblock.is_guarded() {
        return Ok(());
    }
    let here = Here::of(backing.facts().identity)?;
    let sleep = |time| {
        std::thread::sleep(time);
        Ok(())
    };
    wait_for_the_dead(backing, superblock, here, look(backing, &superblock.origin), &sleep)
}

/// A function that lets a time pass. It fails when the command was interrupted meanwhile.
pub type Pause<'a> = &'a dyn Fn(Duration) -> Outcome;

/// Waits by invariant 1, for a block that was found like this.
pub(super) fn wait_for_the_dead(backing: &Backing, superblock: &Superblock, here: Here, found: Option<Guard>, pause: Pause<'_>) -> Outcome {
    if here.intervals(found, Purpose::Watch) == 0 {
        return Ok(());
    }
    let path = backing.facts().path.display();
    if !backing.facts().is_direct {
        return Err(without_direct_io(backing));
    }
    let wait = interval(superblock) * WAIT_INTERVALS;
    tracing::info!(%path, seconds = wait.as_secs_f32(), "another host may serve this volume: waiting to see whether it does");
    pause(wait)?;
    let now = look(backing, &superblock.origin);
    // A block that can no longer be read may be half of what a live server is writing (A2).
    if now == found || matches!(now, Some(Guard { state: GuardState::Free, .. })) {
        return Ok(());
    }
    let host = now.map_or_else(|| "another host".to_owned(), |guard| format!("another host (boot id {})", Uuid::from_bytes(guard.host)));
    Err(in_use(
        format!("{path} is in use: {host} serves it, and has written its guard block within {wait:?}"),
        "Detach the volume on that host. `onefold status` there says whether it has it.",
    ))
}

pub(super) fn in_use(message: String, next: &str) -> Failed {
    Failed::new(Exit::InUse, message).next(next)
}

pub(super) fn without_direct_io(backing: &Backing) -> Failed {
    let message = format!(
        "{} has no direct I/O here, and its volume is guarded: what other hosts write would not be seen",
        backing.facts().path.display()
    );
    Failed::new(Exit::System, message).next("Use it on a host that has direct I/O to it.")
}

/// Reports on standard error how long a command is going to wait for the guard of a volume, if it does. The block is read without the lock,
/// for this purpose only.
pub fn announce(path: &Path, superblock: &Superblock, purpose: Purpose) {
    let intervals = || -> Option<u32> {
        let file = File::open(path).ok()?;
        let meta = file.metadata().ok()?;
        let mut page = [0; BLOCK_SIZE];
        file.read_exact_at(&mut page, GUARD_AT.get()).ok()?;
        let store = if meta.file_type().is_block_device() { (meta.rdev(), 0) } else { (meta.dev(), meta.ino()) };
        Some(Here::of(store).ok()?.intervals(Guard::decode(&page, &superblock.origin).ok(), purpose))
    };
    if let Some(intervals) = intervals().filter(|&intervals| superblock.is_guarded() && intervals > 0) {
        let seconds = (interval(superblock) * intervals).as_secs_f32();
        let _ = writeln!(std::io::stderr(), "waiting {seconds} s to see whether another host serves {}", path.display());
    }
}
