//! The way of descriptors to a process that another of its attachment starts, and that inherits them ([`Start`](super::start::Start)): the
//! command line names them. Each has one owner from the start, and is not inherited any further.

use crate::error::Error;
use rustix::io::FdFlags;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Takes the descriptor that a command line names, which is not inherited any further; none where it is not open. A process calls this
/// first of all, and once for each.
#[allow(unsafe_code)]
#[must_use]
pub fn inherit(number: RawFd) -> Option<OwnedFd> {
    if number < 3 {
        return None;
    }
    // SAFETY: the descriptor came with the command line, nothing else in this process knows it, and it is checked to be open before use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC) {
        Ok(()) => Some(descriptor),
        Err(_) => {
            // It is not open: closing it would be a mistake.
            std::mem::forget(descriptor);
            None
        }
    }
}

/// Takes the descriptor that the argument `name` names.
///
/// # Errors
/// When it is not open: the command line is for this program's own processes only.
pub fn inherit_argument(name: &str, number: RawFd) -> Result<OwnedFd, Error> {
    inherit(number).ok_or_else(|| misused(&format!("{name} {number} is no open descriptor")))
}

/// Takes the descriptors that the argument `name` lists, separated by commas.
///
/// # Errors
/// Those of [`inherit_argument`].
pub fn inherit_list(name: &str, numbers: &str) -> Result<Vec<OwnedFd>, Error> {
    let number = |text: &str| text.parse().map_err(|_| misused(&format!("{name} {numbers}")));
    numbers.split(',').map(|text| inherit_argument(name, number(text)?)).collect()
}

/// Formats a list for [`inherit_list`].
#[must_use]
pub fn list(descriptors: &[&OwnedFd]) -> String {
    descriptors.iter().map(|descriptor| descriptor.as_raw_fd().to_string()).collect::<Vec<_>>().join(",")
}

fn misused(what: &str) -> Error {
    Error::Setting(format!("{what}: this command is started by `onefold attach` only"))
}

/// Reports once that a server is ready, by an event that every holder of its descriptor sees from then on.
#[derive(Debug)]
pub struct Ready(OwnedFd);

impl Ready {
    /// Takes the descriptor that the argument `--ready` names.
    ///
    /// # Errors
    /// Those of [`inherit_argument`].
    pub fn from_argument(number: RawFd) -> Result<Self, Error> {
        inherit_argument("--ready", number).map(Self)
    }

    /// Reports to the supervisor, and to each later one that inherits [`Self::descriptor`], that requests are answered from now on.
    pub fn tell(self) {
        // An event always takes this value.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Returns the event that a next supervisor waits for.
    #[must_use]
    pub const fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}
