//! The history of a run, kept only when a run is replayed for its history: runs are deterministic, so a violation is found first and told later.
//!
//! A branch that ends well is forgotten, so what is left at the end is the path to the violation. One run at a time is recorded in a process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lines<T>(f: impl FnOnce(&mut Vec<String>) -> T) -> T {
    f(&mut LINES.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Whether lines are kept.
#[must_use]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins to keep lines.
pub fn begin() {
    lines(Vec::clear);
    ON.store(true, Ordering::Relaxed);
}

/// Stops, and hands back what was kept.
#[must_use]
pub fn end() -> Vec<String> {
    ON.store(false, Ordering::Relaxed);
    lines(std::mem::take)
}

/// Appends a line.
pub fn push(line: String) {
    lines(|all| all.push(line));
}

/// Where the history stands now.
#[must_use]
pub fn mark() -> usize {
    if on() { lines(|all| all.len()) } else { 0 }
}

/// Forgets what came after `mark`.
pub fn forget(mark: usize) {
    if on() {
        lines(|all| all.truncate(mark));
    }
}

/// Appends a line where lines are kept; else formats nothing.
macro_rules! record {
    ($($arg:tt)*) => {
        if $crate::record::on() {
            $crate::record::push(format!($($arg)*));
        }
    };
}
pub(crate) use record;
