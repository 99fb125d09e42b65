//! A guard for threads whose panic must not be survived.

/// Ends the process when a panic passes through its scope, since a bug there leaves state that must serve nobody. Synced data is safe, as
/// after any crash.
pub struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
