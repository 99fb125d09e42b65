//! The process that keeps a session alive while servers come and go.
//!
//! 1. It does as little as it can: mount, start a server, wait. It never touches the file system that it keeps, takes no request, and holds
//!    no lock, so that nothing a server or client does can stop or kill it. What has to touch it is done by a child, the *hands*.
//! 2. A server that ends by itself when the session is over has done its work, well or not: it is not replaced. Any other end is a death; one
//!    by a signal is a death even then, so that the volume is closed in order by somebody.
//! 3. A death before the first *ready* is a failed start and is handed to the caller, not repeated.
//! 4. Deaths are replaced at a bounded rate: past it, the session is given up, and its users get I/O errors instead of silence.
//! 5. Once the loop device is there, it alone keeps the file system: when it goes, so do file system, server and supervisor.

use super::handover::lend;
pub use super::handover::{Handover, Hands, Inherited, Ready};
use super::loopdev::clear_dead;
pub use super::process::{ignore_stop_signals, prepare_process};
use super::session::Session;
use crate::frontend::Error;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What to supervise.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the kernel's messages call it: the volume's path.
    pub source: String,
    /// What its loop device is known by: see [`loopdev::find`](super::loopdev::find).
    pub tag: String,
    /// Threads of each server.
    pub threads: usize,
    pub limit: DeathLimit,
    /// Act as though the kernel could not send requests again (to test what happens then).
    pub without_resend: bool,
}

/// The commands that do the work, and an ear for what happens.
pub trait Crew {
    /// Serves: it takes `handover`'s arguments and understands them by [`Inherited::from_arguments`].
    fn server(&mut self, handover: &Handover) -> Command;
    /// Puts a loop device on the file system, by [`attach_loop`](super::attach_loop), and prints its path and nothing else to standard output. It
    /// takes `hands`' arguments and understands them by [`Hands::from_arguments`].
    fn hands(&mut self, hands: &Hands) -> Command;
    /// Takes the loop device away, by [`loopdev::detach`](super::loopdev::detach).
    fn detach(&mut self, device: &Path) -> Command;
    /// Something happened.
    fn report(&mut self, event: Event);
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file system is mounted. Without `resend`, the death of a server ends the session with I/O errors.
    Mounted { resend: bool },
    /// A server answers requests.
    Ready { server: u32 },
    /// There is the block device.
    Attached { device: PathBuf },
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
    /// The first server failed before it was ready; it has said why itself.
    #[error("the server did not start ({status})")]
    FailedStart { status: ExitStatus },
    /// The session is over, but the server could not close what it served; it has said why itself.
    #[error("the server could not close its volume ({status})")]
    FailedClose { status: ExitStatus },
    /// No loop device could be made; the command has said why itself.
    #[error("no block device could be made ({status})")]
    FailedAttach { status: ExitStatus },
    #[error("the server died {deaths} times within {within:?} ({status} at last): gave up, and the block device fails all I/O")]
    GaveUp { deaths: usize, within: Duration, status: ExitStatus },
    #[error("the server died ({status}), and this kernel cannot send its requests again (Linux 6.9 can): the block device fails all I/O")]
    NoResend { status: ExitStatus },
    #[error("stopped by a signal before there was a block device")]
    Stopped,
}

/// Mounts, starts servers, has the loop device made, and returns when the session has ended.
///
/// # Errors
/// See [`Ended`].
pub fn supervise(plan: &Plan, crew: &mut dyn Crew) -> Result<(), Ended> {
    let signals = Signals::new()?;
    let session = Session::mount(&plan.source, plan.threads)?;
    let resend = session.can_resend() && !plan.without_resend;
    crew.report(Event::Mounted { resend });
    let stage = Stage::Starting;
    // Here the session ends, if not before: whoever still waits for an answer gets an error.
    let ended = Watch { plan, crew, session, resend, signals, deaths: VecDeque::new(), stage, stop: false }.run();
    if matches!(ended, Err(Ended::GaveUp { .. } | Ended::NoResend { .. })) {
        clear_dead(&plan.tag);
    }
    ended
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
    crew: &'a mut dyn Crew,
    session: Session,
    resend: bool,
    signals: Signals,
    /// When servers died, as far back as the limit looks.
    deaths: VecDeque<Instant>,
    stage: Stage,
    /// Somebody wants the end.
    stop: bool,
}

/// A started server.
struct Server {
    child: Child,
    since: Instant,
    /// Where it says that it is ready; gone when it has said so.
    ready: Option<OwnedFd>,
}

/// How far the session is.
enum Stage {
    /// The first server is not ready yet.
    Starting,
    /// The loop device is being made.
    Attaching(Child),
    Attached(PathBuf),
    Detaching(PathBuf, Child),
    /// There is no loop device, and the server will see the end.
    Failed(ExitStatus),
}

