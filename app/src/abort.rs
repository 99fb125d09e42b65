//! What a thread does whose panic must not be survived.

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
