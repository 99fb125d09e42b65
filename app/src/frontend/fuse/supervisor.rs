//! The process that keeps a session alive while servers come and go.
//!
//! 1. It does as little as it can: mount, start a server, wait. It never touches the file system that it keeps, takes no request, and holds
//!    no lock, so that nothing a server or client does can stop or kill it.
//! 2. A server that ends with exit status 0 has seen the session's end: it is not replaced. Any other end is a death.
//! 3. A death before the first *ready* is a failed start and is handed to the caller, not repeated.
//! 4. Deaths are replaced at a bounded rate: past it, the session is given up, and its users get I/O errors instead of silence.

use super::session::Session;
use crate::frontend::Error;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, FdFlags};
use rustix::mm::MlockAllFlags;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What to supervise.
#[derive(Clone, Debug)]
pub struct Plan {
    /// An empty directory of the session's own; made where it does not exist, removed at the end.
    pub mountpoint: PathBuf,
    /// What /proc/mounts shows as its source.
    pub source: String,
    /// Threads of each server.
    pub threads: usize,
    pub limit: DeathLimit,
    /// Act as though the kernel could not send requests again (for tests and for measuring what that costs).
    pub without_resend: bool,
}

/// How many deaths within how long make the supervisor give up.
#[derive(Clone, Copy, Debug)]
pub struct DeathLimit {
    pub deaths: usize,
    pub within: Duration,
}

impl Default for DeathLimit {
    fn default() -> Self {
        Self { deaths: 5, within: Duration::from_secs(10) }
    }
}

/// What happens, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file system is mounted. Without `resend`, the death of a server ends the session with I/O errors.
    Mounted { resend: bool },
    /// A server answers requests.
    Ready { server: u32 },
    /// A server died and another takes its place.
    Replaced { dead: u32, status: ExitStatus },
    /// Somebody sent SIGTERM or SIGINT, and the command that detaches was started.
    Detaching,
    /// That command failed: the device is in use, and goes on working.
    DetachFailed { status: ExitStatus },
}

/// Why supervision ended, other than by the session's end.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    #[error(transparent)]
    Setup(#[from] Error),
    /// The first server failed before it was ready; it has said why itself. Its exit code, if it had one.
    #[error("the server did not start ({status})")]
    FailedStart { status: ExitStatus },
    #[error(
        "the server died {deaths} times within {within:?} ({status} at last): gave up, and {mountpoint} with its loop device fails all I/O"
    )]
    GaveUp { deaths: usize, within: Duration, status: ExitStatus, mountpoint: String },
    #[error(
        "the server died ({status}), and this kernel cannot send its requests again (Linux 6.9 can): {mountpoint} with its loop device fails all I/O"
    )]
    NoResend { status: ExitStatus, mountpoint: String },
    #[error("stopped by a signal before the server was ready")]
    Stopped,
}

/// The descriptors that a server inherits, as arguments of its command line.
#[derive(Clone, Debug)]
pub struct Handover {
    channels: Vec<RawFd>,
    ready: RawFd,
}

