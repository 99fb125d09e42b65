//! The progress of an opening: on request, and by notices where it takes long.

use super::reading::Reading;
use super::verify::Verification;
use super::{Opening, State};
use crate::interface::{Notice, Progress};
use crate::io::Io;
use crate::settings::Settings;
use crate::tables::Tables;

impl Opening {
    /// The progress, if a log is read.
    pub fn progress(&self, tables: &Tables, settings: &Settings) -> Option<Progress> {
        let units = self.units_read;
        if units == 0 {
            return None;
        }
        let committed = || tables.committed.as_ref().map_or(0, |committed| committed.records.len());
        let (ahead, live) = match &self.state {
            State::Reading(Reading { scan, live, .. }) => (Some(scan.ahead()), live.len()),
            State::Overflowing(Reading { scan, .. }) => (Some(scan.ahead()), committed()),
            State::Verifying(Verification { live, .. }) => (None, live.len()),
            State::Ending(_) => (None, committed()),
        };
        let units_most = ahead.map_or(units, |ahead| settings.knobs.checkpoint_beyond.max(units + ahead));
        Some(Progress { units, units_most, records: live + self.overflowed, records_on_pages: self.overflowed })
    }

    /// Reports the progress if it is time to.
    pub(super) fn report_progress(&mut self, io: &mut Io, tables: &Tables, settings: &Settings) {
        if self.reports.is_due(io.now()) {
            self.progress(tables, settings).into_iter().for_each(|progress| io.notice(Notice::Opening(progress)));
        }
    }
}
