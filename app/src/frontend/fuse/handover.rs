//! What passes from the supervisor of a session to its children, and from a server to the supervisor after that.

use super::wire::replies;
use crate::error::Error;
use crate::supervision::handover::{Ready, inherit_argument, inherit_list, list};
use crate::supervision::running::own_pidfd;
use crate::supervision::start::Start;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What a server is lent.
#[derive(Debug)]
pub struct Handover<'a> {
    pub(super) channels: &'a [OwnedFd],
    pub(super) ready: &'a OwnedFd,
    /// A pidfd of the supervisor.
    pub(super) supervisor: &'a OwnedFd,
    pub(super) resend: bool,
}

impl Handover<'_> {
    /// Adds it to the server's command line, to be understood there by [`Inherited::from_arguments`].
    pub fn lend_to(&self, command: &mut Start) {
        command.lend(&self.channels.iter().chain([self.ready, self.supervisor]).collect::<Vec<_>>());
        command.args(["--channels".into(), OsString::from(list(self.channels))]);
        command.args(["--ready".into(), self.ready.as_raw_fd().to_string()]);
        command.args(["--supervisor".into(), self.supervisor.as_raw_fd().to_string()]);
        if self.resend {
            command.arg("--resend");
        }
    }
}

/// The descriptor that the command inherits which makes the loop device: the root directory of the file system.
#[derive(Debug)]
pub struct Hands<'a> {
    pub(super) root: &'a OwnedFd,
}

impl Hands<'_> {
    /// Adds it to the command line, to be understood there by [`Self::from_arguments`].
    pub fn lend_to(&self, command: &mut Start) {
        command.lend(&[self.root]);
        command.args(["--root".into(), self.root.as_raw_fd().to_string()]);
    }

    /// The file system's root directory, which the argument `--root` names. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When it names no descriptor: the command line is for supervisors only.
    pub fn from_arguments(root: RawFd) -> Result<OwnedFd, Error> {
        inherit_argument("--root", root)
    }
}

/// What a server finds in its hands.
#[derive(Debug)]
pub struct Inherited {
    /// For [`Config`](super::Config).
    pub channels: Vec<OwnedFd>,
    pub ready: Ready,
    /// A pidfd of its supervisor.
    pub supervisor: OwnedFd,
}

impl Inherited {
    /// Takes what the arguments `--channels`, `--ready` and `--supervisor` name. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When they name no descriptors: the command line is for supervisors only.
    pub fn from_arguments(channels: &str, ready: RawFd, supervisor: RawFd) -> Result<Self, Error> {
        Ok(Self {
            channels: inherit_list("--channels", channels)?,
            ready: Ready::from_argument(ready)?,
            supervisor: inherit_argument("--supervisor", supervisor)?,
        })
    }

    /// What the next supervisor needs of it.
    ///
    /// # Errors
    /// When the system refuses a copy.
    pub fn legacy(&self, resend: bool) -> Result<Legacy, Error> {
        let copies: std::io::Result<Vec<OwnedFd>> = self.channels.iter().map(OwnedFd::try_clone).collect();
        let channels = copies.map_err(|source| Error::System { what: "cannot copy a descriptor".into(), source })?;
        Ok(Legacy { channels, server: own_pidfd()?, resend })
    }
}

impl Inherited {
    /// Whether the kernel can send again what a server has taken and not answered. It does so.
    #[must_use]
    pub fn can_resend(&self) -> bool {
        self.channels.first().is_some_and(|first| rustix::io::write(first, &replies::resend()).is_ok())
    }
}

/// What a server lends to the supervisor that it starts when its own is dead.
#[derive(Debug)]
pub struct Legacy {
    channels: Vec<OwnedFd>,
    /// A pidfd of this server.
    server: OwnedFd,
    resend: bool,
}

impl Legacy {
    /// Adds it to the supervisor's command line, to be understood there by [`super::supervisor::Adoption::from_arguments`].
    pub fn lend_to(&self, command: &mut Start) {
        command.lend(&self.channels.iter().chain([&self.server]).collect::<Vec<_>>());
        command.args(["--channels".into(), OsString::from(list(&self.channels))]);
        command.args(["--server".into(), std::process::id().to_string()]);
        command.args(["--server-fd".into(), self.server.as_raw_fd().to_string()]);
        if self.resend {
            command.arg("--resend");
        }
    }
}