impl Handover {
    /// To be added to the server's command line, and understood there by [`Inherited::from_arguments`].
    #[must_use]
    pub fn arguments(&self) -> [OsString; 4] {
        let channels: Vec<_> = self.channels.iter().map(ToString::to_string).collect();
        ["--channels".into(), channels.join(",").into(), "--ready".into(), self.ready.to_string().into()]
    }
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
        let misused = |what: String| Error::Setting(format!("{what}: this command is started by `onefold attach` only"));
        let numbers: Result<Vec<RawFd>, _> = channels.split(',').map(str::parse).collect();
        let numbers = numbers.map_err(|_| misused(format!("--channels {channels}")))?;
        let mut taken = Vec::new();
        for number in &numbers {
            taken.push(inherit(*number).ok_or_else(|| misused(format!("--channels {channels}: {number} is no open descriptor")))?);
        }
        let ready = inherit(ready).ok_or_else(|| misused(format!("--ready {ready} is no open descriptor")))?;
        Ok(Self { channels: taken, ready: Ready(ready) })
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

/// Mounts, starts servers, and returns when the session has ended. `server` gives the command that serves (it must hand
/// [`Handover::arguments`] on), `detach` the one that ends the session on SIGTERM or SIGINT.
///
/// # Errors
/// See [`Ended`]. Whatever happened, the mount is gone afterwards.
pub fn supervise(
    plan: &Plan,
    server: &mut dyn FnMut(&Handover) -> Command,
    detach: &mut dyn FnMut() -> Command,
    report: &mut dyn FnMut(Event),
) -> Result<(), Ended> {
    let signals = Signals::new()?;
    let made = !plan.mountpoint.exists();
    std::fs::create_dir_all(&plan.mountpoint).map_err(|e| io_error(format!("cannot make {}", plan.mountpoint.display()), e))?;
    let result = Session::mount(&plan.source, &plan.mountpoint, plan.threads).map_err(Ended::from).and_then(|session| {
        let resend = session.can_resend() && !plan.without_resend;
        report(Event::Mounted { resend });
        Watch { plan, session, resend, signals, deaths: VecDeque::new(), detaching: None, was_ready: false }.run(server, detach, report)
    });
    if made {
        let _ = std::fs::remove_dir(&plan.mountpoint);
    }
    result
}

fn io_error(what: String, source: std::io::Error) -> Error {
    Error::System { what, source }
}

/// Signals as bytes in pipes, so that one poll waits for all that can happen.
struct Signals {
    child: OwnedFd,
    stop: OwnedFd,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        let pipe_for = |signals: &[i32]| -> std::io::Result<OwnedFd> {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        let error = |e| io_error("cannot watch for signals".into(), e);
        Ok(Self { child: pipe_for(&[SIGCHLD]).map_err(error)?, stop: pipe_for(&[SIGTERM, SIGINT]).map_err(error)? })
    }
}

struct Watch<'a> {
    plan: &'a Plan,
    session: Session,
    resend: bool,
    signals: Signals,
    /// When servers died, the last [`DeathLimit::deaths`] of them.
    deaths: VecDeque<Instant>,
    detaching: Option<Child>,
    was_ready: bool,
}

/// A started server.
struct Server {
    child: Child,
    since: Instant,
    /// Where it says that it is ready; gone when it has said so.
    ready: Option<OwnedFd>,
}

