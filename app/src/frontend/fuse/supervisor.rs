//! The process that keeps a session alive while servers are replaced.
//!
//! 1. It does as little as it can: mount, start a server, wait. It never uses the file system that it keeps, takes no request, and holds no
//!    lock, so that nothing a server or client does can stop or kill it. A child, the helper, does the work that has to use it.
//! 2. Servers are started and replaced as for any attachment ([`crate::supervision::watch`]).
//! 3. Once the loop device is there, it alone keeps the file system: when it goes, so do file system, server and supervisor.
//! 4. When it dies itself, its server starts the next one, which *adopts* session and server and goes on ([`crate::supervision`]).

use super::helper::LentRoot;
use super::loopdev::clear_dead;
pub use super::process::{ignore_stop_signals, prepare_process};
use super::session::Session;
use crate::error::Error;
use crate::supervision::lent::{Adoption, Handover};
pub use crate::supervision::limit::DeathLimit;
use crate::supervision::running::{Ending, Running};
use crate::supervision::signals::Signals;
use crate::supervision::start::Start;
pub use crate::supervision::watch::SupervisionError;
use crate::supervision::watch::{Attachment, run, start};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

/// The session to supervise.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name in the kernel's messages: the volume's path.
    pub source: String,
    /// The tag of its loop device: see [`loopdev::find`](super::loopdev::find).
    pub tag: String,
    /// The number of threads of each server.
    pub threads: usize,
    /// The largest write, in bytes: see [`session::request_bytes`](super::session::request_bytes).
    pub request_bytes: usize,
    pub limit: DeathLimit,
    /// Act as though the kernel could not send requests again (for tests).
    pub without_resend: bool,
}

/// The commands that do the work, and a receiver of events.
pub trait Crew {
    /// Returns the command that serves: it inherits `handover`, and reads it by
    /// [`Lent::from_arguments`](crate::supervision::lent::Lent::from_arguments).
    fn server(&mut self, handover: &Handover<'_>) -> Start;
    /// Returns the command that puts a loop device on the file system, by [`attach_loop`](super::attach_loop), and prints its path and
    /// nothing else to standard output. It inherits `root`, and reads it by [`LentRoot::from_arguments`].
    fn attaches(&mut self, root: &LentRoot<'_>) -> Start;
    /// Returns the command that waits for the loop device that the helper of a dead supervisor have made, or are making, and prints its
    /// path and nothing else to standard output. It ends with this process.
    fn finder(&mut self) -> Start;
    /// Returns the command that takes the loop device away, by [`loopdev::detach`](super::loopdev::detach).
    fn detach(&mut self, device: &Path) -> Start;
    /// Returns the exit code that the server of this number has left, if it ended by itself.
    fn word(&mut self, server: u32) -> Option<i32>;
    /// Whether the server that it started last is of another program.
    fn is_upgraded(&self) -> bool;
    /// Reports an event.
    fn report(&mut self, event: Event);
}

/// An event, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file system is mounted. Without `resend`, the death of a server ends the session with I/O errors.
    Mounted { resend: bool },
    /// The session of a dead supervisor goes on, with this server.
    Adopted { server: u32 },
    /// A server answers requests.
    Ready { server: u32 },
    /// The block device is there.
    Attached { device: PathBuf },
    /// A server died and another replaces it.
    Replaced { dead: u32, ending: Ending },
    /// SIGTERM or SIGINT arrived, and the command that detaches was started.
    Detaching,
    /// The command that detaches failed: the device is in use, and goes on working.
    DetachFailed { status: ExitStatus },
}

/// Mounts, starts servers, has the loop device made, and returns when the session has ended.
///
/// # Errors
/// See [`SupervisionError`].
pub fn supervise(plan: &Plan, crew: &mut dyn Crew) -> Result<(), SupervisionError> {
    // This comes before the first child, so that the end of each is noticed.
    let signals = Signals::new()?;
    let session = Session::mount(&plan.source, plan.threads, plan.request_bytes)?;
    let resend = session.can_resend() && !plan.without_resend;
    crew.report(Event::Mounted { resend });
    Watch { plan, crew, session, stage: Stage::Starting, stop: false }.run_to_the_end(&signals, None)
}

/// Goes on with the session of a dead supervisor. `resend`: see [`Session::can_resend`]; `device`: its loop device, where that is known.
///
/// # Errors
/// See [`SupervisionError`].
pub fn adopt(plan: &Plan, crew: &mut dyn Crew, adoption: Adoption, resend: bool, device: Option<PathBuf>) -> Result<(), SupervisionError> {
    let signals = Signals::new()?;
    crew.report(Event::Adopted { server: adoption.server.pid });
    let stage = match device {
        Some(device) => {
            crew.report(Event::Attached { device: device.clone() });
            Stage::Attached(device)
        }
        None => Stage::Attaching(start(crew.finder().stdout(Stdio::piped()), "finds the loop device")?),
    };
    let session = Session::inherited(adoption.kept, resend);
    // It is not asked whether it is ready: the existing device is enough.
    let server = Running::adopted(adoption.server, None);
    Watch { plan, crew, session, stage, stop: false }.run_to_the_end(&signals, Some(server))
}

struct Watch<'a> {
    plan: &'a Plan,
    crew: &'a mut dyn Crew,
    session: Session,
    stage: Stage,
    /// The end is wanted.
    stop: bool,
}

