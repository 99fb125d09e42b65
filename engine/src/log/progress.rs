//! How far an opening is: told to whoever asks, and by notices where it takes long.

use super::walk::Walk;
use crate::engine::Engine;
use crate::interface::{Notice, Progress};
use crate::tables::Unchained;
use crate::units::Time;

/// An opening that is over sooner says nothing.
const SILENT_MS: u64 = 500;
/// Between one notice and the next.
const EVERY_MS: u64 = 1000;

/// When it is told next.
pub(super) struct Telling(Time);

impl Telling {
    /// Of an opening that begins now.
    pub fn from(now: Time) -> Self {
        Self(now.plus_ms(SILENT_MS))
    }

    /// Whether it is to be told now.
    fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.0;
        if is_due {
            self.0 = now.plus_ms(EVERY_MS);
        }
        is_due
    }
}

impl Engine {
    /// How far an opening is that reads a log; none where the volume serves, or there is none to be read.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let opening = self.recovery.opening.as_ref().filter(|opening| opening.units_read > 0)?;
        let units = opening.units_read;
        let units_most = opening.walk.as_ref().map_or(units, |walk: &Walk| self.store.settings.checkpoint_beyond.max(units + walk.ahead()));
        let live = opening
            .live
            .as_ref()
            .map(Unchained::len)
            .or_else(|| self.store.tables.committed.as_ref().map(|committed| committed.records.len()));
        let records_on_pages = opening.spilled;
        Some(Progress { units, units_most, records: live.unwrap_or(0) + records_on_pages, records_on_pages })
    }

    /// A unit was read.
    pub(super) fn tell_progress(&mut self) {
        let now = self.store.io.now;
        if self.recovery.opening.as_mut().is_some_and(|opening| opening.telling.is_due(now)) {
            self.progress().into_iter().for_each(|progress| self.store.io.notice(Notice::Opening(progress)));
        }
    }
}
