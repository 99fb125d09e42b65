//! The loop of a supervisor: a server runs, it ends, another replaces it.
//!
//! 1. A server that ends by itself when the attachment is over has done its work, whatever the result: it is not replaced. Any other end is
//!    a death. An end by a signal is a death even then, so that another server closes the volume in order.
//! 2. A death before the first *ready* is a failed start, which the caller gets and which is not repeated.
//! 3. A server that was asked to give way, so that the volume can grow or another program can serve it, is replaced like one that died.
//!    Once one of another program is ready, the supervisor dies, so that this server starts the next one.
//! 4. Deaths are replaced at a bounded rate: past it, the attachment is given up, and its clients get errors instead of silence. Giving way
//!    is no death. (Of an adopted server only the end is seen, so its giving way counts as one.)

use super::limit::{DeathLimit, Deaths};
use super::running::{Ending, Running, die, own_pidfd};
use super::signals::Signals;
use crate::error::Error;
use crate::supervision::start::Start;
use rustix::event::EventfdFlags;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::Instant;

/// The part of an attachment that clients hold and that outlives its servers.
pub trait Attachment {
    /// Returns the command that serves. It inherits an eventfd on which it reports that it is ready, and a pidfd of this process.
    fn server(&mut self, ready: &OwnedFd, supervisor: &OwnedFd) -> Start;
    /// Returns the exit code that the server of this number has left, if it ended by itself.
    fn word(&mut self, server: u32) -> Option<i32>;
    /// Whether its end has begun: no server has new clients to wait for.
    fn is_over(&self) -> bool;
    /// Ends the attachment, after a server has ended with success. Returns the result.
    ///
    /// # Errors
    /// When the attachment was never complete.
    fn finish(&mut self) -> Result<(), SupervisionError>;
    /// Whether a server that has died may be replaced.
    ///
    /// # Errors
    /// The reason why it may not.
    fn admit_replacement(&mut self, ending: Ending) -> Result<(), SupervisionError>;
    /// Notes that another server was started instead of a dead one.
    fn replaced(&mut self, dead: u32, ending: Ending);
    /// Notes that a server answers requests.
    ///
    /// # Errors
    /// When the next step fails.
    fn ready(&mut self, server: u32) -> Result<(), SupervisionError>;
    /// Whether the server that was started last is of another program, which is to supervise, too.
    fn is_upgraded(&self) -> bool;
    /// Notes that the end is wanted.
    fn stop(&mut self);
    /// Makes the files of the attachment again, if it is complete: they may be gone.
    fn restore_files(&mut self);
    /// Does the next step, after any event.
    ///
    /// # Errors
    /// When that ends the attachment.
    fn advance(&mut self, server: &mut Running) -> Result<(), SupervisionError>;
}

/// The reason why supervision ended, other than in order.
#[derive(Debug, thiserror::Error)]
pub enum SupervisionError {
    #[error(transparent)]
    Setup(#[from] Error),
    /// The first server failed before it was ready; it has reported the reason itself.
    #[error("the server did not start ({ending})")]
    FailedStart { ending: Ending },
    /// The attachment is over, but the server could not close its volume; it has reported the reason itself.
    #[error("the server could not close its volume ({ending})")]
    FailedClose { ending: Ending },
    /// No loop device could be made; the command has reported the reason itself.
    #[error("no block device could be made ({status})")]
    FailedAttach { status: ExitStatus },
    #[error("the server died {} times within {:?} ({ending} at last): gave up, and its clients get errors", .limit.deaths, .limit.within)]
    GaveUp { limit: DeathLimit, ending: Ending },
    #[error("the server died ({ending}), and this kernel cannot send its requests again (Linux 6.9 can): the block device fails all I/O")]
    NoResend { ending: Ending },
    #[error("stopped by a signal before it was attached")]
    Stopped,
}

/// Starts a server, or goes on with `adopted`, and replaces it when it dies, until the attachment ends. `signals` has received the ends of
/// children since before the first one was started.
///
/// # Errors
/// See [`SupervisionError`].
pub fn run(
    attachment: &mut dyn Attachment,
    signals: &Signals,
    limit: DeathLimit,
    adopted: Option<Running>,
) -> Result<(), SupervisionError> {
    let own = own_pidfd()?;
    let mut deaths = Deaths::new(limit);
    let mut server = match adopted {
        Some(server) => server,
        None => start_server(attachment, &own)?,
    };
    loop {
        // An adopted server may be dead already.
        if let Some(ending) = server.ending(|pid| attachment.word(pid)) {
            match ending.code() {
                Some(0) => return attachment.finish(),
                Some(_) if attachment.is_over() => return Err(SupervisionError::FailedClose { ending }),
                _ => attachment.admit_replacement(ending)?,
            }
            if !ending.is_orderly() {
                if deaths.are_too_many(Instant::now()) {
                    return Err(SupervisionError::GaveUp { limit, ending });
                }
                // Haste does not help a server that cannot even start.
                if server.is_younger_than(limit.within / 10) {
                    std::thread::sleep(limit.within / 50);
                }
            }
            let dead = server.id();
            server = start_server(attachment, &own)?;
            attachment.replaced(dead, ending);
        }
        let (ready, end) = server.news();
        let seen = signals.wait(ready, end)?;
        if seen.stop {
            attachment.stop();
        }
        if seen.restore {
            attachment.restore_files();
        }
        if seen.ready {
            server.take_ready();
            attachment.ready(server.id())?;
            if attachment.is_upgraded() {
                tracing::info!("gives way to a supervisor of the server's program");
                die();
            }
        }
        attachment.advance(&mut server)?;
    }
}

fn start_server(attachment: &mut dyn Attachment, own: &OwnedFd) -> Result<Running, Error> {
    let ready = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
        .map_err(|e| Error::System { what: "cannot make an event".into(), source: e.into() })?;
    let child = start(&mut attachment.server(&ready, own), "serves")?;
    Ok(Running::child(child, ready))
}

/// Starts a command for a supervisor, in a group of its own: Ctrl-C is for the supervisor.
///
/// # Errors
/// When the system refuses.
pub fn start(command: &mut Start, what: &str) -> Result<Child, Error> {
    let started = command.group_of_its_own().spawn();
    started.map_err(|source| Error::System { what: format!("cannot start the command that {what}"), source })
}
