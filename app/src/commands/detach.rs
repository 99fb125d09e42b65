//! `detach`: removes an attached volume, after everything is durable.

use crate::attachment::control;
use crate::attachment::deadline::Deadline;
use crate::attachment::directory::run_directory;
use crate::attachment::find::find;
use crate::attachment::launch::End;
use crate::attachment::process::is_stopped;
use crate::attachment::record::{Places, Record, by_life, clear, clear_dead};
use crate::attachment::session::{self, Session};
use crate::attachment::whereabouts::Whereabouts;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::output::complain;
use crate::volume;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// Detach a volume: commit everything, mark it clean, end its server
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    /// The time to wait for the flush of the device and the end of the server. Both go on when it is over.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Detach even a file that was deleted meanwhile: its content goes with its last user.
    #[arg(long)]
    force: bool,
}

/// Refuses to detach a deleted file, which exists only as long as its server has it.
fn spare_what_is_deleted(Whereabouts { path, is_deleted, open_as }: &Whereabouts, is_forced: bool) -> Outcome {
    let Some(open_as) = open_as.as_ref().filter(|_| *is_deleted) else { return Ok(()) };
    if is_forced {
        complain(format_args!("onefold: {} was deleted while it was attached: its content goes now", path.display()));
        return Ok(());
    }
    let message = format!("{} was deleted while it was attached: its content would go with this detach", path.display());
    Err(Failed::new(Exit::Refused, message).next(format!(
        "To keep it, unmount what is on it or stop its clients, and copy it: `cp --sparse=always {} COPY`. \
         --force detaches, copied or not.",
        open_as.display()
    )))
}

/// Detaches.
///
/// # Errors
/// When it is not attached, in use, or does not end in time.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let deadline = Deadline::within(Duration::from_secs(arguments.timeout));
    let directory = run_directory()?;
    let found = find(&arguments.volume)?;
    let Some(record) = found.attached else { return Err(take_rest_away(&found.path, &directory)?) };
    let whereabouts = Whereabouts::of(&record);
    spare_what_is_deleted(&whereabouts, arguments.force)?;
    let places = Places::of(&directory, &record.id);
    // A stopped server could not finish a detach, so none begins.
    control::check_running(&places.control)?;
    let unflushed = frontend::named(&record.frontend)?.detach(&record, &places, deadline)?;
    if !session::wait_end(&places.lock, deadline.left()) {
        return Err(still_there(&record));
    }
    clear_dead(&directory, &record.id);
    match (End::take(&places.end), unflushed) {
        (None, _) if nobody_closed(&record, &whereabouts) => Err(died(&whereabouts.path, "")),
        (None | Some(End { exit: Exit::Done, .. }), None) => Ok(Exit::Done),
        (Some(End { exit: Exit::DeviceFailed, failed: None, .. }), unflushed) => Err(store_failed(&record, &places, unflushed)),
        (None | Some(End { exit: Exit::Done, .. }), Some(unflushed)) => Err(unwritten(&record, &unflushed)),
        (Some(End { exit, failed, .. }), _) => {
            Err(failed.unwrap_or_else(|| Failed::new(exit, exit.meaning())).next(format!("The log is {}.", places.log.display())))
        }
    }
}

/// Returns the message about a volume that was detached in order, although its device was full and could not be flushed.
fn unwritten(record: &Record, unflushed: &Failed) -> Failed {
    let path = record.path.display();
    let message = format!("{path} is detached, but {}; what was synced before is safe", unflushed.message);
    Failed::new(Exit::DeviceFailed, message)
        .next(format!("Where the volume was full: `onefold attach {path}`, make room (delete and trim), and write that again."))
}

/// Returns the message about a volume that was detached although its store did not take all writes.
fn store_failed(record: &Record, places: &Places, unflushed: Option<Failed>) -> Failed {
    let path = record.path.display();
    let unflushed = unflushed.map(|failed| format!("; {}", failed.message)).unwrap_or_default();
    let message = format!(
        "{path} is detached, but its store had failed: what was synced before is safe, what was written since may not be there{unflushed}"
    );
    Failed::new(Exit::DeviceFailed, message)
        .next(format!("When the store works again, `onefold attach {path}` goes on. The log is {}.", places.log.display()))
}

/// Whether the volume, which ended without a report, was killed meanwhile: its superblock still marks it as in use.
fn nobody_closed(record: &Record, whereabouts: &Whereabouts) -> bool {
    let is_marked = !record.is_passthrough && !record.is_read_only && !whereabouts.is_deleted;
    is_marked && volume::peek(&whereabouts.path).is_ok_and(|chosen| !chosen.superblock.clean)
}

/// Returns the message about a volume that nobody closed, followed by `besides`.
fn died(store: &Path, besides: &str) -> Failed {
    let message = format!("{} is not attached: its server died before it was closed in order{besides}", store.display());
    Failed::new(Exit::NotFound, message).next(format!("`onefold attach {}` recovers it.", store.display()))
}

/// Clears away what dead processes have left of a volume that is not attached. Returns a message about what there was.
///
/// # Errors
/// When it is just being attached or detached.
fn take_rest_away(path: &Path, directory: &Path) -> Outcome<Failed> {
    let not_attached = Failed::new(Exit::NotFound, format!("{} is not attached", path.display()));
    let (alive, dead) = by_life(directory)?;
    let record = dead.into_iter().find(|record| record.path == path || Path::new(&record.location) == path);
    let store = record.as_ref().map_or(path, |record| &record.path);
    let uuid = || volume::peek(path).ok().map(|chosen| Uuid::from_bytes(chosen.superblock.uuid).to_string());
    let Some(id) = record.as_ref().map(|record| record.id.clone()).or_else(uuid) else { return Ok(not_attached) };
    if alive.iter().any(|record| record.id == id) {
        return Ok(not_attached.next("A volume with its UUID is attached from elsewhere: `onefold list` shows it."));
    }
    let lock = Places::of(directory, &id).lock;
    let Some(session) = Session::after(&lock) else {
        return Err(Failed::new(Exit::InUse, format!("{} is just being attached or detached", store.display())).next("Try again."));
    };
    let devices: Vec<String> = frontend::ALL.iter().flat_map(|frontend| frontend.clear_dead(&id)).collect();
    clear(directory, &id);
    session.remove(&lock);
    if record.is_none() && devices.is_empty() {
        return Ok(not_attached.next("`onefold list` shows what is attached."));
    }
    Ok(died(store, &devices.concat()))
}

/// Returns the reason why a volume is not detached when the time is over.
fn still_there(record: &Record) -> Failed {
    let pid = record.process.pid;
    if is_stopped(pid) {
        let message = format!("process {pid}, which attends to {}, is stopped", record.path.display());
        return Failed::new(Exit::System, message).next(format!("`kill -CONT {pid}` lets it go on."));
    }
    Failed::new(Exit::System, format!("the server of {} still commits", record.path.display()))
        .next("Wait, and look at `onefold list`; the volume is in use until it is gone.")
}
