//! `onefold-lab flash`: replays traces with a model of flash below each scheme, and compares what the flash has to do.

mod report;

use crate::synth::parse_share;
use crate::traces::{FORMS, Reading, failed, malformed_shown};
use onefold::attachment::start::PersistenceName;
use onefold::exit::{Exit, Failed, Outcome};
use onefold::output::size::Size;
use onefold::output::{Style, print};
use onefold_sim::laboratory::flash::aging::{Past, aged, aged_holding};
use onefold_sim::laboratory::flash::{Cleaning, Flash, Latencies, Shape};
use onefold_sim::laboratory::replay::on_flash;
use onefold_sim::laboratory::replay::report::Report as Replayed;
use onefold_sim::laboratory::replay::run::Plan;
use onefold_sim::laboratory::replay::scheme::Scheme;
use onefold_sim::laboratory::replay::timed::{blocks_of, name_of};
use onefold_sim::laboratory::replay::working_set::WorkingSet;
use onefold_trace::source::Source;
use report::{Compared, FlashReport, OnScheme};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The schemes that are compared with the bare flash, if the user names none: the two defaults of a volume.
const DEFAULT_SCHEMES: [Scheme; 2] = [Scheme::OrderedAnticipate, Scheme::Packed];

const NOTES: &str = "\
The flash is full when the measured phase begins, and was overwritten at random places until its write amplification no
longer rises: what earlier phases trimmed, such as the making of a file system, does not make it easier. Every scheme
begins with the same flash, unless `--begin held`. Sizes, latencies and spare pages are those of Agrawal et al. (USENIX
ATC 2008), whose simulator APP-Dedupe uses; `onefold-lab replay --help` lists the schemes.

A collection moves the valid pages of one block and erases it. Response times are those of the client's requests of all
kinds, from sending to answer; fingerprints take no time.";

/// Replay traces with flash below each scheme, and compare collections, wear and response times with the bare flash
///
/// The commands that reach the device go to a page-mapped flash with planes, spare pages and cleaning, trims included, and take its
/// time. Each trace is replayed in virtual time as `onefold-lab replay` does, on the bare flash first.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES, after_long_help = format!("{NOTES}\n\n{FORMS}"))]
pub struct Arguments {
    /// Folders or texts of any form. A folder without Parquet files stands for all traces in it.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Scheme to compare with the bare flash; may be given several times. Default: ordered-anticipate and packed, the defaults of a
    /// volume.
    #[arg(long = "scheme", value_name = "NAME", value_parser = Scheme::named)]
    schemes: Vec<Scheme>,
    /// The moment when a write is acknowledged: weak, on admission (by the bare flash: when it has it); strong, when it is durable.
    #[arg(long, value_enum, value_name = "MODE", default_value = "weak")]
    persistence: PersistenceName,
    /// Writes that may wait for their acknowledgement, under strong persistence.
    #[arg(long, value_name = "N", default_value = "32")]
    outstanding: NonZeroUsize,
    /// Leave the blocks of the trace where they were, on a volume as large as the traced device, from the trace or NAME.json beside it.
    /// Without it the blocks that the trace reads or writes are moved together, in their order, and the volume has no others.
    #[arg(long)]
    whole_device: bool,
    /// Size of the volume, in blocks of 4 KiB, with --whole-device.
    #[arg(long, value_name = "N", requires = "whole_device")]
    blocks: Option<NonZeroU64>,
    /// Size of the flash, without its spare pages. Default: as large as the largest device that a scheme needs for the volume, and 64
    /// blocks on each plane at least. What lies beyond a scheme's device is other data.
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// Spare pages, as a share of the others.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "15%")]
    spare: f64,
    /// Size of a page: a power of two.
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    page: Size,
    /// Pages of a block.
    #[arg(long, value_name = "N", default_value = "64")]
    block_pages: NonZeroU32,
    /// Planes, which work in parallel, each with a channel of its own.
    #[arg(long, value_name = "N", default_value = "8")]
    planes: NonZeroU64,
    /// Choice of the block that is cleaned next: greedy, the fewest valid pages; cost-benefit, cold blocks sooner; fifo, the block that
    /// was filled first.
    #[arg(long, value_name = "NAME", value_parser = Cleaning::named, default_value = Cleaning::Greedy.name())]
    cleaning: Cleaning,
    /// Time to read a page, in microseconds.
    #[arg(long, value_name = "US", default_value = "25")]
    read_us: u32,
    /// Time to program a page, in microseconds.
    #[arg(long, value_name = "US", default_value = "200")]
    program_us: u32,
    /// Time to erase a block, in microseconds.
    #[arg(long, value_name = "US", default_value = "1500")]
    erase_us: u32,
    /// Time to transfer a byte, in nanoseconds.
    #[arg(long, value_name = "NS", default_value = "25")]
    transfer_ns: u32,
    /// The pages that hold something when the measured phase begins: full, those of --full, the same for every scheme; held, those that
    /// the scheme's own device holds at the end, by a replay before, as if all others had been trimmed once.
    #[arg(long, value_enum, value_name = "NAME", default_value = "full")]
    begin: Begin,
    /// Pages that hold something when the measured phase begins, as a share.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "100%")]
    full: f64,
    /// Random overwrites before the measured phase, as a multiple of the flash's pages.
    #[arg(long, value_name = "X", default_value = "3")]
    overwrites: f64,
    /// Seed of these overwrites.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    reading: Reading,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The pages that hold something when the measured phase begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Begin {
    Full,
    Held,
}

