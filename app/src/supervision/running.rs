//! A server that a supervisor watches: its own child, or one that it has adopted.

use super::handover::inherit_argument;
use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Returns a pidfd of this process, for those that watch it.
///
/// # Errors
/// When the kernel has no pidfds (Linux 5.3 has).
pub fn own_pidfd() -> Result<OwnedFd, Error> {
    rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .map_err(|e| Error::System { what: "cannot make a descriptor of this process".into(), source: e.into() })
}

/// The signal by which a server gives way: nothing handles it, so it ends the process at once, like a kill, and the supervisor sees by it
/// that nothing has failed.
const GIVES_WAY: Signal = Signal::USR2;

/// Ends this process as a kill would: the other processes of its attachment go on without it, and replace it.
pub fn die() -> ! {
    end_by(Signal::KILL)
}

/// Ends this server as a kill would, but in order: its supervisor replaces it, and does not count a death.
pub fn give_way() -> ! {
    end_by(GIVES_WAY)
}

fn end_by(signal: Signal) -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    std::process::abort()
}

/// Whether the process of a pidfd has ended.
#[must_use]
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Only its end ever makes it readable.
    matches!(rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&at_once)), Ok(1..))
}

/// Waits until the process of a pidfd has ended.
pub fn wait_end(pidfd: &OwnedFd) {
    while !matches!(rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None), Ok(1..)) {}
}

/// A server that another supervisor has started, which is dead.
#[derive(Debug)]
pub struct Adopted {
    /// The number in messages.
    pub pid: u32,
    pub pidfd: OwnedFd,
}

#[derive(Debug)]
enum Process {
    Child(Child),
    Adopted(Adopted),
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// The time of its start; none for an adopted one, which counts as old.
    since: Option<Instant>,
    /// The event by which it reports that it is ready; gone when it has done so, and where nobody waits for that.
    ready: Option<OwnedFd>,
}

/// The end of a server, as far as its supervisor can know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Awaited(ExitStatus),
    /// The end of an adopted one, with the exit code that it has left, if it has.
    Unseen(Option<i32>),
}

impl Ending {
    /// Returns its exit code; none where it was killed.
    #[must_use]
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Awaited(status) => status.code(),
            Self::Unseen(code) => code,
        }
    }

    /// Whether it gave way to the next server, as it was asked to.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Awaited(status) if status.signal() == Some(GIVES_WAY.as_raw()))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Awaited(status) => status.fmt(f),
            Self::Unseen(Some(code)) => write!(f, "exit code {code}"),
            Self::Unseen(None) => f.write_str("unseen, without a word"),
        }
    }
}

impl Running {
    /// Returns a child that was just started and that reports on `ready`.
    #[must_use]
    pub fn child(child: Child, ready: OwnedFd) -> Self {
        Self { process: Process::Child(child), since: Some(Instant::now()), ready: Some(ready) }
    }

    /// Returns a server that another supervisor has started, with the event by which it reports, or has reported, that it is ready.
    #[must_use]
    pub fn adopted(adopted: Adopted, ready: Option<OwnedFd>) -> Self {
        Self { process: Process::Adopted(adopted), since: None, ready }
    }

    /// Returns its number, for messages.
    #[must_use]
    pub fn id(&self) -> u32 {
        match &self.process {
            Process::Child(child) => child.id(),
            Process::Adopted(adopted) => adopted.pid,
        }
    }

    /// Whether it was started less than this ago.
    #[must_use]
    pub fn is_younger_than(&self, age: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() < age)
    }

    /// Returns its end, if it has ended. `word` looks up the code that an adopted one has left.
    pub fn ending(&mut self, word: impl FnOnce(u32) -> Option<i32>) -> Option<Ending> {
        match &mut self.process {
            Process::Child(child) => child.try_wait().ok().flatten().map(Ending::Awaited),
            Process::Adopted(Adopted { pid, pidfd }) => has_ended(pidfd).then(|| Ending::Unseen(word(*pid))),
        }
    }

    /// Returns descriptors that become readable when it is ready, and when it ends: the end of a child comes as a signal.
    #[must_use]
    pub fn news(&self) -> (Option<BorrowedFd<'_>>, Option<BorrowedFd<'_>>) {
        let end = match &self.process {
            Process::Child(_) => None,
            Process::Adopted(adopted) => Some(adopted.pidfd.as_fd()),
        };
        (self.ready.as_ref().map(AsFd::as_fd), end)
    }

    /// Takes the event by which it reports, once, that it is ready.
    pub fn take_ready(&mut self) {
        self.ready = None;
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        match &mut self.process {
            Process::Child(child) => drop(child.wait()),
            Process::Adopted(adopted) => wait_end(&adopted.pidfd),
        }
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        let _ = match &self.process {
            // It is a child that nobody has waited for, so the number is still its own.
            Process::Child(child) => rustix::process::kill_process(Pid::from_child(child), signal),
            Process::Adopted(adopted) => rustix::process::pidfd_send_signal(&adopted.pidfd, signal),
        };
    }
}

impl Adopted {
    /// Takes the server that the arguments `--server` and `--server-fd` name. A process calls this first of all, and once.
    ///
    /// # Errors
    /// When they name no descriptor: only servers use the command line.
    pub fn from_arguments(pid: u32, descriptor: std::os::fd::RawFd) -> Result<Self, Error> {
        let pidfd = inherit_argument("--server-fd", descriptor)?;
        Ok(Self { pid, pidfd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn adopted(child: &Child) -> Running {
        let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
        Running::adopted(Adopted { pid: child.id(), pidfd }, None)
    }

    #[test]
    fn the_end_of_an_adopted_server_is_seen_and_its_code_is_its_word() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let mut server = adopted(&child);
        assert_eq!(server.ending(|_| unreachable!("it runs")), None);
        server.kill();
        assert_eq!(server.ending(|_| None).map(Ending::code), Some(None));
        assert_eq!(server.ending(|pid| (pid == child.id()).then_some(8)).map(Ending::code), Some(Some(8)));
        child.wait().unwrap();
        assert!(server.ending(|_| None).is_some(), "nor does it come back when it was waited for");
    }

    /// A supervisor that adopts a server that died meanwhile must not wait for news of it.
    #[test]
    fn a_server_that_is_dead_when_it_is_adopted_has_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let mut server = adopted(&child);
        wait_end(&rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap());
        assert_eq!(server.ending(|_| Some(0)).map(Ending::code), Some(Some(0)));
        child.wait().unwrap();
    }
}
