//! The descriptors that the processes of an attachment lend each other. Only the front-end understands those that clients hold; the event
//! of a ready server, and the other process, are the same for all.

use super::handover::{Ready, inherit_argument, inherit_list, list};
use super::running::{Adopted, own_pidfd};
use super::start::Start;
use crate::error::Error;
use std::os::fd::{OwnedFd, RawFd};

/// The descriptors that a supervisor lends to each of its servers.
#[derive(Debug)]
pub struct Handover<'a> {
    /// The descriptors that clients hold.
    pub kept: Vec<&'a OwnedFd>,
    /// The event by which the server reports that it is ready.
    pub ready: &'a OwnedFd,
    /// A pidfd of the supervisor.
    pub supervisor: &'a OwnedFd,
}

impl Handover<'_> {
    /// Adds it to the server's command line, where [`Lent::from_arguments`] reads it.
    pub fn lend_to(&self, command: &mut Start) {
        lend_kept(command, &self.kept);
        command.lend_as("--ready", self.ready);
        command.lend_as("--supervisor", self.supervisor);
    }
}

/// The descriptors that a server inherits from its supervisor.
#[derive(Debug)]
pub struct Lent {
    /// The descriptors that clients hold.
    pub kept: Vec<OwnedFd>,
    pub ready: Ready,
    /// A pidfd of the supervisor.
    pub supervisor: OwnedFd,
}

impl Lent {
    /// Takes the descriptors that the arguments `--kept`, `--ready` and `--supervisor` name. A process calls this first of all, and once.
    ///
    /// # Errors
    /// When they name no descriptors: only supervisors use the command line.
    pub fn from_arguments(kept: &str, ready: RawFd, supervisor: RawFd) -> Result<Self, Error> {
        Ok(Self {
            kept: inherit_list("--kept", kept)?,
            ready: Ready::from_argument(ready)?,
            supervisor: inherit_argument("--supervisor", supervisor)?,
        })
    }

    /// Returns the part that the next supervisor needs.
    ///
    /// # Errors
    /// When the system refuses a copy.
    pub fn legacy(&self) -> Result<Legacy, Error> {
        let copy = |descriptor: &OwnedFd| {
            descriptor.try_clone().map_err(|source| Error::System { what: "cannot copy a descriptor".into(), source })
        };
        let kept = self.kept.iter().map(copy).collect::<Result<_, _>>()?;
        Ok(Legacy { kept, ready: copy(self.ready.descriptor())?, server: own_pidfd()? })
    }
}

/// The descriptors that a server lends to the supervisor that it starts when its own is dead.
#[derive(Debug)]
pub struct Legacy {
    kept: Vec<OwnedFd>,
    /// The event by which this server reports, or has reported, that it is ready.
    ready: OwnedFd,
    /// A pidfd of this server.
    server: OwnedFd,
}

impl Legacy {
    /// Adds it to the supervisor's command line, where [`Adoption::from_arguments`] reads it.
    pub fn lend_to(&self, command: &mut Start) {
        lend_kept(command, &self.kept.iter().collect::<Vec<_>>());
        command.lend_as("--ready", &self.ready);
        command.lend_as("--server-fd", &self.server);
        command.args(["--server", &std::process::id().to_string()]);
    }
}

/// The descriptors that the supervisor after a dead one takes over.
#[derive(Debug)]
pub struct Adoption {
    /// The descriptors that clients hold.
    pub kept: Vec<OwnedFd>,
    pub ready: OwnedFd,
    pub server: Adopted,
}

impl Adoption {
    /// Takes the descriptors that the arguments `--kept`, `--ready`, `--server` and `--server-fd` name. A process calls this first of all,
    /// and once.
    ///
    /// # Errors
    /// When they name no descriptors: only servers use the command line.
    pub fn from_arguments(kept: &str, ready: RawFd, server: u32, server_fd: RawFd) -> Result<Self, Error> {
        Ok(Self {
            kept: inherit_list("--kept", kept)?,
            ready: inherit_argument("--ready", ready)?,
            server: Adopted::from_arguments(server, server_fd)?,
        })
    }
}

fn lend_kept(command: &mut Start, kept: &[&OwnedFd]) {
    command.lend(kept);
    command.args(["--kept", &list(kept)]);
}
