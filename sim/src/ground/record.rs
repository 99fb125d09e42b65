//! The history of a run, recorded only when a run is replayed for it: runs are deterministic, so a violation is found first and explained
//! later.
//!
//! A branch without a violation is forgotten, so that the remaining history is the path to the violation. A process records one run at a
//! time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lines<T>(f: impl FnOnce(&mut Vec<String>) -> T) -> T {
    f(&mut LINES.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Returns whether lines are recorded.
#[must_use]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins to record lines.
pub fn begin() {
    lines(Vec::clear);
    ON.store(true, Ordering::Relaxed);
}

/// Stops recording, and returns the lines.
#[must_use]
pub fn end() -> Vec<String> {
    ON.store(false, Ordering::Relaxed);
    lines(std::mem::take)
}

/// Appends a line.
pub fn push(line: String) {
    lines(|all| all.push(line));
}

/// Returns the present length of the history.
#[must_use]
pub fn mark() -> usize {
    if on() { lines(|all| all.len()) } else { 0 }
}

/// Forgets the lines after `mark`.
pub fn forget(mark: usize) {
    if on() {
        lines(|all| all.truncate(mark));
    }
}

/// Appends a line if lines are recorded; otherwise formats nothing.
macro_rules! record {
    ($($arg:tt)*) => {
        if $crate::ground::record::on() {
            $crate::ground::record::push(format!($($arg)*));
        }
    };
}
pub(crate) use record;
