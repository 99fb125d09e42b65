//! Step 2 of a request's road: events in, actions out. Every thread, clock and buffer of a volume belongs to this module.

pub mod arena;
pub mod passthrough;
pub mod pool;
pub mod ring;

/// Ends the process when a panic passes through its scope: a bug in there leaves state that must serve nobody. What was synced is safe, as
/// after any crash.
pub struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
