//! The life of a server: open, serve, wait, close.
//!
//! 1. Clients are served only when the control socket answers: a user who can see a volume can detach it.
//! 2. At the end the front-end stops first, so that every request has been answered; then a recording ends, and its client gets the
//!    summary; then the target commits and closes.

use super::naming;
use super::questions::Answers;
use super::recording::Recordings;
use crate::attachment::control;
use crate::attachment::directory::make_private;
use crate::attachment::growth::{self as growing, Noted};
use crate::attachment::launch::{self, End};
use crate::attachment::plan::{Options, Plan};
use crate::attachment::record::{self, Places, keep_spare};
use crate::attachment::session::Session;
use crate::attachment::strays;
use crate::device::Device;
use crate::device::backing::{Access, Backing, Kind, PATIENCE};
use crate::device::joined::Joined;
use crate::device::patient::{Patient, Refusals};
use crate::device::room::watch as watch_room;
use crate::device::slowing::Slowing;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::door::{Clients, Ready};
use crate::heartbeat::{Claim, Guarded, Kept, watch};
use crate::hints::{Hints, sight};
use crate::machine::{self, Gauge};
use crate::memory::pool::Pool;
use crate::output::size::Size;
use crate::runtime::hook::Hook;
use crate::runtime::notices::Notices;
use crate::runtime::passthrough::Passthrough;
use crate::runtime::promises::{Left, Promises, Room};
use crate::runtime::survey;
use crate::runtime::totals::Totals;
use crate::runtime::volume::{Surroundings, Volume};
use crate::runtime::{Closing, Served};
use crate::supervision::handover;
use crate::{device, frontend, growth, volume};
use onefold_engine::format::{Chosen, Superblock};
use onefold_engine::interface::Notice;
use onefold_engine::memory::Accountant;
use onefold_engine::settings::{Persistence, Settings};
use onefold_engine::units::Bytes;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use uuid::Uuid;

/// The journal has room for one record per this many bytes of `--memory`, within bounds.
const RING_SHARE: u64 = 1024;
const RING_RECORDS: (u64, u64) = (4096, 65536);
/// It has room for one content of a block per this many bytes of `--memory`, within bounds.
const RING_CONTENT_SHARE: u64 = 1 << 16;
const RING_CONTENTS: (u64, u64) = (16, 4096);
/// The time that what clients discard rests before it goes back to the host of a sparse file.
const TRIM_REST_MS: u64 = 20_000;
/// The time that a new server waits for a dead one's last requests.
const REPLACEMENT_PATIENCE: Duration = Duration::from_secs(60);

/// Serves in this process alone, while its caller holds the attachment's lock. `slowing` is what the program can do for
/// `--device-model`; `ready` gets the place where clients find it.
///
/// # Errors
/// The reason why it does not serve.
pub fn serve_alone(plan: &Plan, slowing: &dyn Slowing, ready: impl FnOnce(&str) -> Outcome) -> Outcome<Exit> {
    let clients = frontend::named(&plan.frontend.name)?.clients(plan, None)?;
    leave_word(plan, serve(plan, slowing, clients, Box::new(ready)))
}

/// Serves, in the background, the clients of what a supervisor keeps; the supervisor learns by `ready` when it does. `_session`: the
/// attachment's lock.
///
/// # Errors
/// The reason why it does not serve.
pub fn serve_supervised(
    plan: &Plan,
    slowing: &dyn Slowing,
    clients: Box<dyn Clients>,
    ready: handover::Ready,
    _session: Session,
) -> Outcome<Exit> {
    launch::leave_terminal();
    let tell = move |_: &str| {
        ready.tell();
        Ok(())
    };
    leave_word(plan, serve(plan, slowing, clients, Box::new(tell)))
}

/// Leaves a report of a server's end, for its supervisor and for `detach`.
fn leave_word(plan: &Plan, result: Outcome<Exit>) -> Outcome<Exit> {
    let end = match &result {
        Ok(exit) => End::of(*exit, None),
        Err(failed) => End::of(failed.exit, Some(failed.clone())),
    };
    end.leave(&Places::of(&plan.directory, &plan.id).end);
    result
}

