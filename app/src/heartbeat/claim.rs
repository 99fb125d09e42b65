//! Claiming a guarded volume, keeping the claim, and giving it up.

use super::watch::{Here, Pause, Purpose, WAIT_INTERVALS, failed, in_use, interval, look, read, wait_for_the_dead, without_direct_io};
use crate::device::backing::Backing;
use crate::exit::{Failed, Outcome};
use onefold_engine::buffer::BufferMut;
use onefold_engine::format::{GUARD_AT, Guard, GuardState, Superblock};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A claim: the guard block is this server's, as long as the server finds its own last beat there.
pub struct Claim {
    backing: Arc<Backing>,
    written: Guard,
    interval: Duration,
}

/// The reason why a claim is gone.
#[derive(Debug)]
pub enum Lost {
    /// Another server has written the block, which stays as it is.
    Ousted,
    Failed(io::Error),
}

impl Lost {
    /// The message to the user of a server that does not serve for this reason.
    #[must_use]
    pub fn refuses(self, backing: &Backing) -> Failed {
        match self {
            Self::Ousted => in_use(
                format!("{} is in use: a server of another host has claimed it, too", backing.facts().path.display()),
                "Detach the volume on that host; where none serves it, attach it again here.",
            ),
            Self::Failed(error) => failed(backing, "confirm", error),
        }
    }
}

impl Claim {
    /// Claims a volume for writing; none where it has no guard. The superblock may have changed meanwhile: the caller reads it again and
    /// [confirms](Self::confirm) the claim before anything is written, or [releases](Self::release) it where that fails.
    ///
    /// # Errors
    /// When a server of another host has it, the block cannot be written, or the wait was interrupted.
    pub fn make(backing: &Arc<Backing>, superblock: &Superblock, pause: Pause<'_>) -> Outcome<Option<Self>> {
        if !superblock.is_guarded() {
            return Ok(None);
        }
        if !backing.facts().is_direct {
            return Err(without_direct_io(backing));
        }
        let here = Here::of(backing.facts().identity)?;
        let found = look(backing, &superblock.origin);
        wait_for_the_dead(backing, superblock, here, found, pause)?;
        let claim = Self { backing: backing.clone(), written: here.claimed(superblock, found)?, interval: interval(superblock) };
        claim.write().map_err(|e| failed(backing, "write", e))?;
        if here.intervals(found, Purpose::Claim) > 0 {
            tracing::info!(path = %backing.facts().path.display(), "the volume is claimed: waiting to see whether the claim stands");
            if let Err(ended) = pause(claim.interval * WAIT_INTERVALS) {
                claim.release();
                return Err(ended);
            }
        }
        Ok(Some(claim))
    }

    /// Checks that the claim stands, and beats for the first time: the last step before the volume is opened.
    ///
    /// # Errors
    /// When another server has written the block, or the device fails.
    pub fn confirm(&mut self) -> Outcome {
        self.beat().map_err(|lost| lost.refuses(&self.backing))
    }

    /// Writes the block anew, where it still holds the last beat.
    ///
    /// # Errors
    /// When the claim is gone, or the device fails.
    pub fn beat(&mut self) -> Result<(), Lost> {
        self.put(GuardState::Served)
    }

    /// Marks the volume as free, where the claim still stands: its server has closed it, or never served it.
    pub fn release(mut self) {
        if let Err(lost) = self.put(GuardState::Free).and_then(|()| self.backing.flush().map_err(Lost::Failed)) {
            tracing::warn!(?lost, "the guard block was not freed: another host will wait before it serves the volume");
        }
    }

    fn put(&mut self, state: GuardState) -> Result<(), Lost> {
        let found = read(&self.backing, &self.written.uuid).map_err(Lost::Failed)?;
        if found != Some(self.written) {
            return Err(Lost::Ousted);
        }
        self.written = Guard { state, ..self.written.next() };
        self.write().map_err(Lost::Failed)
    }

    /// Returns the interval of the block's writes.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    fn write(&self) -> io::Result<()> {
        let mut buffer = BufferMut::zeroed(1);
        self.written.encode(buffer.block_mut(0));
        self.backing.write(GUARD_AT.get(), &buffer)
    }
}

impl Here {
    /// Returns the block that claims a volume where this one was found.
    fn claimed(self, superblock: &Superblock, found: Option<Guard>) -> Outcome<Guard> {
        let mut server = [0; 16];
        getrandom::fill(&mut server).map_err(|e| Failed::system("no random numbers", e))?;
        let sequence = found.map_or(0, |guard| guard.sequence);
        let guard = Guard { sequence, ..self.new_guard(superblock.origin) };
        Ok(Guard { server, state: GuardState::Served, ..guard.next() })
    }
}
