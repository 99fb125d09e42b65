//! `detach`: takes an attached volume away, after everything is durable.

use crate::attachment::control::{self, Ask};
use crate::attachment::directory::run_directory;
use crate::attachment::find::find;
use crate::attachment::launch::{self, End};
use crate::attachment::process::is_stopped;
use crate::attachment::record::{FrontendKind, Places, Record, by_life, clear, clear_dead};
use crate::attachment::session::{self, Session};
use crate::attachment::whereabouts::Whereabouts;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::fuse::loopdev;
use crate::output::complain;
use crate::volume;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Detach a volume: commit everything, mark it clean, end its server
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    #[arg(required = true)]
    volume: Option<String>,
    /// How long to wait for the flush of the device and the end of the server. Both go on when this is over.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Detach even a file that was deleted meanwhile: its content goes with its last user.
    #[arg(long)]
    force: bool,
    /// Only take that loop device away, for `supervise`.
    #[arg(long, hide = true, exclusive = true)]
    device: Option<PathBuf>,
}

/// A deleted file is there for as long as its server has it: says so before that ends.
fn spare_what_is_deleted(Whereabouts { path, is_deleted, open_as }: &Whereabouts, is_forced: bool) -> Outcome {
    let Some(open_as) = open_as.as_ref().filter(|_| *is_deleted) else { return Ok(()) };
    if is_forced {
        complain(format_args!("onefold: {} was deleted while it was attached: its content goes now", path.display()));
        return Ok(());
    }
    let message = format!("{} was deleted while it was attached: its content would go with this detach", path.display());
    Err(Failed::new(Exit::Refused, message).next(format!(
        "To keep it, unmount what is on it or stop its clients, and copy it: `cp --sparse=always {} COPY`. --force detaches, copied or not.",
        open_as.display()
    )))
}

/// Detaches.
///
/// # Errors
/// When it is not attached, in use, or does not end in time.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    if let Some(device) = &arguments.device {
        let unflushed = loopdev::detach(device, || end_waiting(device)).map_err(|e| Failed { exit: Exit::InUse, ..e.into() })?;
        return unflushed.map_or(Ok(Exit::Done), |errno| {
            Err(Failed::new(Exit::DeviceFailed, format!("what was written to {} last could not be flushed: {errno}", device.display())))
        });
    }
    let deadline = Deadline(Instant::now().checked_add(Duration::from_secs(arguments.timeout)));
    let directory = run_directory()?;
    let found = find(arguments.volume.as_deref().unwrap_or_default())?;
    let Some(record) = found.attached else { return Err(take_rest_away(&found.path, &directory)?) };
    let whereabouts = Whereabouts::of(&record);
    spare_what_is_deleted(&whereabouts, arguments.force)?;
    let places = Places::of(&directory, &record.id);
    // Nothing is begun that a stopped server would keep from ending.
    control::check_running(&places.control)?;
    let unflushed = match record.frontend {
        FrontendKind::Nbd => ask_to_end(&places, deadline).map(|()| None)?,
        FrontendKind::Fuse => match take_device_away(&record, &places, deadline) {
            // The device is gone, and what was written to it last with it.
            Err(failed) if failed.exit == Exit::DeviceFailed => Some(failed),
            other => other.map(|()| None)?,
        },
    };
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

/// Writes that wait for room on a full volume would keep the flush of its device waiting. Where nobody can be told, it waits as long as
/// they do.
fn end_waiting(device: &Path) {
    let Ok(directory) = run_directory() else { return };
    let attached = by_life(&directory).map(|(alive, _)| alive).unwrap_or_default();
    for record in attached.iter().filter(|record| Path::new(&record.location) == device) {
        let _ = control::ask(&Places::of(&directory, &record.id).control, &Ask::EndWaiting);
    }
}

/// What to say of a volume that was detached, and is well, although its device could not be flushed: it was full.
fn unwritten(record: &Record, unflushed: &Failed) -> Failed {
    let path = record.path.display();
    let message = format!("{path} is detached, but {}; what was synced before is safe", unflushed.message);
    Failed::new(Exit::DeviceFailed, message)
        .next(format!("Where the volume was full: `onefold attach {path}`, make room (delete and trim), and write that again."))
}

/// What to say of a volume that was detached although its store would not take all that was written.
fn store_failed(record: &Record, places: &Places, unflushed: Option<Failed>) -> Failed {
    let path = record.path.display();
    let unflushed = unflushed.map(|failed| format!("; {}", failed.message)).unwrap_or_default();
    let message = format!(
        "{path} is detached, but its store had failed: what was synced before is safe, what was written since may not be there{unflushed}"
    );
    Failed::new(Exit::DeviceFailed, message)
        .next(format!("When the store works again, `onefold attach {path}` goes on. The log is {}.", places.log.display()))
}