fn serve(plan: &Plan, slowing: &dyn Slowing, clients: Box<dyn Clients>, ready: Ready<'_>) -> Outcome<Exit> {
    let places = Places::of(&plan.directory, &plan.id);
    // It may be gone by the time that a server is replaced.
    make_private(&plan.directory)?;
    let (stop, stopped) = channel();
    clients.watch_end(stop.clone())?;
    let announce = clients.announcer()?;
    let served = open(plan, slowing, clients.send_again(), &stopped)?;
    observe(plan, &*served, clients.have_a_disk(), &places);
    let desk = Arc::new(Recordings::new(served.tap().clone()));
    let totals = Totals::begin(served.clone(), &places.counts, plan.is_replacement);
    let answers = Answers { plan: plan.clone(), served: served.clone(), totals, recordings: desk.clone(), stop, announce };
    if let Err(failed) = keep_spare(&places).and(listen(&places.control, Arc::new(answers))) {
        if !plan.is_replacement {
            // Nobody was served: the volume is as it was.
            served.close();
            return Err(failed);
        }
        tracing::error!("{failed}");
    }
    clients.serve(&served, ready, &stopped)?;
    desk.close();
    match served.close() {
        Closing::Clean => Ok(Exit::Done),
        Closing::Lossy => Err(lossy(plan)),
        Closing::Failed => Ok(Exit::DeviceFailed),
    }
}

/// Returns the report of a volume that was closed in order after a server had died and its acknowledgement journal was lost.
fn lossy(plan: &Plan) -> Failed {
    let message = format!(
        "{} is detached, but writes that an earlier server had acknowledged, and that no flush covered, are lost with its journal; what \
         was synced before is safe",
        plan.path.display()
    );
    Failed::new(Exit::DeviceFailed, message)
}

/// Answers questions at `place`, and does so again where the socket was removed and this process is asked to make it again.
fn listen(place: &Path, answers: Arc<Answers>) -> Outcome {
    let (place, served) = (place.to_path_buf(), answers.served.clone());
    let begin = move |place: &Path| {
        let answers = answers.clone();
        let listening = control::listen(place, move |ask, client| answers.respond(ask, client));
        listening.map_err(|e| Failed::system(format!("cannot make {}", place.display()), e))
    };
    begin(&place)?;
    strays::when_asked(move || {
        if control::server(&place) != Some(std::process::id()) {
            let journal = || served.make_journal_again().map_err(|e| Failed::system("cannot make the acknowledgement journal again", e));
            // The socket comes last: a client that finds it finds everything.
            let made = place.parent().map_or(Ok(()), make_private).and_then(|()| journal().and(begin(&place)));
            made.unwrap_or_else(|failed| tracing::error!("{failed}"));
        }
    })
}

fn open(plan: &Plan, slowing: &dyn Slowing, send_again: bool, stopped: &Receiver<()>) -> Outcome<Arc<dyn Served>> {
    let patience = if plan.is_replacement { REPLACEMENT_PATIENCE } else { PATIENCE };
    let options = &plan.options;
    let backing = Arc::new(Backing::open_patiently(&plan.path, Access::of(options.read_only, options.buffered), patience)?);
    if options.passthrough {
        let pool = Pool::new(Accountant::new(options.memory_bytes()));
        return Ok(Passthrough::new(Joined::new(device(backing, &pool, options, slowing)?), pool));
    }
    let chosen = volume::load(&backing)?;
    let pause = |time| match stopped.recv_timeout(time) {
        Err(_) => Ok(()),
        Ok(()) => Err(Failed::new(Exit::System, format!("{}: ended before it was served", plan.path.display()))),
    };
    let claim = if options.read_only {
        watch(&backing, &chosen.superblock).map(|()| None)?
    } else {
        Claim::make(&backing, &chosen.superblock, &pause)?
    };
    let kept = claim.map(kept).transpose()?;
    let noted = grow_if_ordered(plan, &backing, kept.as_ref());
    // The server before this one has reported that the volume is full; nobody else reports that it is not any more.
    let is_roomier = noted.as_ref().is_some_and(|noted| noted.was_full);
    let chosen = as_it_is_now(&backing, chosen, noted.is_some());
    let parts = chosen.and_then(|chosen| Parts::of(plan, slowing, send_again, backing.clone(), chosen));
    if let (Ok(parts), true) = (&parts, is_roomier) {
        parts.notices.tell(&Notice::RoomAgain);
    }
    let claim = kept.map(Kept::end).transpose().map_err(|lost| lost.refuses(&backing));
    let parts = match parts {
        Ok(parts) => parts,
        Err(failed) => {
            claim.ok().flatten().into_iter().for_each(Claim::release);
            return Err(failed);
        }
    };
    match claim.and_then(|claim| claim.map(self::kept).transpose()) {
        Ok(None) => Ok(parts.open()),
        Ok(Some(kept)) => Ok(Guarded::new(parts.open(), kept)),
        Err(failed) => {
            parts.surroundings.promises.into_iter().for_each(|(mut promises, _)| promises.give_up());
            Err(failed)
        }
    }
}