/// The progress of the session.
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

impl Attachment for Watch<'_> {
    fn server(&mut self, ready: &OwnedFd, supervisor: &OwnedFd) -> Start {
        self.crew.server(&Handover { kept: self.session.channels().iter().collect(), ready, supervisor })
    }

    fn word(&mut self, server: u32) -> Option<i32> {
        self.crew.word(server)
    }

    fn is_over(&self) -> bool {
        self.session.is_over()
    }

    fn finish(&mut self) -> Result<(), SupervisionError> {
        if let Stage::Failed(status) = self.stage { Err(SupervisionError::FailedAttach { status }) } else { Ok(()) }
    }

    fn admit_replacement(&mut self, ending: Ending) -> Result<(), SupervisionError> {
        if matches!(self.stage, Stage::Starting) {
            return Err(SupervisionError::FailedStart { ending });
        }
        if self.can_resend() { Ok(()) } else { Err(SupervisionError::NoResend { ending }) }
    }

    fn replaced(&mut self, dead: u32, ending: Ending) {
        self.crew.report(Event::Replaced { dead, ending });
    }

    fn ready(&mut self, server: u32) -> Result<(), SupervisionError> {
        self.crew.report(Event::Ready { server });
        if matches!(self.stage, Stage::Starting) && !self.stop {
            self.stage = Stage::Attaching(self.start_hands()?);
        }
        Ok(())
    }

    fn is_upgraded(&self) -> bool {
        self.crew.is_upgraded()
    }

    fn stop(&mut self) {
        self.stop = true;
    }

    fn restore_files(&mut self) {
        if let Stage::Attached(device) = &self.stage {
            self.crew.report(Event::Attached { device: device.clone() });
        }
    }

    /// Checks whether a helper has finished, and decides on the next step.
    fn advance(&mut self, server: &mut Running) -> Result<(), SupervisionError> {
        match &mut self.stage {
            Stage::Starting if self.stop => {
                server.kill();
                return Err(SupervisionError::Stopped);
            }
            Stage::Attaching(child) => {
                let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
                let mut path = String::new();
                let read = child.stdout.take().is_some_and(|mut output| output.read_to_string(&mut path).is_ok());
                // With or without a loop device, the file system is to last no longer.
                self.session.release();
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
                let child = start(&mut self.crew.detach(device), "detaches")?;
                self.stage = Stage::Detaching(std::mem::take(device), child);
                self.crew.report(Event::Detaching);
            }
        }
        Ok(())
    }
}

impl Watch<'_> {
    fn run_to_the_end(mut self, signals: &Signals, adopted: Option<Running>) -> Result<(), SupervisionError> {
        let plan = self.plan;
        let ended = run(&mut self, signals, plan.limit, adopted);
        // The session ends here at the latest: a client that still waits for an answer gets an error.
        drop(self);
        if matches!(ended, Err(SupervisionError::GaveUp { .. } | SupervisionError::NoResend { .. })) {
            clear_dead(&plan.tag);
        }
        ended
    }

    fn start_hands(&mut self) -> Result<Child, Error> {
        let root = self.session.root().expect("the session releases it only after this");
        start(self.crew.attaches(&LentRoot { root }).stdout(Stdio::piped()), "makes the loop device")
    }

    fn can_resend(&self) -> bool {
        self.session.can_resend() && !self.plan.without_resend
    }
}
