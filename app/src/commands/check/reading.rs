//! The progress of reading a backing store, and the limit of what is listed.

use onefold_engine::units::Bytes;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The number of findings that are listed; further ones are only counted.
pub(super) const LISTED_MAX: usize = 1000;

/// The progress, where somebody watches.
pub(super) struct Progress {
    is_watched: bool,
    shown: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { is_watched: std::io::stderr().is_terminal(), shown: Instant::now() }
    }

    pub(super) fn show(&mut self, done: Bytes, total: Bytes) {
        if self.is_watched && self.shown.elapsed() > Duration::from_millis(200) {
            self.shown = Instant::now();
            eprint!("\r{:3} %", (done.get() * 100 / total.get().max(1)).min(100));
            let _ = std::io::stderr().flush();
        }
    }

    /// Takes it off the screen.
    pub(super) fn end(&self) {
        if self.is_watched {
            eprint!("\r     \r");
        }
    }
}