impl Watch<'_> {
    fn run(
        mut self,
        command: &mut dyn FnMut(&Handover) -> Command,
        detach: &mut dyn FnMut() -> Command,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), Ended> {
        let mut server = self.start(command)?;
        loop {
            let seen = self.wait(server.ready.as_ref())?;
            if seen.ready && self.heard_ready(&mut server) {
                self.was_ready = true;
                report(Event::Ready { server: server.child.id() });
            }
            if seen.stop {
                if !self.was_ready {
                    let _ = server.child.kill();
                    let _ = server.child.wait();
                    return Err(Ended::Stopped);
                }
                if self.detaching.is_none() {
                    self.detaching =
                        Some(detach().process_group(0).spawn().map_err(|e| io_error("cannot start the command that detaches".into(), e))?);
                    report(Event::Detaching);
                }
            }
            if let Some(status) = self.detaching.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                self.detaching = None;
                if !status.success() {
                    report(Event::DetachFailed { status });
                }
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                if status.success() {
                    return Ok(());
                }
                let dead = server.child.id();
                self.admit_replacement(&server, status)?;
                server = self.start(command)?;
                report(Event::Replaced { dead, status });
            }
        }
    }

    /// Starts a server. Only this child gets the session's descriptors: whoever held one would keep the session alive after its end.
    fn start(&mut self, command: &mut dyn FnMut(&Handover) -> Command) -> Result<Server, Error> {
        let (ready, tell) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| io_error("cannot make a pipe".into(), e.into()))?;
        let handover = Handover { channels: self.session.channels().iter().map(AsRawFd::as_raw_fd).collect(), ready: tell.as_raw_fd() };
        let set_all = |flags| self.session.channels().iter().chain([&tell]).try_for_each(|fd| rustix::io::fcntl_setfd(fd, flags));
        set_all(FdFlags::empty()).map_err(|e| io_error("cannot hand over descriptors".into(), e.into()))?;
        // A group of its own: Ctrl-C is for the supervisor.
        let child = command(&handover).process_group(0).spawn();
        set_all(FdFlags::CLOEXEC).map_err(|e| io_error("cannot hand over descriptors".into(), e.into()))?;
        let child = child.map_err(|e| io_error("cannot start a server".into(), e))?;
        Ok(Server { child, since: Instant::now(), ready: Some(ready) })
    }

    /// Whether a server that died is to be replaced.
    fn admit_replacement(&mut self, server: &Server, status: ExitStatus) -> Result<(), Ended> {
        // It may have said *ready* and died at once.
        if !self.was_ready {
            return Err(Ended::FailedStart { status });
        }
        let mountpoint = self.plan.mountpoint.display().to_string();
        if !self.resend {
            return Err(Ended::NoResend { status, mountpoint });
        }
        let DeathLimit { deaths, within } = self.plan.limit;
        let now = Instant::now();
        self.deaths.push_back(now);
        self.deaths.retain(|&death| now.duration_since(death) <= within);
        if self.deaths.len() >= deaths {
            return Err(Ended::GaveUp { deaths, within, status, mountpoint });
        }
        // One that cannot even start is not helped by haste.
        if server.since.elapsed() < within / 10 {
            std::thread::sleep(within / 50);
        }
        Ok(())
    }

    fn heard_ready(&mut self, server: &mut Server) -> bool {
        let Some(pipe) = server.ready.take() else { return false };
        // The pipe's end without a word is a death, which the signal tells.
        rustix::io::read(&pipe, &mut [0; 1]) == Ok(1)
    }

    fn wait(&self, ready: Option<&OwnedFd>) -> Result<Seen, Error> {
        let mut polled = vec![PollFd::new(&self.signals.child, PollFlags::IN), PollFd::new(&self.signals.stop, PollFlags::IN)];
        polled.extend(ready.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        match rustix::event::poll(&mut polled, None::<&Timespec>) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(io_error("cannot wait for the server".into(), e.into())),
        }
        let happened: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut bytes = [0; 64];
        if happened[0] {
            let _ = rustix::io::read(&self.signals.child, &mut bytes);
        }
        if happened[1] {
            let _ = rustix::io::read(&self.signals.stop, &mut bytes);
        }
        Ok(Seen { stop: happened[1], ready: happened.get(2).copied().unwrap_or(false) })
    }
}

struct Seen {
    stop: bool,
    ready: bool,
}

/// Makes this process one that I/O may depend on: memory reclaim never waits for it, and the kernel does not choose it when memory runs out.
/// To be called before threads start, by supervisor and server. What is refused (without the privilege) is returned by name.
#[must_use]
pub fn prepare_process() -> Vec<&'static str> {
    let mut refused = Vec::new();
    // Reclaim on behalf of this process must not write to the very device that it serves.
    if rustix::process::configure_io_flusher_behavior(true).is_err() {
        refused.push("prctl(PR_SET_IO_FLUSHER)");
    }
    // What was touched stays: a page that had to be read back first could be waiting for this process.
    if rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_err() {
        refused.push("mlockall");
    }
    if std::fs::write("/proc/self/oom_score_adj", "-1000").is_err() {
        refused.push("oom_score_adj");
    }
    refused
}

/// Lets SIGTERM and SIGINT pass: a supervised server ends with its session, and whoever wants that asks the supervisor. (A service manager that
/// signals all processes of a unit would otherwise end the server below a mounted file system.)
///
/// # Errors
/// When the system refuses.
pub fn ignore_stop_signals() -> Result<(), Error> {
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, std::sync::Arc::default()).map_err(|e| io_error("cannot ignore signals".into(), e))?;
    }
    Ok(())
}