impl Arguments {
    fn schemes(&self) -> Vec<Scheme> {
        let others = if self.schemes.is_empty() { &DEFAULT_SCHEMES[..] } else { &self.schemes };
        let mut all = vec![Scheme::None];
        others.iter().for_each(|scheme| {
            if !all.contains(scheme) {
                all.push(*scheme);
            }
        });
        all
    }

    fn plan(&self, scheme: Scheme) -> Plan {
        Plan { scheme, persistence: self.persistence.into(), outstanding_max: self.outstanding.get(), ..Plan::default() }
    }

    fn shape(&self, bytes: u64) -> Shape {
        let us = |us: u32| u64::from(us) * 1000;
        Shape {
            bytes,
            page_bytes: self.page.0,
            block_pages: self.block_pages.get(),
            planes: self.planes.get(),
            spare: self.spare,
            cleaning: self.cleaning,
            latencies: Latencies {
                read_ns: us(self.read_us),
                program_ns: us(self.program_us),
                erase_ns: us(self.erase_us),
                transfer_ns_per_byte: self.transfer_ns.into(),
            },
        }
    }

    const fn past(&self) -> Past {
        Past { full: self.full, overwrites: self.overwrites, seed: self.seed }
    }

    /// Returns the size of the flash for a volume of `blocks`.
    fn flash_bytes(&self, trace: &Path, blocks: u64) -> Outcome<u64> {
        let needed = on_flash::device_bytes(&self.schemes(), &self.plan(Scheme::None), blocks);
        let needed = needed.map_err(|error| Failed::new(Exit::Usage, error))?;
        match self.size {
            Some(size) if size.0 < needed => {
                Err(Failed::new(Exit::Usage, format!("--size {size}: {} needs a device of {}", trace.display(), Size(needed))))
            }
            Some(size) => Ok(size.0),
            None => Ok(on_flash::flash_bytes(&self.shape(needed), needed)),
        }
    }
}

/// Returns the traces that the user means: those named, and those in folders that are no trace themselves.
///
/// # Errors
/// When a folder cannot be read, or holds no trace.
fn expand(named: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut traces = Vec::new();
    for path in named {
        if path == Path::new("-") {
            return Err(Failed::new(Exit::Usage, "-: standard input can be read only once, and every scheme reads the trace")
                .next("`onefold-lab trace import` makes a folder of it."));
        }
        if !path.is_dir() || has_ending(path, "parquet")? {
            traces.push(path.clone());
            continue;
        }
        let before = traces.len();
        for entry in entries(path)? {
            if entry.is_dir() && has_ending(&entry, "parquet")? || entry.extension().is_some_and(|ending| ending == "zst") {
                traces.push(entry);
            }
        }
        if traces.len() == before {
            let message = format!("{}: the folder has no trace: neither Parquet files, nor texts that end with .zst", path.display());
            return Err(Failed::new(Exit::Usage, message).next("Name the traces themselves."));
        }
    }
    Ok(traces)
}

fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let read = || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut entries = read().map_err(|error| Failed::system(folder.display(), error))?;
    entries.sort();
    Ok(entries)
}

fn has_ending(folder: &Path, ending: &str) -> Outcome<bool> {
    Ok(entries(folder)?.iter().any(|entry| entry.extension().is_some_and(|found| found == ending)))
}

