//! The process that keeps a listening socket, by which clients of NBD find a volume.
//!
//! 1. The socket is there before the first server and after the last one, at one address. Clients that come while there is no server wait
//!    in it.
//! 2. The end begins when the socket is shut down, by a server that was asked to detach or by this process: the kernel keeps that state,
//!    whichever process dies. A server that finds it shut down closes its volume and ends.
//! 3. The socket is in use from the moment that the first server is ready; a death before that is a failed start.

use super::listen::Listening;
use super::plan::Details;
use crate::error::Error;
use crate::frontend::servers::Servers;
use crate::supervision::lent::{Adoption, Handover};
use crate::supervision::limit::DeathLimit;
use crate::supervision::running::{Ending, Running};
use crate::supervision::signals::Signals;
use crate::supervision::start::Start;
use crate::supervision::watch::{Attachment, SupervisionError, run};
use std::os::fd::OwnedFd;

/// Keeps the socket of a plan, from the beginning or after a dead supervisor.
///
/// # Errors
/// See [`SupervisionError`].
pub fn supervise(mut servers: Servers<'_>, mut details: Details, adoption: Option<Adoption>) -> Result<(), SupervisionError> {
    let signals = Signals::new()?;
    let (listening, adopted) = match adoption {
        None => {
            let listening = Listening::at(&details.listen)?;
            details.place = Some(listening.place().clone());
            servers.plan.frontend.set_details(&details);
            (listening, None)
        }
        Some(Adoption { kept, ready, server }) => {
            tracing::info!("adopted server {}", server.pid);
            let incomplete = || Error::Setting("the plan does not say where it listens".into());
            (details.listening(kept).ok_or_else(incomplete)?, Some(Running::adopted(server, Some(ready))))
        }
    };
    let location = listening.place().uri(&details.export);
    let mut socket = Socket { servers, listening, location, is_attached: false };
    if adopted.is_some() && socket.servers.recorded().is_some() {
        socket.attached();
    }
    let ended = run(&mut socket, &signals, DeathLimit::default(), adopted);
    socket.listening.end();
    if let Err(error) = socket.listening.place().remove_file() {
        tracing::warn!(%error, "at the end");
    }
    ended
}

struct Socket<'a> {
    servers: Servers<'a>,
    listening: Listening,
    location: String,
    is_attached: bool,
}

impl Socket<'_> {
    fn attached(&mut self) {
        self.is_attached = true;
        self.servers.attached(self.location.clone());
    }
}

impl Attachment for Socket<'_> {
    fn server(&mut self, ready: &OwnedFd, supervisor: &OwnedFd) -> Start {
        let mut command = self.servers.next_server();
        Handover { kept: vec![self.listening.descriptor()], ready, supervisor }.lend_to(&mut command);
        command
    }

    fn word(&mut self, server: u32) -> Option<i32> {
        self.servers.word(server)
    }

    fn is_over(&self) -> bool {
        // Where nothing was served, nothing has to be closed.
        self.is_attached && self.listening.is_over()
    }

    fn finish(&mut self) -> Result<(), SupervisionError> {
        if self.is_attached { Ok(()) } else { Err(SupervisionError::Stopped) }
    }

    fn admit_replacement(&mut self, ending: Ending) -> Result<(), SupervisionError> {
        if self.is_attached {
            return Ok(());
        }
        Err(if self.listening.is_over() { SupervisionError::Stopped } else { SupervisionError::FailedStart { ending } })
    }

    fn replaced(&mut self, dead: u32, ending: Ending) {
        if ending.is_orderly() {
            return tracing::info!("server {dead} gave way to the next one");
        }
        tracing::info!("Replaced {{ dead: {dead}, ending: {ending:?} }}");
    }

    fn ready(&mut self, server: u32) -> Result<(), SupervisionError> {
        tracing::info!("server {server} is ready");
        // A server that was asked to end before it was ready serves nobody.
        if !self.is_attached && !self.listening.is_over() {
            self.attached();
        }
        Ok(())
    }

    fn is_upgraded(&self) -> bool {
        self.servers.is_upgraded
    }

    fn stop(&mut self) {
        tracing::info!("asked to end");
        self.listening.end();
    }

    fn restore_files(&mut self) {
        if self.is_attached {
            self.attached();
        }
    }

    fn advance(&mut self, _server: &mut Running) -> Result<(), SupervisionError> {
        Ok(())
    }
}
