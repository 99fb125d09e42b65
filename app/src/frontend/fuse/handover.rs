//! How descriptors pass from the supervisor to its children: by inheritance, named on the command line.
//!
//! 1. A child has the descriptors that it needs and no other: whoever held one of a session's would keep it alive after its end.
//! 2. In the child, a descriptor has one owner from the start, and is not inherited any further.

use super::wire::replies;
use crate::frontend::Error;
use rustix::io::FdFlags;
use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The descriptors that a server inherits, as arguments of its command line.
#[derive(Clone, Debug)]
pub struct Handover {
    pub(super) channels: Vec<RawFd>,
    pub(super) ready: RawFd,
}

impl Handover {
    /// To be added to the server's command line, and understood there by [`Inherited::from_arguments`].
    #[must_use]
    pub fn arguments(&self) -> [OsString; 4] {
        let channels: Vec<_> = self.channels.iter().map(ToString::to_string).collect();
        ["--channels".into(), channels.join(",").into(), "--ready".into(), self.ready.to_string().into()]
    }
}

/// The descriptor that the command inherits which makes the loop device.
#[derive(Clone, Debug)]
pub struct Hands {
    pub(super) root: RawFd,
}

impl Hands {
    /// To be added to the command line, and understood there by [`Self::from_arguments`].
    #[must_use]
    pub fn arguments(&self) -> [OsString; 2] {
        ["--root".into(), self.root.to_string().into()]
    }

    /// The file system's root directory, which the argument `--root` names. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When it names no descriptor: the command line is for supervisors only.
    pub fn from_arguments(root: RawFd) -> Result<OwnedFd, Error> {
        inherit(root).ok_or_else(|| misused(&format!("--root {root} is no open descriptor")))
    }
}

fn misused(what: &str) -> Error {
    Error::Setting(format!("{what}: this command is started by `onefold attach` only"))
}

/// What a server finds in its hands.
#[derive(Debug)]
pub struct Inherited {
    /// For [`Config`](super::Config).
    pub channels: Vec<OwnedFd>,
    pub ready: Ready,
}

impl Inherited {
    /// Takes what the arguments `--channels` and `--ready` name. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When they name no descriptors: the command line is for supervisors only.
    pub fn from_arguments(channels: &str, ready: RawFd) -> Result<Self, Error> {
        let numbers: Result<Vec<RawFd>, _> = channels.split(',').map(str::parse).collect();
        let numbers = numbers.map_err(|_| misused(&format!("--channels {channels}")))?;
        let mut taken = Vec::new();
        for number in &numbers {
            taken.push(inherit(*number).ok_or_else(|| misused(&format!("--channels {channels}: {number} is no open descriptor")))?);
        }
        let ready = inherit(ready).ok_or_else(|| misused(&format!("--ready {ready} is no open descriptor")))?;
        Ok(Self { channels: taken, ready: Ready(ready) })
    }
}

impl Inherited {
    /// Whether the kernel can send again what a server has taken and not answered. It does so.
    #[must_use]
    pub fn can_resend(&self) -> bool {
        self.channels.first().is_some_and(|first| rustix::io::write(first, &replies::resend()).is_ok())
    }
}

/// Says once that a server is ready.
#[derive(Debug)]
pub struct Ready(OwnedFd);

impl Ready {
    /// Tells the supervisor that requests are answered from now on.
    pub fn tell(self) {
        // A supervisor that is gone does not hear it; the session goes on without.
        let _ = rustix::io::write(&self.0, b"r");
    }
}

#[allow(unsafe_code)]
fn inherit(number: RawFd) -> Option<OwnedFd> {
    if number < 3 {
        return None;
    }
    // SAFETY: the descriptor came with the command line, nobody else in this process knows of it, and it is checked to be open before use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC) {
        Ok(()) => Some(descriptor),
        Err(_) => {
            // Not open: closing it would be a mistake.
            std::mem::forget(descriptor);
            None
        }
    }
}

/// Lets one child inherit `descriptors`, and no other: whoever held one would keep the session alive after its end. (There is one thread here.)
pub(super) fn lend<T>(descriptors: &[&OwnedFd], start: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let set_all = |flags| descriptors.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, flags));
    set_all(FdFlags::empty())?;
    let started = start();
    set_all(FdFlags::CLOEXEC)?;
    started
}
