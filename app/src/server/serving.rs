//! The life of a server: open, serve, wait, close.
//!
//! 1. Clients are served only when the control socket answers: a user who can see a volume can detach it.
//! 2. At the end the front-end stops first, so that every request has been answered; then a recording ends, and its client gets the
//!    summary; then the target commits and closes.

use super::questions::Answers;
use super::recording::Recordings;
use crate::attachment::control;
use crate::attachment::growth as growing;
use crate::attachment::launch::{self, End};
use crate::attachment::plan::{Options, Plan};
use crate::attachment::record::Places;
use crate::attachment::session::Session;
use crate::device::Device;
use crate::device::backing::{Access, Backing, Kind, PATIENCE};
use crate::device::joined::Joined;
use crate::device::paced::Paced;
use crate::device::room::watch as watch_room;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend::door::{Clients, Ready};
use crate::heartbeat::{Claim, Guarded, watch};
use crate::machine::{self, Gauge};
use crate::memory::pool::Pool;
use crate::runtime::hook::Hook;
use crate::runtime::notices::Notices;
use crate::runtime::passthrough::Passthrough;
use crate::runtime::promises::{Left, Promises, Room};
use crate::runtime::volume::Volume;
use crate::runtime::{Closing, Served};
use crate::supervision::handover;
use crate::{device, frontend, growth, volume};
use onefold_engine::format::{Chosen, Superblock};
use onefold_engine::interface::Event;
use onefold_engine::memory::Accountant;
use onefold_engine::settings::{Persistence, Settings};
use onefold_trace::model::Model;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The journal has room for one record per this many bytes of `--memory`, within bounds.
const RING_SHARE: u64 = 1024;
const RING_RECORDS: (u64, u64) = (4096, 65536);
/// It has room for one content of a block per this many bytes of `--memory`, within bounds.
const RING_CONTENT_SHARE: u64 = 1 << 16;
const RING_CONTENTS: (u64, u64) = (16, 4096);
/// The time that a new server waits for a dead one's last requests.
const REPLACEMENT_PATIENCE: Duration = Duration::from_secs(60);

/// Serves in this process alone, while its caller holds the attachment's lock. `ready` gets the place where clients find it.
///
/// # Errors
/// The reason why it does not serve.
pub fn serve_alone(plan: &Plan, ready: impl FnOnce(&str) -> Outcome) -> Outcome<Exit> {
    let clients = frontend::named(&plan.frontend.name)?.clients(plan, None)?;
    leave_word(plan, serve(plan, clients, Box::new(ready)))
}

