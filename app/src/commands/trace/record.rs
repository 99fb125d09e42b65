//! `trace record`: records the requests of an attached volume's clients, or of any disk, as a trace.

use crate::attachment::control::{Conversation, ServerRequest};
use crate::attachment::directory::run_directory;
use crate::attachment::find::attached;
use crate::attachment::record::{Places, Record};
use crate::bios::Device;
use crate::bios::recording::{Recording, Seen};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, complain, print};
use crate::runtime::recording::key::Key;
use crate::runtime::recording::recorder::Tally;
use crate::runtime::recording::{About, Naming, Order};
use crate::traces::stopped_by_signals;
use onefold_engine::units::index;
use onefold_trace::folder::Rotation;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Record the requests to an attached volume, or to any disk, until Ctrl-C or its detach
///
/// Content is kept as fingerprints alone, with a key. Of a volume, these are the ones that it makes anyway, with its own key; of a disk or
/// of a store passed through, ones with a new key that nobody keeps. Nobody waits for the recording: what it cannot record in time is
/// counted as missing.
///
/// `--disk` needs nothing of Onefold below it, and root: the kernel's block layer hands over each request as it is submitted, with its
/// process, control group, file and content. The trace may lie on the same disk; the recorder's own requests are left out.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    #[arg(required_unless_present = "disk", conflicts_with = "disk")]
    volume: Option<String>,
    /// Block device to record instead of a volume: a disk, a partition, or what is mapped or looped onto another one.
    #[arg(long, value_name = "DEVICE")]
    disk: Option<PathBuf>,
    /// Memory for requests and content that wait for the recorder, with --disk: a power of two; 256K at least.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_ring, requires = "disk", conflicts_with = "volume")]
    ring: Size,
    /// Leave reads out, with --disk.
    #[arg(long, requires = "disk", conflicts_with = "volume")]
    no_reads: bool,
    /// Folder to make. Not on the volume itself; of a disk, it may be on it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Make fingerprints with the key in this file, so that several traces can be compared. A missing file is made, for its owner alone.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Make fingerprints without a key, as in published traces. Whoever has the trace can test it for content that they know.
    #[arg(long, value_name = "ALGORITHM", conflicts_with = "key")]
    unkeyed: Option<Unkeyed>,
    /// End after this many seconds.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Begin another file of the trace after this many seconds. A crash loses the open file alone.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    file_seconds: u64,
    /// Begin another file of the trace after this many records.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    file_records: u64,
    /// Print the summary as JSON: {records, blocks, gaps, gap_stretches, bytes}, and with --disk {blocks_known, blocks_without_room,
    /// pieces_unreadable, blocks_partial, own_requests}.
    #[arg(long)]
    json: bool,
}

/// The algorithms without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Unkeyed {
    Md5,
    Sha1,
}

#[derive(Debug, Serialize)]
struct Recorded {
    trace: PathBuf,
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    tally: Tally,
    #[serde(flatten)]
    seen: Option<Seen>,
}

impl Report for Recorded {
    const NAME: &'static str = "trace-recorded";

    fn table(&self) -> Table {
        let Tally { records, blocks, gaps, gap_stretches, bytes } = self.tally;
        let gaps = if gaps == 0 { "none".to_owned() } else { format!("{gaps} requests are missing, in {gap_stretches} stretches") };
        let table = Table::new()
            .row("trace", self.trace.display())
            .row("records", records)
            .row("blocks written", blocks)
            .row("gaps", gaps)
            .row("size", Size(bytes))
            .row("fingerprints", &self.about.algorithm)
            .row_if("key", self.about.key_id.as_ref());
        let Some(seen) = self.seen else { return table };
        table
            .row("blocks with content", seen.blocks_known)
            .row("blocks without room", seen.blocks_without_room)
            .row("blocks in part", seen.blocks_partial)
            .row("pieces unreadable", seen.pieces_unreadable)
            .row("own requests left out", seen.own_requests)
    }
}

fn parse_ring(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse()?;
    let is_fit = size.0.is_power_of_two() && (RING_BYTES.0..=RING_BYTES.1).contains(&size.0);
    if is_fit { Ok(size) } else { Err(format!("give a power of two from {} to {}", Size(RING_BYTES.0), Size(RING_BYTES.1))) }
}

