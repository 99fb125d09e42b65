//! The common parts of commands that read files: the end by a signal, what could not be read, and the kinds of failures.

use crate::exit::{Exit, Failed, Outcome};
use crate::output::complain;
use onefold_trace::scan::ScanError;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The number of malformed lines, or of things that could not be read, that are shown; further ones are only counted.
const SHOWN_MAX: u64 = 20;

/// Returns a flag that a signal sets, by which the user ends the command: half-written output is then removed. A second signal ends the
/// process at once, which may wait for its input.
///
/// # Errors
/// When the system refuses to watch signals.
pub fn stopped_by_signals() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failed::system("cannot watch for signals", e))?;
    }
    Ok(stop)
}

/// Returns a function that shows the first things that it gets, and then once that there are more.
pub fn first_shown<T: Display>(prefix: &'static str, more: &'static str) -> impl FnMut(&T) {
    let mut shown = 0;
    move |what| {
        shown += 1;
        match shown {
            ..=SHOWN_MAX => complain(format_args!("{prefix}{what}")),
            n if n == SHOWN_MAX + 1 => complain(more),
            _ => {}
        }
    }
}

/// Returns the failure of a command that reads files.
#[must_use]
pub fn unscanned(error: ScanError) -> Failed {
    let message = error.to_string();
    match error {
        ScanError::Io { source, .. } => Failed::new(of_io(&source), message),
        ScanError::NotScannable { .. } => Failed::new(Exit::Usage, message).next("Name a file, a directory or a block device."),
        ScanError::Interrupted => Failed::new(Exit::System, "interrupted; nothing was left behind"),
    }
}

/// Returns the kind of a failure of the file system.
#[must_use]
pub fn of_io(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::PermissionDenied => Exit::NotPermitted,
        _ => Exit::System,
    }
}
