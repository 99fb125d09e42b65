//! How long a command waits for others.

use std::time::{Duration, Instant};

/// When the time is over, if ever.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// It never is.
    pub const NEVER: Self = Self(None);

    /// After this long; a time that no clock comes to is no deadline.
    #[must_use]
    pub fn within(patience: Duration) -> Self {
        Self(Instant::now().checked_add(patience))
    }

    /// How much of it is left.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
    }
}