/// Confirms a claim, and keeps it from now on.
fn kept(mut claim: Claim) -> Outcome<Kept> {
    claim.confirm()?;
    Ok(Kept::start(claim))
}

/// Grows the volume if the server before this one has noted that it is to: see [`growing`]. Returns what was noted where it may
/// have grown. Nothing is written any more when the claim of a guarded volume is gone.
fn grow_if_ordered(plan: &Plan, backing: &Backing, kept: Option<&Kept>) -> Option<Noted> {
    let places = Places::of(&plan.directory, &plan.id);
    let noted = growing::ordered(&places).filter(|_| plan.is_replacement && !plan.options.read_only)?;
    let grown = growth::grow(backing, &noted.order, || kept.is_none_or(Kept::holds));
    let was_full = noted.was_full && grown.is_ok();
    growing::end(&places, grown);
    Some(Noted { was_full, ..noted })
}

/// Reads the superblock again where it may be another one: another host may have served a guarded volume until now.
fn as_it_is_now(backing: &Backing, chosen: Chosen, has_grown: bool) -> Outcome<Chosen> {
    if has_grown || chosen.superblock.is_guarded() { Ok(volume::load(backing)?) } else { Ok(chosen) }
}

/// The parts that open a volume.
struct Parts {
    superblock: Superblock,
    settings: Settings,
    device: Arc<dyn Device>,
    refusals: Refusals,
    pool: Arc<Pool>,
    surroundings: Surroundings,
    notices: Notices,
    backing: Arc<Backing>,
    gauge: Option<Gauge>,
}

impl Parts {
    /// Does all parts of an opening that may fail.
    fn of(plan: &Plan, slowing: &dyn Slowing, send_again: bool, backing: Arc<Backing>, chosen: Chosen) -> Outcome<Self> {
        let options = &plan.options;
        if let Some((counter, at)) = chosen.superblock.used_up().filter(|_| !options.read_only) {
            let message = format!(
                "{}: its counter {counter} has come to its end, at {at}: the volume can be read, but not written",
                plan.path.display()
            );
            return Err(Failed::new(Exit::Damaged, message).next("Attach it with `--read-only`, and copy its content to a new volume."));
        }
        let is_allocated_file = backing.facts().kind == Kind::File && backing.is_allocated().unwrap_or(false);
        let mut settings = options.settings(&chosen.superblock.settings, is_allocated_file);
        let pool = Pool::new(Accountant::divided(options.memory_bytes(), settings.commit_mode.has_log()));
        let patient = Patient::new(device(backing.clone(), &pool, options, slowing)?);
        let (refusals, device) = (patient.refusals(), Joined::new(patient));
        let promises = promises(plan, &chosen.superblock, &mut settings)?;
        settings.facts.retries_when_full = send_again;
        let is_sparse = backing.facts().kind == Kind::File && !is_allocated_file;
        settings.facts.trim_rest_ms = if is_sparse { TRIM_REST_MS } else { 0 };
        let notices = Notices::new(options.on_warning.as_ref().map(|command| Hook::start(command.clone(), plan.path.clone())));
        if settings.facts.journal_lost {
            notices.tell_of_lost_journal();
        }
        settings.facts.device_takes_fua = options.fua.unwrap_or_else(|| device.takes_fua());
        let gauge = options.adapt.watches().then(|| Gauge::new(options.adapt, &options.machine_root));
        let unwritten = if options.read_only { None } else { unwritten(&backing) };
        let hints = Hints::of_volume(&backing, &chosen.superblock, &options.hints);
        let surroundings = Surroundings { promises, unwritten, hints };
        Ok(Self { superblock: chosen.into_service(), settings, device, refusals, pool, surroundings, notices, backing, gauge })
    }

