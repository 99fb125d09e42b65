//! When it is told next how far an opening is.

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
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.0;
        if is_due {
            self.0 = now.plus_ms(EVERY_MS);
        }
        is_due
    }
}
