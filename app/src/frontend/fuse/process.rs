//! The preparations of a process before I/O may depend on it.

use crate::error::Error;
use rustix::mm::MlockAllFlags;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Prepares this process for I/O that depends on it: memory reclaim never waits for it, and the kernel does not choose it when memory runs
/// out. Supervisor and server call it before they start threads. Returns the names of the calls that the kernel refused (without the
/// privilege).
#[must_use]
pub fn prepare_process() -> Vec<&'static str> {
    let mut refused = Vec::new();
    // Reclaim on behalf of this process must not write to the very device that it serves.
    if rustix::process::configure_io_flusher_behavior(true).is_err() {
        refused.push("prctl(PR_SET_IO_FLUSHER)");
    }
    // Used pages stay in memory: a page that had to be read back first could be waiting for this process.
    if rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_err() {
        refused.push("mlockall");
    }
    if std::fs::write("/proc/self/oom_score_adj", "-1000").is_err() {
        refused.push("oom_score_adj");
    }
    refused
}

/// Ignores SIGTERM and SIGINT: a supervised server ends with its session, and only the supervisor is asked to end that. (A service manager
/// that signals all processes of a unit would otherwise end the server below a mounted file system.)
///
/// # Errors
/// When the system refuses.
pub fn ignore_stop_signals() -> Result<(), Error> {
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, std::sync::Arc::default())
            .map_err(|e| Error::System { what: "cannot ignore signals".into(), source: e })?;
    }
    Ok(())
}
