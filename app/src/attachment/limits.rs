//! The limits of a process (`ulimit`), which the processes of an attachment inherit. They are looked at before anything is made: a server
//! that meets one later fails its clients.

use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

/// The most descriptors that a server has open, clients of NBD apart, with some to spare.
const DESCRIPTORS: u64 = 96;
/// The most that a server writes into a file of the run directory: its acknowledgement journal, and its log.
const OWN_FILE_BYTES: u64 = 64 << 20;

/// Raises the limits as far as this process may, and checks that a server of the store at `path` can work within them. `bytes`: the length
/// of a store in a file.
///
/// # Errors
/// When one of them is too low.
pub fn prepare(path: &Path, bytes: u64) -> Outcome {
    let files = raise(Resource::Nofile);
    if files.is_some_and(|limit| limit < DESCRIPTORS) {
        let limit = files.unwrap_or_default();
        let message = format!("this process may have {limit} files open (`ulimit -Hn`), and a server needs {DESCRIPTORS}");
        return Err(Failed::new(Exit::System, message).next("Raise that limit where it is set."));
    }
    let size = raise(Resource::Fsize);
    let needed = bytes.max(OWN_FILE_BYTES);
    if size.is_some_and(|limit| limit < needed) {
        let limit = Size(size.unwrap_or_default());
        let message = format!("this process may write files of {limit} (`ulimit -Hf`), and {} needs {}", path.display(), Size(needed));
        return Err(Failed::new(Exit::System, message).next("Raise that limit where it is set: writes past it would fail."));
    }
    Ok(())
}

/// Whether this much memory may be locked, as far as the limit goes; raises it as far as this process may.
#[must_use]
pub fn may_lock(bytes: u64) -> bool {
    raise(Resource::Memlock).is_none_or(|limit| limit >= bytes)
}

/// Raises a limit as far as this process may. Returns it; none where there is none.
fn raise(resource: Resource) -> Option<u64> {
    let limit = getrlimit(resource);
    if limit.current != limit.maximum {
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    }
    getrlimit(resource).current
}