    fn open(self) -> Arc<Volume> {
        // A file that is to keep all its space has it.
        let watched = self.settings.discard_freed.then_some(self.backing);
        let is_written = !self.settings.read_only;
        let owned = self.superblock.protected.iter().copied().filter(|range| !range.is_found).collect();
        let uuid = Uuid::from_bytes(self.superblock.uuid).to_string();
        let mut notices = self.notices;
        let finds = notices.finds();
        let volume = Volume::open(self.superblock, self.settings, self.device, self.pool, self.surroundings, notices);
        naming::begin(finds, Arc::downgrade(&volume), uuid);
        if is_written {
            survey::begin(&volume, owned);
            watch_room(watched, self.refusals, Arc::downgrade(&volume), Volume::store_has);
        }
        if let Some(gauge) = self.gauge {
            machine::watch(gauge, Arc::downgrade(&volume), Volume::afford);
        }
        volume
    }
}

/// Has the disk observed that clients use, once they have it.
fn observe(plan: &Plan, served: &dyn Served, have_a_disk: bool, places: &Places) {
    let Some(hints) = served.hints() else { return };
    let blind = if plan.options.observe == Some(false) {
        "--observe off"
    } else if plan.options.read_only {
        "nothing is written"
    } else if !have_a_disk {
        "NBD does not tell who writes"
    } else {
        let record = places.record.clone();
        let find = Box::new(move || sight::disk_at(Path::new(&record::look(&record)?.location)));
        let spawn = Box::new(|socket: Stdio| {
            let mut start = launch::itself();
            start.args(["helper", sight::LOADER]).stdin(socket);
            start.spawn()
        });
        let memory_bytes = sight::memory_of(plan.options.memory_bytes());
        return sight::begin(hints, sight::Way { find, spawn, memory_bytes });
    };
    hints.stay_blind(blind);
}

/// Returns the ranges of a file that its host has never written, where the host knows them. They are advice: an error is worth a line.
fn unwritten(backing: &Backing) -> Option<Vec<Range<Bytes>>> {
    let ranges = backing.unwritten().inspect_err(|error| tracing::warn!(%error, "the host does not say what it has written of the store"));
    Some(ranges.ok()??.into_iter().map(|range| Bytes(range.start)..Bytes(range.end)).collect())
}

/// Starts the device over a store, as the user chose.
fn device(backing: Arc<Backing>, pool: &Arc<Pool>, options: &Options, slowing: &dyn Slowing) -> Outcome<Arc<dyn Device>> {
    let device = device::start(backing, pool, options.io).map_err(|e| Failed::system("io_uring", e))?;
    let Some(model) = &options.device_model else { return Ok(device) };
    slowing.slow(device, model).map_err(|message| Failed::new(Exit::Usage, message))
}

/// Makes the acknowledgement journal, where what clients hold outlives its server.
fn promises(plan: &Plan, superblock: &Superblock, settings: &mut Settings) -> Outcome<Option<(Promises, Left)>> {
    if !plan.is_supervised() || plan.options.read_only {
        return Ok(None);
    }
    // Writes that are acknowledged when they are durable need no journal. The records of an earlier server, which may have been weak, are
    // replayed all the same.
    settings.facts.keeps_journal = settings.persistence == Persistence::Weak;
    let memory = plan.options.memory_bytes();
    let room = Room {
        records: (memory / RING_SHARE).clamp(RING_RECORDS.0, RING_RECORDS.1),
        contents: (memory / RING_CONTENT_SHARE).clamp(RING_CONTENTS.0, RING_CONTENTS.1),
    };
    let place = Places::of(&plan.directory, &plan.id).ring;
    let (promises, left) = Promises::open(&place, superblock, room, plan.is_replacement).map_err(|e| no_journal(&place, room, e))?;
    // A journal that was taken over may have another size.
    let room = promises.room();
    (settings.facts.journal_records_max, settings.facts.journal_contents_max) = (room.records, room.contents);
    settings.facts.journal_lost = left.lost;
    Ok(Some((promises, left)))
}

/// Returns the reason why there is no acknowledgement journal. All of its room is taken when a volume is attached, and kept until it is
/// detached.
fn no_journal(place: &Path, room: Room, error: io::Error) -> Failed {
    let directory = place.parent().unwrap_or(place).display();
    if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Failed::system(format!("cannot make the acknowledgement journal {}", place.display()), error);
    }
    let message = format!("{directory} has no room for the acknowledgement journal, which needs {}", Size(room.bytes()));
    Failed::new(Exit::System, message).next(format!(
        "Make room there, or make it larger (`mount -o remount,size=SIZE {directory}`), or attach with less --memory: it shrinks with it."
    ))
}
