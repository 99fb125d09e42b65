//! What was said to the owner of a volume, and when.

use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Kept at most; older ones are in the log.
pub(super) const KEPT_MAX: usize = 50;

/// Something that was said, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// In UTC, such as `2026-11-25 23:01:18`.
    pub at: String,
    pub text: String,
}

impl Said {
    /// Said now.
    #[must_use]
    pub fn now(text: impl Into<String>) -> Self {
        let mut at = String::new();
        // As the log has it, without the fraction of the second.
        let _ = tracing_subscriber::fmt::time::SystemTime.format_time(&mut Writer::new(&mut at));
        at.truncate("2026-11-25T23:01:18".len());
        Self { at: at.replace('T', " "), text: text.into() }
    }

    /// In a line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} UTC: {}", self.at, self.text)
    }
}