/// Serves, in the background, the clients of what a supervisor keeps; the supervisor learns by `ready` when it does. `_session`: the
/// attachment's lock.
///
/// # Errors
/// The reason why it does not serve.
pub fn serve_supervised(plan: &Plan, clients: Box<dyn Clients>, ready: handover::Ready, _session: Session) -> Outcome<Exit> {
    launch::leave_terminal();
    let tell = move |_: &str| {
        ready.tell();
        Ok(())
    };
    leave_word(plan, serve(plan, clients, Box::new(tell)))
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

fn serve(plan: &Plan, clients: Box<dyn Clients>, ready: Ready<'_>) -> Outcome<Exit> {
    let places = Places::of(&plan.directory, &plan.id);
    let (stop, stopped) = channel();
    clients.watch_end(stop.clone())?;
    let announce = clients.announcer()?;
    let served = open(plan, clients.send_again(), &stopped)?;
    let desk = Arc::new(Recordings::new(served.tap().clone()));
    let answers = Answers { plan: plan.clone(), served: served.clone(), recordings: desk.clone(), stop, announce };
    control::listen(&places.control, move |ask, client| answers.respond(ask, client))
        .map_err(|e| Failed::system(format!("cannot make {}", places.control.display()), e))?;
    clients.serve(&served, ready, &stopped)?;
    desk.close();
    Ok(match served.close() {
        Closing::Clean => Exit::Done,
        Closing::Failed => Exit::DeviceFailed,
    })
}

fn open(plan: &Plan, send_again: bool, stopped: &Receiver<()>) -> Outcome<Arc<dyn Served>> {
    let patience = if plan.is_replacement { REPLACEMENT_PATIENCE } else { PATIENCE };
    let options = &plan.options;
    let backing = Arc::new(Backing::open_patiently(&plan.path, Access::of(options.read_only, options.buffered), patience)?);
    if options.passthrough {
        let pool = Pool::new(Accountant::new(options.memory.0));
        return Ok(Passthrough::new(device(backing, &pool, options)?, pool));
    }
    let chosen = volume::load(&backing)?;
    let pause = |time| match stopped.recv_timeout(time) {
        Err(_) => Ok(()),
        Ok(()) => Err(Failed::new(Exit::System, format!("{}: ended before it was served", plan.path.display()))),
    };
    let mut claim = if options.read_only {
        watch(&backing, &chosen.superblock).map(|()| None)?
    } else {
        Claim::make(&backing, &chosen.superblock, &pause)?
    };
    let has_grown = grow_if_ordered(plan, &backing, claim.as_mut());
    let chosen = has_grown.and_then(|has_grown| as_it_is_now(&backing, chosen, has_grown));
    let parts = chosen.and_then(|chosen| Parts::of(plan, send_again, backing, chosen));
    let Some(mut claim) = claim else { return parts.map(|parts| parts.open() as Arc<dyn Served>) };
    match parts {
        Ok(parts) => {
            claim.confirm()?;
            Ok(Guarded::start(parts.open(), claim))
        }
        Err(failed) => {
            claim.release();
            Err(failed)
        }
    }
}

/// Grows the volume if the server before this one has noted that it is to: see [`growing`]. Returns whether it may have grown. Only what
/// keeps this server from serving is an error.
fn grow_if_ordered(plan: &Plan, backing: &Backing, claim: Option<&mut Claim>) -> Outcome<bool> {
    let places = Places::of(&plan.directory, &plan.id);
    let Some(order) = growing::ordered(&places).filter(|_| plan.is_replacement && !plan.options.read_only) else { return Ok(false) };
    claim.map_or(Ok(()), Claim::confirm)?;
    growing::end(&places, growth::grow(backing, &order, || true));
    Ok(true)
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
    pool: Arc<Pool>,
    promises: Option<(Promises, Left)>,
    notices: Notices,
    backing: Arc<Backing>,
    gauge: Option<Gauge>,
}

impl Parts {
    /// Does all parts of an opening that may fail.
    fn of(plan: &Plan, send_again: bool, backing: Arc<Backing>, chosen: Chosen) -> Outcome<Self> {
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
        let pool = Pool::new(Accountant::divided(options.memory.0, settings.commit_mode.has_log()));
        let promises = promises(plan, &chosen.superblock, &mut settings)?;
        let device = device(backing.clone(), &pool, options)?;
        settings.facts.retries_when_full = send_again;
        let notices = Notices::new(options.on_warning.as_ref().map(|command| Hook::start(command.clone(), plan.path.clone())));
        settings.facts.device_takes_fua = options.fua.unwrap_or_else(|| device.takes_fua());
        let gauge = options.adapt.watches().then(|| Gauge::new(options.adapt, &options.machine_root));
        Ok(Self { superblock: chosen.into_service(), settings, device, pool, promises, notices, backing, gauge })
    }

    fn open(self) -> Arc<Volume> {
        let gives_back = self.settings.discard_freed && !self.settings.read_only;
        let volume = Volume::open(self.superblock, self.settings, self.device, self.pool, self.promises, self.notices);
        if gives_back {
            watch_room(self.backing, Arc::downgrade(&volume), |volume, room| volume.feed(&mut vec![Event::StoreRoom(room)], Vec::new()));
        }
        if let Some(gauge) = self.gauge {
            machine::watch(gauge, Arc::downgrade(&volume), Volume::afford);
        }
        volume
    }
}

/// Starts the device over a store, as the user chose.
fn device(backing: Arc<Backing>, pool: &Arc<Pool>, options: &Options) -> Outcome<Arc<dyn Device>> {
    let device = device::start(backing, pool, options.io).map_err(|e| Failed::system("io_uring", e))?;
    let Some(name) = &options.device_model else { return Ok(Joined::new(device)) };
    let model = Model::named(name).map_err(|message| Failed::new(Exit::Usage, message))?;
    Ok(Joined::new(Paced::new(device, model)))
}

/// Makes the acknowledgement journal, where what clients hold outlives its server.
fn promises(plan: &Plan, superblock: &Superblock, settings: &mut Settings) -> Outcome<Option<(Promises, Left)>> {
    if !plan.is_supervised() || plan.options.read_only {
        return Ok(None);
    }
    // Writes that are acknowledged when they are durable need no journal. The records of an earlier server, which may have been weak, are
    // replayed all the same.
    settings.facts.keeps_journal = settings.persistence == Persistence::Weak;
    settings.facts.journal_records_max = (plan.options.memory.0 / RING_SHARE).clamp(RING_RECORDS.0, RING_RECORDS.1);
    settings.facts.journal_contents_max = (plan.options.memory.0 / RING_CONTENT_SHARE).clamp(RING_CONTENTS.0, RING_CONTENTS.1);
    let base = Places::of(&plan.directory, &plan.id).ring;
    let room = Room { records: settings.facts.journal_records_max, contents: settings.facts.journal_contents_max };
    let (promises, left) = Promises::open(&base, superblock, room, plan.is_replacement)
        .map_err(|e| Failed::system(format!("cannot make the acknowledgement journal {}", base.display()), e))?;
    settings.facts.journal_lost = left.lost;
    Ok(Some((promises, left)))
}
