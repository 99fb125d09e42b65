//! `supervise`: the process that keeps a FUSE session alive while servers come and go. Started by `attach`.

use super::parse_plan;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::Error;
use crate::frontend::fuse::THREADS;
use crate::frontend::fuse::supervisor::{self, Adoption, DeathLimit, Ended, Event, Handover, Hands, prepare_process};
use crate::runtime::notices::Said;
use crate::server::launch::{self, End, Told};
use crate::server::plan::Plan;
use crate::server::process::Process;
use crate::server::record::{Places, Record, clear, forget_log, parse, small_file};
use crate::server::serving::no_frontend;
use crate::server::session::Session;
use crate::supervision::handover::lend;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    plan: String,
    #[command(flatten)]
    adoption: Option<Inheritance>,
}

/// What a server leaves to its next supervisor.
#[derive(Debug, clap::Args)]
#[group(requires_all = ["channels", "server", "server_fd", "session"])]
struct Inheritance {
    #[arg(long, required = false)]
    channels: String,
    #[arg(long, required = false)]
    server: u32,
    #[arg(long, required = false)]
    server_fd: RawFd,
    #[arg(long, required = false)]
    session: RawFd,
    #[arg(long)]
    resend: bool,
}

impl Inheritance {
    fn take(&self) -> Result<(Session, Adoption), Error> {
        let adoption = Adoption::from_arguments(&self.channels, self.server, self.server_fd, self.resend)?;
        Ok((Session::from_argument(self.session)?, adoption))
    }
}

/// Supervises until the session's end.
///
/// # Errors
/// When the session cannot be had, or broke.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let inherited = arguments.adoption.as_ref().map(Inheritance::take).transpose().map_err(no_frontend)?;
    let plan = parse_plan(&arguments.plan)?;
    if plan.in_background {
        launch::leave_terminal();
    }
    let lock = Places::of(&plan.directory, &plan.id).lock;
    let (session, adoption) = match inherited {
        Some((session, adoption)) => (Ok(session), Some(adoption)),
        None => (Session::begin(&lock), None),
    };
    let result = session.and_then(|session| {
        let result = supervise(&plan, &session, adoption);
        clear(&plan.directory, &plan.id);
        if let Ok(Exit::Done) = result {
            forget_log(&plan.directory, &plan.id);
        }
        session.remove(&lock);
        result
    });
    if let Err(failed) = &result {
        Told::Failed(failed.clone()).tell();
    }
    result
}

fn supervise(plan: &Plan, session: &Session, adoption: Option<Adoption>) -> Outcome<Exit> {
    let places = Places::of(&plan.directory, &plan.id);
    let end_place = &places.end;
    for refused in prepare_process() {
        tracing::warn!("{refused} was refused: where memory is short, the device may stall");
    }
    let fuse = supervisor::Plan {
        source: plan.path.display().to_string(),
        tag: plan.id.clone(),
        threads: THREADS,
        limit: DeathLimit::default(),
        without_resend: false,
    };
    let is_replacement = adoption.is_some();
    let mut crew = Crew { plan: Plan { is_replacement, ..plan.clone() }, session };
    let ended = match adoption {
        None => {
            let _ = End::take(end_place);
            supervisor::supervise(&fuse, &mut crew)
        }
        Some(adoption) => supervisor::adopt(&fuse, &mut crew, adoption, recorded_device(&places)),
    };
    let end = End::take(end_place);
    match ended {
        Ok(()) | Err(Ended::FailedClose { .. }) => {
            // A server that could not close its volume has left word of it.
            let exit = end.as_ref().map_or(if ended.is_ok() { Exit::Done } else { Exit::System }, |end| end.exit);
            // For `detach`, which asks when we are gone.
            if let Some(end) = end.filter(|end| end.exit != Exit::Done) {
                end.leave(end_place);
            }
            Ok(exit)
        }
        Err(Ended::Setup(error)) => Err(no_frontend(error)),
        Err(other) => Err(end.and_then(|end| end.failed).unwrap_or_else(|| Failed::new(Exit::System, other.to_string()))),
    }
}

/// The loop device that a dead supervisor has recorded.
fn recorded_device(places: &Places) -> Option<PathBuf> {
    parse(&places.record, &small_file(&places.record)?).map(|record| record.location.into())
}

/// What the next server is given to say, the newest alone: it comes by its command line.
const SAID_MAX: usize = 8;

/// This very program, in its several parts.
struct Crew<'a> {
    plan: Plan,
    session: &'a Session,
}

impl supervisor::Crew for Crew<'_> {
    fn server(&mut self, handover: &Handover<'_>) -> Command {
        if self.plan.is_replacement {
            self.plan.said.push(Said::now("the server that had the volume before has died"));
            let old = self.plan.said.len().saturating_sub(SAID_MAX);
            self.plan.said.drain(..old);
        }
        let mut command = launch::command("serve", &self.plan);
        handover.lend_to(&mut command);
        lend(&mut command, &[self.session.descriptor()]);
        command.args(self.session.argument()).stdin(Stdio::null()).stdout(Stdio::null());
        // Whoever comes after may find the volume still held by the last requests of this one.
        self.plan.is_replacement = true;
        command
    }

    fn hands(&mut self, hands: &Hands<'_>) -> Command {
        let mut command = launch::command("hands", &self.plan);
        hands.lend_to(&mut command);
        command.stdin(Stdio::null());
        command
    }

    fn finder(&mut self) -> Command {
        let mut command = launch::command("hands", &self.plan);
        command.stdin(Stdio::null());
        command
    }

    fn detach(&mut self, device: &Path) -> Command {
        let mut command = launch::detach_device(device);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn word(&mut self, server: u32) -> Option<i32> {
        let end = End::look(&Places::of(&self.plan.directory, &self.plan.id).end);
        end.filter(|end| end.process.pid == server).map(|end| end.exit as i32)
    }

    fn report(&mut self, event: Event) {
        match event {
            Event::Attached { device } => {
                let location = device.display().to_string();
                tracing::info!(location, "attached");
                let record = Record::of(&self.plan, Process::this(), location.clone());
                let places = Places::of(&self.plan.directory, &self.plan.id);
                if let Err(failed) = record.store(&places.record) {
                    tracing::error!("{failed}");
                }
                let _ = std::fs::remove_file(&places.device);
                if let Err(error) = std::os::unix::fs::symlink(&device, &places.device) {
                    tracing::warn!(%error, place = %places.device.display(), "cannot make the link to the device");
                }
                Told::Ready { location }.tell();
            }
            Event::Mounted { resend: false } => {
                let text = "this kernel cannot send requests again (Linux 6.9 can): if the server is killed, the device fails";
                tracing::warn!("{text}");
                self.plan.said.push(Said::now(text));
            }
            other => tracing::info!("{other:?}"),
        }
    }
}
