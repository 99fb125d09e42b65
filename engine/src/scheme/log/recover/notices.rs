//! The times at which an opening reports its progress.

use crate::units::Time;

/// A shorter opening reports nothing.
const SILENT_MS: u64 = 500;
/// The time between two notices.
const EVERY_MS: u64 = 1000;

/// The time of the next notice.
pub(super) struct ProgressReports(Time);

impl ProgressReports {
    /// The first notice of an opening that begins now.
    pub fn from(now: Time) -> Self {
        Self(now.plus_ms(SILENT_MS))
    }

    /// Whether a notice is due now. The next one follows later.
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.0;
        if is_due {
            self.0 = now.plus_ms(EVERY_MS);
        }
        is_due
    }
}
