//! What the processes of an attachment lend each other. The descriptors that clients hold on to are the front-end's to understand; that a
//! server is ready, and which process the other one is, are alike for all.

use super::handover::{Ready, inherit_argument, inherit_list, list};
use super::running::{Adopted, own_pidfd};
use super::start::Start;
use crate::error::Error;
use std::os::fd::{OwnedFd, RawFd};

/// What a supervisor lends to each of its servers.
#[derive(Debug)]
pub struct Handover<'a> {
    /// What clients hold on to.
    pub kept: Vec<&'a OwnedFd>,
    /// An event on which the server says that it is ready.
    pub ready: &'a OwnedFd,
    /// A pidfd of the supervisor.
    pub supervisor: &'a OwnedFd,
}

impl Handover<'_> {
    /// Adds it to the server's command line, to be understood there by [`Lent::from_arguments`].
    pub fn lend_to(&self, command: &mut Start) {
        lend_kept(command, &self.kept);
        command.lend_as("--ready", self.ready);
        command.lend_as("--supervisor", self.supervisor);
    }
}

/// What a server is lent by its supervisor.
#[derive(Debug)]
pub struct Lent {
    /// What clients hold on to.
    pub kept: Vec<OwnedFd>,
    pub ready: Ready,
    /// A pidfd of the supervisor.
    pub supervisor: OwnedFd,
}

impl Lent {
    /// Takes what the arguments `--kept`, `--ready` and `--supervisor` name. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When they name no descriptors: the command line is for supervisors only.
    pub fn from_arguments(kept: &str, ready: RawFd, supervisor: RawFd) -> Result<Self, Error> {
        Ok(Self {
            kept: inherit_list("--kept", kept)?,
            ready: Ready::from_argument(ready)?,
            supervisor: inherit_argument("--supervisor", supervisor)?,
        })
    }

    /// What the next supervisor needs of it.
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

/// What a server lends to the supervisor that it starts when its own is dead.
#[derive(Debug)]
pub struct Legacy {
    kept: Vec<OwnedFd>,
    /// The event on which this server says, or has said, that it is ready.
    ready: OwnedFd,
    /// A pidfd of this server.
    server: OwnedFd,
}

impl Legacy {
    /// Adds it to the supervisor's command line, to be understood there by [`Adoption::from_arguments`].
    pub fn lend_to(&self, command: &mut Start) {
        lend_kept(command, &self.kept.iter().collect::<Vec<_>>());
        command.lend_as("--ready", &self.ready);
        command.lend_as("--server-fd", &self.server);
        command.args(["--server", &std::process::id().to_string()]);
    }
}

/// What the supervisor after a dead one takes over.
#[derive(Debug)]
pub struct Adoption {
    /// What clients hold on to.
    pub kept: Vec<OwnedFd>,
    pub ready: OwnedFd,
    pub server: Adopted,
}

impl Adoption {
    /// Takes what the arguments `--kept`, `--ready`, `--server` and `--server-fd` name. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When they name no descriptors: the command line is for servers only.
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