/// A trace, read as often as it is needed.
struct Subject<'a> {
    arguments: &'a Arguments,
    trace: &'a Path,
    set: Option<WorkingSet>,
    blocks: u64,
    malformed_lines: u64,
}

impl<'a> Subject<'a> {
    fn new(arguments: &'a Arguments, trace: &'a Path) -> Outcome<Self> {
        let mut subject = Self { arguments, trace, set: None, blocks: 0, malformed_lines: 0 };
        if arguments.whole_device {
            let no_size = |error| Failed::new(Exit::Usage, error).next("`--blocks` says how large the volume is.");
            let of_trace = || blocks_of(trace, &subject.open()?.header()).map_err(no_size);
            subject.blocks = arguments.blocks.map_or_else(of_trace, |blocks| Ok(blocks.get()))?;
        } else {
            let mut source = subject.open()?;
            // The replay shows what is malformed.
            let mut ignored = |_: &_| {};
            let records = source.sound(arguments.reading.lenient, &mut ignored);
            let set = WorkingSet::of(records).map_err(|error| failed(error, trace))?;
            subject.blocks = set.blocks().max(1);
            subject.set = Some(set);
        }
        Ok(subject)
    }

    fn open(&self) -> Outcome<Source> {
        Source::open(self.trace, &self.arguments.reading.how(None)).map_err(|error| failed(error, self.trace))
    }

    fn replay(&mut self, plan: &Plan) -> Outcome<(Replayed, Flash)> {
        let wrong = |error| Failed::new(Exit::Damaged, format!("{}, {}: {error}", self.trace.display(), plan.scheme.name()));
        let (mut source, mut show) = (self.open()?, malformed_shown());
        let mut sound = source.sound(self.arguments.reading.lenient, &mut show);
        let replayed = on_flash::replay(&name_of(self.trace), sound.by_ref(), self.set.as_ref(), self.blocks, plan).map_err(wrong)?;
        self.malformed_lines = sound.tally().malformed;
        Ok(replayed)
    }

    /// Returns the flash that a scheme begins the measured phase with.
    fn flash(&mut self, scheme: Scheme, shape: Shape, full: &Arc<Flash>) -> Outcome<Arc<Flash>> {
        if self.arguments.begin == Begin::Full {
            return Ok(full.clone());
        }
        let impossible = |error| Failed::new(Exit::Usage, error);
        let empty = Arc::new(Flash::new(shape).map_err(impossible)?);
        let (_, flash) = self.replay(&Plan { flash: Some(empty), keeps_flash: true, ..self.arguments.plan(scheme) })?;
        aged_holding(shape, &flash.held_pages(), &self.arguments.past()).map(Arc::new).map_err(impossible)
    }
}

fn compare(arguments: &Arguments, trace: &Path, cached: &mut Option<Arc<Flash>>) -> Outcome<Compared> {
    let mut subject = Subject::new(arguments, trace)?;
    let shape = arguments.shape(arguments.flash_bytes(trace, subject.blocks)?);
    let full = match cached.take().filter(|flash| *flash.shape() == shape) {
        Some(flash) => flash,
        None => Arc::new(aged(shape, &arguments.past()).map_err(|error| Failed::new(Exit::Usage, error))?),
    };
    *cached = Some(full.clone());
    let mut schemes = Vec::new();
    for scheme in arguments.schemes() {
        let flash = subject.flash(scheme, shape, &full)?;
        let held_pages = flash.held_pages().len() as u64;
        let (report, _) = subject.replay(&Plan { flash: Some(flash), ..arguments.plan(scheme) })?;
        let on = OnScheme::of(&report, held_pages, schemes.first());
        schemes.push(on);
    }
    Ok(Compared { trace: name_of(trace), malformed_lines: subject.malformed_lines, flash_bytes: shape.bytes, schemes })
}

/// Compares.
///
/// # Errors
/// When a trace cannot be read or does not fit the volume, there can be no such flash, or a replay finds a fault.
pub fn run(arguments: &Arguments) -> Outcome {
    let (mut cached, mut traces) = (None, Vec::new());
    for trace in expand(&arguments.traces)? {
        traces.push(compare(arguments, &trace, &mut cached)?);
    }
    let persistence = if arguments.persistence == PersistenceName::Strong { "strong" } else { "weak" };
    let begin = if arguments.begin == Begin::Held { "held" } else { "full" };
    print(&FlashReport::new(arguments.shape(0), arguments.past(), begin, persistence, traces), Style::of(arguments.json));
    Ok(())
}
