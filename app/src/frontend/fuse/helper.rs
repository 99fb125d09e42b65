//! The helpers: separate processes that use the file system, or its loop device, from outside. Neither supervisor nor server may.

use super::{attach_loop, loopdev};
use crate::attachment::control::{self, ServerRequest};
use crate::attachment::directory::run_directory;
use crate::attachment::launch::{self, End};
use crate::attachment::plan::{Plan, misused};
use crate::attachment::record::{Places, by_life};
use crate::error::Error;
use crate::exit::{Exit, Failed, Outcome};
use crate::supervision::handover::inherit_argument;
use crate::supervision::start::Start;
use clap::Parser;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// The descriptor that the command which makes the loop device inherits: the root directory of the file system.
#[derive(Debug)]
pub struct LentRoot<'a> {
    pub(super) root: &'a OwnedFd,
}

impl LentRoot<'_> {
    /// Adds the descriptor to the command line, where [`Self::from_arguments`] reads it.
    pub fn lend_to(&self, command: &mut Start) {
        command.lend(&[self.root]);
        command.args(["--root".into(), self.root.as_raw_fd().to_string()]);
    }

    /// Takes the file system's root directory, which the argument `--root` names. A process calls this first of all, and once.
    ///
    /// # Errors
    /// When it names no descriptor: only supervisors use the command line.
    pub fn from_arguments(root: RawFd) -> Result<OwnedFd, Error> {
        inherit_argument("--root", root)
    }
}

/// The work that they do.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
enum Verb {
    /// Makes the loop device of a session and prints its path.
    Attach {
        #[arg(long)]
        root: RawFd,
        plan: String,
    },
    /// Waits for the device that another process makes or has made, as long as the process lives that has started this one, and prints its
    /// path.
    Find { plan: String },
    /// Flushes a loop device and takes it away.
    Detach { device: PathBuf },
}

/// Returns the command that makes the loop device; it still has to inherit [`LentRoot`].
pub fn attaches(plan: &Plan) -> Start {
    let mut command = launch::command(&["helper", super::NAME, "attach"], plan);
    command.stdin(Stdio::null());
    command
}

/// Returns the command that finds it.
pub fn finds(plan: &Plan) -> Start {
    let mut command = launch::command(&["helper", super::NAME, "find"], plan);
    command.stdin(Stdio::null());
    command
}

/// Returns the command that takes it away.
pub fn detaches(device: &Path) -> Start {
    let mut command = launch::itself();
    command.args(["helper", super::NAME, "detach"]).arg(device).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Does the work that the words name.
///
/// # Errors
/// When the work fails, or another program uses the words.
pub fn run(words: &[String]) -> Outcome<Exit> {
    match Verb::try_parse_from(words).map_err(|_| misused())? {
        Verb::Attach { root, plan } => attach(root, &Plan::parse(&plan)?),
        Verb::Find { plan } => find(&Plan::parse(&plan)?.id),
        Verb::Detach { device } => detach(&device),
    }
}

fn attach(root: RawFd, plan: &Plan) -> Outcome<Exit> {
    let made = LentRoot::from_arguments(root).and_then(|root| attach_loop(&root, &plan.id, plan.sector_bytes, plan.options.read_only));
    let made = made.map_err(Failed::from).inspect_err(|failed| {
        // The supervisor reads it and passes it on.
        End::of(failed.exit, Some(failed.clone())).leave(&Places::of(&plan.directory, &plan.id).end);
    });
    println!("{}", made?.display());
    Ok(Exit::Done)
}

/// The time between two looks for the device.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn find(tag: &str) -> Outcome<Exit> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| Failed::system("cannot end with the supervisor", e))?;
    loop {
        if let Some(device) = loopdev::find(tag)?.into_iter().next() {
            println!("{}", device.display());
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn detach(device: &Path) -> Outcome<Exit> {
    let unflushed = loopdev::detach(device, || end_waiting(device)).map_err(|e| Failed { exit: Exit::InUse, ..e.into() })?;
    unflushed.map_or(Ok(Exit::Done), |errno| {
        Err(Failed::new(Exit::DeviceFailed, format!("what was written to {} last could not be flushed: {errno}", device.display())))
    })
}

/// Ends the waiting of writes for room on a full volume, since they would delay the flush of its device. Where no server can be reached,
/// the flush waits as long as they do.
fn end_waiting(device: &Path) {
    let Ok(directory) = run_directory() else { return };
    let attached = by_life(&directory).map(|(alive, _)| alive).unwrap_or_default();
    for record in attached.iter().filter(|record| Path::new(&record.location) == device) {
        let _ = control::ask(&Places::of(&directory, &record.id).control, &ServerRequest::EndWaiting);
    }
}
