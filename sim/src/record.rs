//! The history of a run, kept only when a run is replayed for its history: runs are deterministic, so a violation is found first and told later.
//!
//! A branch that ends well is forgotten, so what is left at the end is the path to the violation.

use std::cell::{Cell, RefCell};

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Whether lines are kept.
#[must_use]
pub fn on() -> bool {
    ON.get()
}

/// Begins to keep lines.
pub fn begin() {
    ON.set(true);
    LINES.take();
}

/// Stops, and hands back what was kept.
#[must_use]
pub fn end() -> Vec<String> {
    ON.set(false);
    LINES.take()
}

/// Appends a line.
pub fn push(line: String) {
    LINES.with_borrow_mut(|lines| lines.push(line));
}

/// Where the history stands now.
#[must_use]
pub fn mark() -> usize {
    LINES.with_borrow(Vec::len)
}

/// Forgets what came after `mark`.
pub fn forget(mark: usize) {
    LINES.with_borrow_mut(|lines| lines.truncate(mark));
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
