//! `trace record`: records the requests of an attached volume's clients, or of any disk, as a trace.

mod marking;
mod recorded;
mod volume;

use crate::bios::recording::Recording;
use crate::bios::{Bios, Device};
use crate::exit::{Exit, Failed, Outcome};
use crate::files::stopped_by_signals;
use crate::output::size::Size;
use crate::output::{Style, complain, print};
use crate::runtime::recording::key::Key;
use crate::runtime::recording::{Naming, Order, failed, fingerprinter};
use onefold_engine::units::index;
use recorded::{By, Recorded, until_over};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Record the requests to an attached volume, or to any disk, until Ctrl-C or its detach
///
/// Content is kept as fingerprints alone, with a key. Of a volume, they have its own key; of a disk or of a store passed through, a new
/// one that nobody keeps. Nobody waits for the recording: what it cannot record in time is counted as missing.
///
/// The requests to a volume that is a block device (attached with --fuse) come from the kernel's block layer, as they are submitted, with
/// process, control group and file. The server has no part in that: whichever of the two processes ends or is killed, the other one goes
/// on. Where the kernel does not show everything (no BTF, or lockdown), and over NBD, the requests come from the server, as it admits
/// them: then process and file are unknown, and the server's clients pay for the recording. The first lines say which of the two it is;
/// --by chooses.
///
/// `--disk` needs nothing of Onefold below it, and root: the requests come from the kernel, too. The trace may lie on the same disk; the
/// recorder's own requests are left out.
///
/// Content that the kernel hands over is seen as a request is submitted. A program may change the memory of a direct write after that:
/// the trace marks those as the stream O.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    #[arg(required_unless_present = "disk", conflicts_with = "disk")]
    volume: Option<String>,
    /// Block device to record instead of a volume: a disk, a partition, or what is mapped or looped onto another one.
    #[arg(long, value_name = "DEVICE")]
    disk: Option<PathBuf>,
    /// Source of the requests to a volume. Default: the kernel where that shows everything, and otherwise the server.
    #[arg(long, value_name = "SOURCE", conflicts_with = "disk")]
    by: Option<By>,
    /// Memory for requests and content that wait for the recorder, where the kernel hands them over: a power of two; 256K at least. A
    /// server takes it from its own --memory.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_ring)]
    ring: Size,
    /// Leave reads out, where the kernel hands requests over. With it, a server is not asked instead.
    #[arg(long)]
    no_reads: bool,
    /// File to make. Not on the volume itself; of a disk, it may be on it.
    #[arg(long, value_name = "FILE")]
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
    /// Sync what was recorded after this many seconds: a power loss costs no more. A recorder that is killed loses the last second.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    sync_seconds: u64,
    /// Print the summary as JSON: {by, records, blocks, gaps, gap_stretches, bytes}, and by the kernel {blocks_known,
    /// blocks_without_room, pieces_unreadable, blocks_partial, own_requests}.
    #[arg(long)]
    json: bool,
}

/// The algorithms without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Unkeyed {
    Md5,
    Sha1,
}

fn parse_ring(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse()?;
    let is_fit = size.0.is_power_of_two() && (RING_BYTES.0..=RING_BYTES.1).contains(&size.0);
    if is_fit { Ok(size) } else { Err(format!("give a power of two from {} to {}", Size(RING_BYTES.0), Size(RING_BYTES.1))) }
}

/// The bounds of a ring, in bytes.
const RING_BYTES: (u64, u64) = (256 << 10, 64 << 20);

/// Records.
///
/// # Errors
/// When the volume is not attached, another recording is under way, or the trace cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let file = std::path::absolute(&arguments.out).map_err(|e| Failed::system(arguments.out.display(), e))?;
    let order = order(arguments, file)?;
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = || stop.load(Ordering::Relaxed) || until.is_some_and(|until| until <= Instant::now());
    let recorded = match (&arguments.disk, &arguments.volume) {
        (Some(disk), _) => of_disk(disk, order, arguments, is_over)?,
        (None, Some(volume)) => {
            let wanted = volume::Wanted { by: arguments.by, ring_bytes: index(arguments.ring.0), reads: !arguments.no_reads };
            volume::record(volume, order, &wanted, is_over)?
        }
        (None, None) => return Err(Failed::new(Exit::Usage, "neither a volume nor a disk is named")),
    };
    print(&recorded, Style::of(arguments.json));
    Ok(())
}

/// Records a disk.
fn of_disk(disk: &Path, order: Order, arguments: &Arguments, is_over: impl Fn() -> bool) -> Outcome<Recorded> {
    let device = Device::at(disk)?;
    let fingerprinter = fingerprinter(None, &order.naming).map_err(|e| failed(e, &order))?;
    let bios = Bios::begin(&device, index(arguments.ring.0), !arguments.no_reads, fingerprinter)?;
    let blind_spots = bios.blind_spots();
    let file = order.file.clone();
    let recording = Recording::begin(bios, order)?;
    complain(format_args!("recording {} into {}", device.path.display(), file.display()));
    blind_spots.iter().for_each(complain);
    until_over(recording, file, is_over)
}

fn order(arguments: &Arguments, file: PathBuf) -> Outcome<Order> {
    let naming = match (&arguments.key, arguments.unkeyed) {
        (Some(file), _) => Naming::Keyed(key(file)?),
        (None, Some(Unkeyed::Md5)) => Naming::Md5,
        (None, Some(Unkeyed::Sha1)) => Naming::Sha1,
        (None, None) => Naming::Own,
    };
    Ok(Order { file, naming, sync_after: Duration::from_secs(arguments.sync_seconds) })
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
