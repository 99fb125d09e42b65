//! The life of an attachment: each of its processes, supervisor and server, inherits one open file that is locked.
//!
//! 1. The kernel releases the lock when the last of them has ended. So the code trusts no process number, and a volume whose server is just
//!    being replaced never looks dead.
//! 2. There is one attachment of a volume in a run directory: a second one does not get the lock.
//! 3. Only the holder of the lock removes the file. A process that gets a lock checks that the file still has the name.

use crate::error::Error;
use crate::exit::{Exit, Failed, Outcome};
use crate::supervision::handover::inherit_argument;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time that an attaching process waits for processes that were killed a moment ago, and for those that only look.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The lock of a living attachment.
#[derive(Debug)]
pub struct Session(OwnedFd);

impl Session {
    /// Begins an attachment: locks the file at `place`, and makes it where it is missing.
    ///
    /// # Errors
    /// When an attachment lives already, or the directory refuses the file.
    pub fn begin(place: &Path) -> Outcome<Self> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match try_lock(place, OFlags::CREATE) {
                Ok(Some(lock)) => return Ok(Self(lock)),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                Ok(None) => {
                    return Err(Failed::new(Exit::InUse, "another process is attaching or detaching this volume")
                        .next("`onefold list` shows what is attached. Try again."));
                }
                Err(error) => return Err(Failed::system(format!("cannot lock {}", place.display()), error)),
            }
        }
    }

    /// Takes the lock of an attachment that is over, to clear away after it; none while it lives.
    #[must_use]
    pub fn after(place: &Path) -> Option<Self> {
        try_lock(place, OFlags::CREATE).ok().flatten().map(Self)
    }

    /// Takes the descriptor that the argument `--session` names. A process calls this first of all, and once.
    ///
    /// # Errors
    /// When it names no descriptor.
    pub fn from_argument(number: RawFd) -> Result<Self, Error> {
        inherit_argument("--session", number).map(Self)
    }

    /// Returns the argument for a process that inherits [`Self::descriptor`].
    #[must_use]
    pub fn argument(&self) -> [OsString; 2] {
        ["--session".into(), self.0.as_raw_fd().to_string().into()]
    }

    /// Returns the descriptor that its processes inherit.
    #[must_use]
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Whether its file is the one at `place`.
    #[must_use]
    pub fn is_at(&self, place: &Path) -> bool {
        is_named(&self.0, place)
    }

    /// Removes its file at `place`, after everything else is cleared away.
    pub fn remove(&self, place: &Path) {
        let _ = std::fs::remove_file(place);
    }

    /// Returns a copy of the descriptor, for another thread.
    ///
    /// # Errors
    /// When too many descriptors are open.
    pub fn try_clone(&self) -> Outcome<Self> {
        self.0.try_clone().map(Self).map_err(|e| Failed::system("cannot copy a descriptor", e))
    }
}

/// Opens and locks the file at `place`; none where another process has it, or is just removing it.
fn try_lock(place: &Path, flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let file = rustix::fs::open(place, flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        other => other?,
    }
    Ok(is_named(&file, place).then_some(file))
}

/// Whether an open file is the one that has this name.
fn is_named(file: &OwnedFd, place: &Path) -> bool {
    let (open, named) = (rustix::fs::fstat(file), rustix::fs::stat(place));
    open.is_ok_and(|open| named.is_ok_and(|named| (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)))
}

/// Whether an attachment with its lock at `place` lives.
#[must_use]
pub fn is_alive(place: &Path) -> bool {
    let Ok(file) = rustix::fs::open(place, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) else { return false };
    // The lock is shared, so that two processes that look do not collide.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Waits until the attachment is over. Returns whether that came in time.
#[must_use]
pub fn wait_end(place: &Path, patience: Duration) -> bool {
    // None stands for a time that no clock reaches.
    let deadline = Instant::now().checked_add(patience);
    while is_alive(place) {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    true
}

/// Waits until the attachment is over, without looking again and again.
pub fn await_end(place: &Path) {
    while is_alive(place) {
        let Ok(file) = rustix::fs::open(place, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) else { return };
        // It comes when the last process has ended; a signal may come first.
        let _ = rustix::fs::flock(&file, FlockOperation::LockShared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervision::start::Start;

    #[test]
    fn an_attachment_lives_as_long_as_any_of_its_processes() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("id.lock");
        assert!(!is_alive(&place), "there is no file");
        let session = Session::begin(&place).unwrap();
        let mut command = Start::of("sleep");
        command.lend(&[session.descriptor()]);
        let mut child = command.arg("30").spawn().unwrap();
        assert!(is_alive(&place) && Session::after(&place).is_none());
        drop(session);
        assert!(is_alive(&place), "the other process lives");
        assert_eq!(Session::begin(&place).unwrap_err().exit, Exit::InUse);
        assert!(!wait_end(&place, Duration::from_millis(20)));
        let awaited = std::thread::spawn({
            let place = place.clone();
            move || await_end(&place)
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!awaited.is_finished());
        child.kill().unwrap();
        awaited.join().unwrap();
        assert!(wait_end(&place, Duration::MAX));
        child.wait().unwrap();
        assert!(Session::after(&place).is_some());
    }

    #[test]
    fn a_lock_on_a_file_that_was_removed_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("id.lock");
        drop(Session::begin(&place).unwrap());
        // A process that opened it before that, and locks it after, has a file without a name.
        let old = rustix::fs::open(&place, OFlags::RDWR, Mode::empty()).unwrap();
        std::fs::remove_file(&place).unwrap();
        rustix::fs::flock(&old, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(!is_alive(&place));
        let session = Session::begin(&place).unwrap();
        assert!(is_alive(&place));
        drop(session);
    }
}
