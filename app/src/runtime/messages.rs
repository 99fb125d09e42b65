//! Messages to the owner of a volume, with their dates.

use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The largest number that is kept; older ones are in the log.
pub(super) const KEPT_MAX: usize = 50;

/// A message, and its date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The date in UTC, such as `2026-11-25 23:01:18`.
    pub at: String,
    pub text: String,
}

impl Message {
    /// Makes a message of this moment.
    #[must_use]
    pub fn now(text: impl Into<String>) -> Self {
        let mut at = String::new();
        // The form is that of the log, without the fraction of the second.
        let _ = tracing_subscriber::fmt::time::SystemTime.format_time(&mut Writer::new(&mut at));
        at.truncate("2026-11-25T23:01:18".len());
        Self { at: at.replace('T', " "), text: text.into() }
    }

    /// Formats the message in a line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} UTC: {}", self.at, self.text)
    }
}
