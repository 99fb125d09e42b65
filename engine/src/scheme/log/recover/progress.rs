//! The progress of the reading: on request, and by notices where it takes long.

use super::log_read::records_in_memory;
use super::reading::Reading;
use super::verify::Verification;
use super::{LogReader, State};
use crate::interface::{Notice, Progress};
use crate::io::Io;
use crate::settings::Settings;
use crate::tables::Tables;

impl LogReader {
    /// The progress, once a unit was read.
    pub fn progress(&self, tables: &Tables, settings: &Settings) -> Option<Progress> {
        let (ahead, live) = match &self.state {
            State::Reading(Reading { scan, live, .. }) => (Some(scan.ahead()), live.len()),
            State::Overflowing(Reading { scan, .. }) => (Some(scan.ahead()), records_in_memory(tables)),
            State::Verifying(Verification { live, .. }) => (None, live.len()),
            State::Over => (None, records_in_memory(tables)),
        };
        let units = self.read.units;
        let units_most = ahead.map_or(units, |ahead| settings.knobs.checkpoint_beyond.max(units + ahead));
        self.read.progress(units_most, live)
    }

    /// Reports the progress if it is time to.
    pub(super) fn report_progress(&mut self, io: &mut Io, tables: &Tables, settings: &Settings) {
        if self.reports.is_due(io.now()) {
            self.progress(tables, settings).into_iter().for_each(|progress| io.notice(Notice::Opening(progress)));
        }
    }
}
