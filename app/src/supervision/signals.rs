//! Signals as bytes in pipes, so that one poll waits for every event of a supervisor.

use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The signals that a supervisor receives.
#[derive(Debug)]
pub struct Signals {
    child: OwnedFd,
    stop: OwnedFd,
    restore: OwnedFd,
}

/// The events that a wait found.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// The end is wanted.
    pub stop: bool,
    /// The files of the attachment are gone, and are to be made again.
    pub restore: bool,
    /// The server reports that it is ready.
    pub ready: bool,
}

fn error(what: &str, source: std::io::Error) -> Error {
    Error::System { what: what.to_owned(), source }
}

impl Signals {
    /// Receives the ends of children, SIGTERM and SIGINT, and SIGHUP, from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> Result<Self, Error> {
        let pipe_for = |signals: &[i32]| -> std::io::Result<OwnedFd> {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        let refused = |e| error("cannot watch for signals", e);
        Ok(Self {
            child: pipe_for(&[SIGCHLD]).map_err(refused)?,
            stop: pipe_for(&[SIGTERM, SIGINT]).map_err(refused)?,
            restore: pipe_for(&[SIGHUP]).map_err(refused)?,
        })
    }

    /// Waits for a signal, for `ready`, or for `end`, which is of a server that is no child.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wait(&self, ready: Option<BorrowedFd<'_>>, end: Option<BorrowedFd<'_>>) -> Result<Awaited, Error> {
        let pipes = [&self.child, &self.stop, &self.restore];
        let mut polled: Vec<PollFd<'_>> = pipes.into_iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        polled.extend(ready.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        polled.extend(end.map(|pidfd| PollFd::from_borrowed_fd(pidfd, PollFlags::IN)));
        match rustix::event::poll(&mut polled, None::<&Timespec>) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(error("cannot wait for the server", e.into())),
        }
        let happened: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut bytes = [0; 64];
        for (pipe, _) in pipes.into_iter().zip(&happened).filter(|(_, happened)| **happened) {
            let _ = rustix::io::read(pipe, &mut bytes);
        }
        Ok(Awaited { stop: happened[1], restore: happened[2], ready: ready.is_some() && happened[3] })
    }
}
