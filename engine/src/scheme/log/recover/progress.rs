//! How far an opening is: told to whoever asks, and by notices where it takes long.

use super::doubts::Doubting;
use super::reading::Reading;
use super::{Opening, State};
use crate::interface::{Notice, Progress};
use crate::store::Store;

impl Opening {
    /// How far it is, where it reads a log.
    pub fn progress(&self, store: &Store) -> Option<Progress> {
        let units = self.units_read;
        if units == 0 {
            return None;
        }
        let committed = || store.tables.committed.as_ref().map_or(0, |committed| committed.records.len());
        let (ahead, live) = match &self.state {
            State::Reading(Reading { walk, live, .. }) => (Some(walk.ahead()), live.len()),
            State::Spilling(Reading { walk, .. }) => (Some(walk.ahead()), committed()),
            State::Doubting(Doubting { live, .. }) => (None, live.len()),
            State::Settling(_) => (None, committed()),
        };
        let units_most = ahead.map_or(units, |ahead| store.settings.checkpoint_beyond.max(units + ahead));
        Some(Progress { units, units_most, records: live + self.spilled, records_on_pages: self.spilled })
    }

    /// A unit was read.
    pub(super) fn tell_progress(&mut self, store: &mut Store) {
        if self.telling.is_due(store.io.now) {
            self.progress(store).into_iter().for_each(|progress| store.io.notice(Notice::Opening(progress)));
        }
    }
}
