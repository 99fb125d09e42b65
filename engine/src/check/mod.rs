//! The offline check: reads a volume, recounts everything, changes nothing.
//!
//! 1. Nothing is written, and nothing is believed that no check covers.
//! 2. It stays within its memory, but for the records of a live log: links are counted for one window of PBNs after another, and the map is read
//!    once for each window. Map pages without a link are read in the first pass only.
//! 3. After a crash in mode `ordered`, and as long as it says that garbage is possible, counts may be higher than the links (garbage, P5), never
//!    lower (P3). Where part of the map or of the fingerprints cannot be read, higher counts prove nothing and lower ones still do.
//! 4. What it cannot see: a sector that kept an older valid version (A4), where counts and contents happen to agree with it.

mod content;
mod finding;
mod judge;
mod links;
mod log;
mod recount;
mod scan;
mod tell;

pub use finding::{Cause, Finding, Severity};
pub use log::{LiveLog, read_log};

use crate::buffer::BufferMut;
use crate::format::{Chosen, CopyState, OpenError, Superblock, SuperblockError, choose, end_copies};
use crate::interface::IoFailure;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use recount::Recount;

/// The smallest memory that works; less is raised to it.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// A device that is only read.
pub trait ReadMedium {
    /// Fills `buffer` from byte `at`, a multiple of 4096 as is the length; the buffer is aligned to 4096.
    ///
    /// # Errors
    /// When any of it cannot be read, or lies beyond the end. A longer read that failed is tried again in pieces.
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure>;
}

/// Who hears of a check while it runs.
pub trait Listener {
    /// Something was found.
    fn finding(&mut self, finding: Finding);

    /// `done` of about `total` bytes have been read.
    fn progress(&mut self, _done: Bytes, _total: Bytes) {}
}

impl<F: FnMut(Finding)> Listener for F {
    fn finding(&mut self, finding: Finding) {
        self(finding);
    }
}

/// How thorough a check is.
#[derive(Clone, Copy, Debug)]
pub struct CheckSettings {
    /// Memory for counts and buffers.
    pub memory_bytes: u64,
    /// Read every block that has a fingerprint or checksum and compare.
    pub data: bool,
}

/// What a volume holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Logical blocks that map to a block.
    pub mapped: u64,
    /// Logical blocks written as zeros.
    pub zero: u64,
    /// Logical blocks whose entry is lost, or stands in a sector that is damaged or cannot be read.
    pub lost: u64,
    /// Logical blocks never written, or discarded.
    pub unmapped: u64,
    /// Blocks with one link from the map.
    pub unique: u64,
    /// Blocks with several links from the map.
    pub shared: u64,
    /// Blocks that only their fingerprint keeps.
    pub fingerprint_only: u64,
    /// Blocks without a link whose count says otherwise.
    pub garbage: u64,
    /// Blocks without a link whose count is not known.
    pub unknown: u64,
    /// Blocks without a link and with a count of 0.
    pub free: u64,
    /// Blocks whose content was compared.
    pub compared: u64,
    /// Blocks in use that nothing can be compared with.
    pub not_comparable: u64,
}

/// The outcome of a check.
#[derive(Clone, Debug)]
pub struct Report {
    pub superblock: Superblock,
    pub counts: Counts,
    /// How many findings there were of each severity.
    pub damage: u64,
    pub garbage: u64,
    pub notes: u64,
    /// How often the map was gone through.
    pub passes: u64,
    pub bytes_read: Bytes,
}

impl Report {
    /// No finding but garbage that a crash explains, and notes.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damage == 0
    }
}

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

/// What a crash in the middle of an update leaves: sectors of two generations.
const fn is_torn(state: &CopyState) -> bool {
    matches!(state, CopyState::Bad(SuperblockError::Checksum { .. }))
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