impl Watch<'_> {
    fn run(mut self) -> Result<(), Ended> {
        let mut server = self.start()?;
        loop {
            let seen = self.wait(server.ready.as_ref())?;
            self.stop |= seen.stop;
            if seen.ready && heard_ready(&mut server) {
                self.crew.report(Event::Ready { server: server.child.id() });
                if matches!(self.stage, Stage::Starting) && !self.stop {
                    self.stage = Stage::Attaching(self.start_hands()?);
                }
            }
            if self.stop && matches!(self.stage, Stage::Starting) {
                let _ = server.child.kill();
                let _ = server.child.wait();
                return Err(Ended::Stopped);
            }
            self.advance()?;
            if let Ok(Some(status)) = server.child.try_wait() {
                match (&self.stage, status.code()) {
                    (Stage::Failed(attach), Some(0)) => return Err(Ended::FailedAttach { status: *attach }),
                    (_, Some(0)) => return Ok(()),
                    (_, Some(_)) if self.session.is_over() => return Err(Ended::FailedClose { status }),
                    _ => {}
                }
                let dead = server.child.id();
                self.admit_replacement(&server, status)?;
                server = self.start()?;
                self.crew.report(Event::Replaced { dead, status });
            }
        }
    }

    /// Looks whether a helper has finished, and what is to be done next.
    fn advance(&mut self) -> Result<(), Ended> {
        match &mut self.stage {
            Stage::Attaching(child) => {
                let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
                let mut path = String::new();
                let read = child.stdout.take().is_some_and(|mut output| output.read_to_string(&mut path).is_ok());
                // Whether there is a loop device or not: the file system is to last no longer.
                self.session.let_go();
                self.stage = if status.success() && read && !path.trim().is_empty() {
                    let device = PathBuf::from(path.trim());
                    self.crew.report(Event::Attached { device: device.clone() });
                    Stage::Attached(device)
                } else {
                    Stage::Failed(status)
                };
            }
            Stage::Detaching(device, child) => {
                let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
                let device = std::mem::take(device);
                if !status.success() {
                    self.crew.report(Event::DetachFailed { status });
                }
                (self.stage, self.stop) = (Stage::Attached(device), false);
            }
            Stage::Starting | Stage::Attached(_) | Stage::Failed(_) => {}
        }
        if let Stage::Attached(device) = &mut self.stage {
            if self.stop {
                let child = self.crew.detach(device).process_group(0).spawn();
                let child = child.map_err(|e| io_error("cannot start the command that detaches".into(), e))?;
                self.stage = Stage::Detaching(std::mem::take(device), child);
                self.crew.report(Event::Detaching);
            }
        }
        Ok(())
    }

    fn start_hands(&mut self) -> Result<Child, Error> {
        let root = self.session.root().expect("the session lets go of it only after this");
        let mut command = self.crew.hands(&Hands { root: root.as_raw_fd() });
        command.stdout(Stdio::piped()).process_group(0);
        lend(&[root], || command.spawn()).map_err(|e| io_error("cannot start the command that makes the loop device".into(), e))
    }

    fn start(&mut self) -> Result<Server, Error> {
        let (ready, tell) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| io_error("cannot make a pipe".into(), e.into()))?;
        let lent: Vec<&OwnedFd> = self.session.channels().iter().chain([&tell]).collect();
        let channels = self.session.channels().iter().map(AsRawFd::as_raw_fd).collect();
        // A group of its own: Ctrl-C is for the supervisor.
        let mut command = self.crew.server(&Handover { channels, ready: tell.as_raw_fd() });
        command.process_group(0);
        let child = lend(&lent, || command.spawn()).map_err(|e| io_error("cannot start a server".into(), e))?;
        Ok(Server { child, since: Instant::now(), ready: Some(ready) })
    }

    /// Whether a server that died is to be replaced.
    fn admit_replacement(&mut self, server: &Server, status: ExitStatus) -> Result<(), Ended> {
        if matches!(self.stage, Stage::Starting) {
            return Err(Ended::FailedStart { status });
        }
        if !self.resend {
            return Err(Ended::NoResend { status });
        }
        let DeathLimit { deaths, within } = self.plan.limit;
        let now = Instant::now();
        self.deaths.push_back(now);
        self.deaths.retain(|&death| now.duration_since(death) <= within);
        if self.deaths.len() >= deaths {
            return Err(Ended::GaveUp { deaths, within, status });
        }
        // One that cannot even start is not helped by haste.
        if server.since.elapsed() < within / 10 {
            std::thread::sleep(within / 50);
        }
        Ok(())
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

fn heard_ready(server: &mut Server) -> bool {
    let Some(pipe) = server.ready.take() else { return false };
    // The pipe's end without a word is a death, which the signal tells.
    rustix::io::read(&pipe, &mut [0; 1]) == Ok(1)
}

struct Seen {
    stop: bool,
    ready: bool,
}
