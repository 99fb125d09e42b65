//! What passes from the supervisor of a listening socket to its servers, and from a server to the supervisor after that.

use super::listen::Listening;
use crate::error::Error;
use crate::supervision::handover::{Ready, inherit_argument};
use crate::supervision::running::{Adopted, own_pidfd};
use crate::supervision::start::Start;
use std::os::fd::{OwnedFd, RawFd};

/// Lends a server what it needs, to be understood there by [`Inherited::from_arguments`].
pub fn lend_to_server(command: &mut Start, listening: &Listening, ready: &OwnedFd, supervisor: &OwnedFd) {
    command.lend_as("--listener", listening.descriptor());
    command.lend_as("--ready", ready);
    command.lend_as("--supervisor", supervisor);
}

/// What a server is lent.
#[derive(Debug)]
pub struct Inherited {
    /// The listening socket.
    pub listener: OwnedFd,
    pub ready: Ready,
    /// A pidfd of its supervisor.
    pub supervisor: OwnedFd,
}

impl Inherited {
    /// Takes what the arguments `--listener`, `--ready` and `--supervisor` name. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When they name no descriptors: the command line is for supervisors only.
    pub fn from_arguments(listener: RawFd, ready: RawFd, supervisor: RawFd) -> Result<Self, Error> {
        Ok(Self {
            listener: inherit_argument("--listener", listener)?,
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
        Ok(Legacy { listener: copy(&self.listener)?, ready: copy(self.ready.descriptor())?, server: own_pidfd()? })
    }
}

/// What a server lends to the supervisor that it starts when its own is dead.
#[derive(Debug)]
pub struct Legacy {
    listener: OwnedFd,
    /// The event on which this server says, or has said, that it is ready.
    ready: OwnedFd,
    /// A pidfd of this server.
    server: OwnedFd,
}

impl Legacy {
    /// Adds it to the supervisor's command line, to be understood there by [`Adoption::from_arguments`].
    pub fn lend_to(&self, command: &mut Start) {
        command.lend_as("--listener", &self.listener);
        command.lend_as("--ready", &self.ready);
        command.lend_as("--server-fd", &self.server);
        command.args(["--server", &std::process::id().to_string()]);
    }
}

/// What the supervisor after a dead one takes over.
#[derive(Debug)]
pub struct Adoption {
    pub listener: OwnedFd,
    pub ready: OwnedFd,
    pub server: Adopted,
}

impl Adoption {
    /// Takes what the arguments `--listener`, `--ready`, `--server` and `--server-fd` name. Call it first thing in the process, and once.
    ///
    /// # Errors
    /// When they name no descriptors: the command line is for servers only.
    pub fn from_arguments(listener: RawFd, ready: RawFd, server: u32, server_fd: RawFd) -> Result<Self, Error> {
        Ok(Self {
            listener: inherit_argument("--listener", listener)?,
            ready: inherit_argument("--ready", ready)?,
            server: Adopted::from_arguments(server, server_fd)?,
        })
    }
}
