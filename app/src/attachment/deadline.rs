//! The time that a command waits for others.

use std::time::{Duration, Instant};

/// A moment after which nothing is waited for any longer, or none.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline that never comes.
    pub const NEVER: Self = Self(None);

    /// Returns the deadline after this time. A time that no clock reaches is no deadline.
    #[must_use]
    pub fn within(patience: Duration) -> Self {
        Self(Instant::now().checked_add(patience))
    }

    /// Returns the time that is left.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
    }
}
