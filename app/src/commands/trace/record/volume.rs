//! The requests to an attached volume, by one of two ways.
//!
//! 1. The kernel hands them over where the volume is a block device of this machine and the kernel shows everything of it. This process is
//!    the recorder then, and shares nothing with the server: each may end without the other.
//! 2. Otherwise the server hands them over: it records by itself, for as long as this process asks it to.
//! 3. The kernel is left only before anything is recorded, so that a trace has requests of one kind.

use super::marking::Marking;
use super::recorded::{By, Recorded, until_over};
use crate::attachment::control::{Conversation, ServerRequest};
use crate::attachment::directory::run_directory;
use crate::attachment::find::attached;
use crate::attachment::record::{Places, Record};
use crate::bios::recording::Recording;
use crate::bios::{Bios, Device};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::complain;
use crate::runtime::recording::{About, Order, failed, fingerprinter};
use crate::volume::peek;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// The time between two looks at whether a recording by the server has ended.
const LOOK: Duration = Duration::from_millis(100);

/// The choices of a user.
pub(super) struct Wanted {
    pub by: Option<By>,
    /// The ring in which the kernel hands requests over, in bytes.
    pub ring_bytes: usize,
    /// Record reads, too.
    pub reads: bool,
}

/// Records an attached volume until it is over, or detached.
pub(super) fn record(volume: &str, order: Order, wanted: &Wanted, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    let record = attached(volume)?;
    if is_on(&order.file, &record) {
        let message = format!("{} lies on the very volume that is to be recorded", order.file.display());
        return Err(Failed::new(Exit::Refused, message).next("Writing the trace would be recorded, too: name another place with `--out`."));
    }
    if wanted.by == Some(By::Server) && !wanted.reads {
        return Err(Failed::new(Exit::Usage, "--no-reads: a server records reads, too").next("Leave out `--no-reads`, or `--by server`."));
    }
    if wanted.by == Some(By::Server) {
        return by_server(&record, order, "as --by asks", is_over);
    }
    match seen_by_kernel(&record, &order, wanted) {
        Ok((device, bios)) => by_kernel(&record, &device, bios, order, is_over),
        // The server has no such choice.
        Err(failed) if wanted.by == Some(By::Kernel) || !wanted.reads => Err(failed),
        Err(failed) => by_server(&record, order, &failed.message, is_over),
    }
}

/// Has the kernel show the requests to a volume; all of it, or nothing.
fn seen_by_kernel(record: &Record, order: &Order, wanted: &Wanted) -> Outcome<(Device, Bios)> {
    let to_server = "`--by server`, without `--no-reads`, has its server record it.";
    let device = device_of(record).ok_or_else(|| {
        let message = format!("{} is attached as {}, which is no block device", record.path.display(), record.location);
        Failed::new(Exit::State, message).next(to_server)
    })?;
    let own = if record.is_passthrough { None } else { Some(peek(&record.path)?.superblock.fingerprinter()) };
    let fingerprinter = fingerprinter(own.as_ref(), &order.naming).map_err(|e| failed(e, order))?;
    let bios = Bios::begin(&device, wanted.ring_bytes, wanted.reads, fingerprinter)?;
    match bios.blind_spots().first() {
        None => Ok((device, bios)),
        Some(spot) => Err(Failed::new(Exit::System, format!("{}: {spot}", device.path.display())).next(to_server)),
    }
}

/// Returns the block device as which a volume is attached.
fn device_of(record: &Record) -> Option<Device> {
    let device = Device::at(record.location.as_ref()).ok()?;
    is_of(&device, record).then_some(device)
}

/// Whether a loop device is that of this attachment, and not a later one's.
fn is_of(device: &Device, record: &Record) -> bool {
    let file = format!("/sys/dev/block/{}/loop/backing_file", device.place.disk);
    fs::read_to_string(file).is_ok_and(|file| file.trim_end().strip_prefix('/') == Some(&record.id))
}

fn by_kernel(record: &Record, device: &Device, bios: Bios, order: Order, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    let places = Places::of(&run_directory()?, &record.id);
    Marking::check_free(&places)?;
    let file = order.file.clone();
    let recording = Recording::begin(bios, order)?;
    let marking = Marking::begin(&places, recording.marks().clone())?;
    complain(format_args!("recording {} into {}", record.path.display(), file.display()));
    complain(format_args!("The requests come from the kernel, as {} gets them.", device.path.display()));
    let recorded = until_over(recording, file, || is_over() || !is_of(device, record));
    drop(marking);
    recorded
}

fn by_server(record: &Record, order: Order, why: &str, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    let file = order.file.clone();
    let control = Places::of(&run_directory()?, &record.id).control;
    let mut conversation = Conversation::begin(&control, &ServerRequest::Record(order))?;
    let strange = |e| Failed::system("unexpected reply from the server", e);
    let about: About = serde_json::from_value(conversation.hear()?).map_err(strange)?;
    complain(format_args!("recording {} into {}", record.path.display(), file.display()));
    complain(format_args!("The requests come from the server, without process and file: {why}"));
    while !conversation.has_answer(LOOK)? {
        if is_over() {
            conversation.say_no_more();
            break;
        }
    }
    let tally = conversation.hear().map_err(|failed| match failed.next {
        Some(_) => failed,
        None => failed.next(format!("{} has what was recorded before: all but the last second at most.", file.display())),
    })?;
    let tally = serde_json::from_value(tally).map_err(strange)?;
    Ok(Recorded { trace: file, by: By::Server, about, tally, seen: None })
}

/// Whether a file, which need not exist yet, lies on a file system on that volume.
fn is_on(file: &Path, record: &Record) -> bool {
    let device = fs::metadata(&record.location).ok().filter(|meta| meta.file_type().is_block_device());
    let parent = file.ancestors().find_map(|path| fs::metadata(path).ok());
    device.zip(parent).is_some_and(|(device, parent)| device.rdev() == parent.dev())
}