/// The bounds of a ring, in bytes.
const RING_BYTES: (u64, u64) = (256 << 10, 64 << 20);
/// The time between two looks at whether the recording has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Records.
///
/// # Errors
/// When the volume is not attached, another recording is under way, or the trace cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let folder = std::path::absolute(&arguments.out).map_err(|e| Failed::system(arguments.out.display(), e))?;
    let order = order(arguments, folder)?;
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = || stop.load(Ordering::Relaxed) || until.is_some_and(|until| until <= Instant::now());
    let recorded = match (&arguments.disk, &arguments.volume) {
        (Some(disk), _) => of_disk(disk, order, arguments, is_over)?,
        (None, Some(volume)) => of_volume(volume, order, arguments, is_over)?,
        (None, None) => return Err(Failed::new(Exit::Usage, "neither a volume nor a disk is named")),
    };
    print(&recorded, Style::of(arguments.json));
    Ok(())
}

/// Records a disk.
fn of_disk(disk: &Path, order: Order, arguments: &Arguments, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    let device = Device::at(disk)?;
    let folder = order.folder.clone();
    let mut recording = Recording::begin(&device, order, index(arguments.ring.0), !arguments.no_reads)?;
    complain(format_args!("recording {} into {}", device.path.display(), folder.display()));
    recording.blind_spots().iter().for_each(complain);
    while !is_over() {
        recording.go_on()?;
    }
    let about = recording.about().clone();
    let (tally, seen) = recording.end()?;
    Ok(Recorded { trace: folder, about, tally, seen: Some(seen) })
}

fn order(arguments: &Arguments, folder: PathBuf) -> Outcome<Order> {
    let naming = match (&arguments.key, arguments.unkeyed) {
        (Some(file), _) => Naming::Keyed(key(file)?),
        (None, Some(Unkeyed::Md5)) => Naming::Md5,
        (None, Some(Unkeyed::Sha1)) => Naming::Sha1,
        (None, None) => Naming::Own,
    };
    let Arguments { file_seconds, file_records, .. } = *arguments;
    let rotation = Rotation { records: file_records, age: Some(Duration::from_secs(file_seconds)) };
    Ok(Order { folder, naming, rotation })
}

/// Records an attached volume, by its server.
fn of_volume(volume: &str, order: Order, arguments: &Arguments, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    let record = attached(volume)?;
    let (folder, file_seconds) = (order.folder.clone(), arguments.file_seconds);
    if is_on(&folder, &record) {
        let message = format!("{} lies on the very volume that is to be recorded", folder.display());
        return Err(Failed::new(Exit::Refused, message).next("Writing the trace would be recorded, too: name another place with `--out`."));
    }
    let control = Places::of(&run_directory()?, &record.id).control;
    let mut conversation = Conversation::begin(&control, &ServerRequest::Record(order))?;
    let strange = |e| Failed::system("unexpected reply from the server", e);
    let about: About = serde_json::from_value(conversation.hear()?).map_err(strange)?;
    complain(format_args!("recording {} into {}", record.path.display(), folder.display()));
    while !conversation.has_answer(LOOK)? {
        if is_over() {
            conversation.say_no_more();
            break;
        }
    }
    let tally = conversation.hear().map_err(|failed| match failed.next {
        Some(_) => failed,
        None => failed
            .next(format!("Of the trace, {} has what was closed before: all but the last {file_seconds} s at most.", folder.display())),
    })?;
    let tally: Tally = serde_json::from_value(tally).map_err(strange)?;
    Ok(Recorded { trace: folder, about, tally, seen: None })
}

/// Whether a folder, which need not exist yet, lies on a file system on that volume.
fn is_on(folder: &Path, record: &Record) -> bool {
    let device = fs::metadata(&record.location).ok().filter(|meta| meta.file_type().is_block_device());
    let parent = folder.ancestors().find_map(|path| fs::metadata(path).ok());
    device.zip(parent).is_some_and(|(device, parent)| device.rdev() == parent.dev())
}

/// Returns the key in a file, and makes it where it is missing.
fn key(file: &Path) -> Outcome<Key> {
    let system = |e: io::Error| Failed::system(format!("--key {}", file.display()), e);
    match fs::read_to_string(file) {
        Ok(text) => Key::try_from(text.trim().to_owned()).map_err(|wrong| {
            let message = format!("--key {}: {wrong}", file.display());
            Failed::new(Exit::Usage, message).next("Name a file that is not there, and one is made.")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|e| system(io::Error::other(e)))?;
            let key = Key(key);
            let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(system)?;
            made.write_all(format!("{}\n", String::from(key.clone())).as_bytes()).and_then(|()| made.sync_all()).map_err(system)?;
            Ok(key)
        }
        Err(error) => Err(system(error)),
    }
}