/// How long to wait for the end before the server is asked once more.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Asks the server to detach until it has: one that is killed meanwhile is replaced, and the next one is to be asked, too. Returns when the
/// attachment is over, or the time.
fn ask_to_end(places: &Places, deadline: Deadline) -> Outcome {
    loop {
        let before = control::server(&places.control);
        let asked = control::ask_within(&places.control, &Ask::Detach, deadline.left().min(control::ANSWER_PATIENCE));
        if session::wait_end(&places.lock, deadline.left().min(ASK_AGAIN)) {
            return Ok(());
        }
        // One that is there and says nothing is not asked for ever; where there is none, or another, one has just been replaced.
        let is_silent = asked.is_err() && before.is_some() && before == control::server(&places.control);
        if is_silent || deadline.left().is_zero() {
            return asked.map(drop);
        }
    }
}

/// When the time is over, if ever.
#[derive(Clone, Copy)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// Whether the volume, which has ended without a word, was killed meanwhile: its superblock says that it is in use.
fn nobody_closed(record: &Record, whereabouts: &Whereabouts) -> bool {
    let is_marked = !record.is_passthrough && !record.is_read_only && !whereabouts.is_deleted;
    is_marked && volume::peek(&whereabouts.path).is_ok_and(|chosen| !chosen.superblock.clean)
}

/// What to say of a volume that nobody closed; `besides` follows it.
fn died(store: &Path, besides: &str) -> Failed {
    let message = format!("{} is not attached: its server died before it was closed in order{besides}", store.display());
    Failed::new(Exit::NotFound, message).next(format!("`onefold attach {}` recovers it.", store.display()))
}

/// Of a volume that is not attached, takes away what processes that died have left. Says what there was.
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
    let devices = loopdev::find(&id).unwrap_or_default();
    loopdev::clear_dead(&id);
    clear(directory, &id);
    session.remove(&lock);
    if record.is_none() && devices.is_empty() {
        return Ok(not_attached.next("`onefold list` shows what is attached."));
    }
    let devices: Vec<String> = devices
        .iter()
        .map(|device| {
            let when = if loopdev::is_attached(device) { "goes when its last user closes it" } else { "was taken away" };
            format!(". Its dead device {} {when}", device.display())
        })
        .collect();
    Ok(died(store, &devices.concat()))
}

/// Has a process of its own flush the loop device and take it away: whoever does that cannot be stopped while the server does not answer.
fn take_device_away(record: &Record, places: &Places, deadline: Deadline) -> Outcome {
    if !loopdev::has_tag(record.location.as_ref(), &record.id) {
        let (device, place) = (&record.location, places.record.display());
        let message = format!("{device} does not belong to {}, but the record {place} names it", record.path.display());
        return Err(Failed::new(Exit::System, message).next("`losetup --list` shows what it is. If the record is wrong, remove it."));
    }
    let mut command = launch::detach_device(record.location.as_ref());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).group_of_its_own();
    let cannot = |e| Failed::system("cannot start the command that takes the device away", e);
    let mut helper = command.spawn().map_err(cannot)?;
    while helper.try_wait().map_err(cannot)?.is_none() {
        if deadline.left().is_zero() {
            let message = format!("{} is still being flushed", record.location);
            return Err(
                Failed::new(Exit::System, message).next("It is taken away when that is over; `onefold status` shows how the volume is.")
            );
        }
        std::thread::sleep(Duration::from_millis(5).min(deadline.left()));
    }
    verdict(helper)
}

/// What the command that takes a device away said at its end.
fn verdict(mut helper: Child) -> Outcome {
    let mut said = String::new();
    let _ = helper.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
    let status = helper.wait().map_err(|e| Failed::system("cannot wait for the command that takes the device away", e))?;
    if status.success() {
        return Ok(());
    }
    let exit = Exit::of_code(status.code()).unwrap_or(Exit::System);
    let said = said.trim();
    Err(Failed::new(exit, said.strip_prefix("onefold: ").unwrap_or(said)))
}

/// Why a volume is not detached when the time is over.
fn still_there(record: &Record) -> Failed {
    let pid = record.process.pid;
    if is_stopped(pid) {
        let message = format!("process {pid}, which attends to {}, is stopped", record.path.display());
        return Failed::new(Exit::System, message).next(format!("`kill -CONT {pid}` lets it go on."));
    }
    Failed::new(Exit::System, format!("the server of {} still commits", record.path.display()))
        .next("Wait, and look at `onefold list`; the volume is in use until it is gone.")
}
