//! `onefold-lab synth`: makes a trace that nobody recorded.

use crate::traces::failed;
use onefold::exit::{Exit, Failed, Outcome};
use onefold::files::stopped_by_signals;
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::error::TraceError;
use onefold_trace::header::Unit;
use onefold_trace::info::{Counter, Info};
use onefold_trace::synth::phone::{PHONES, Phone};
use onefold_trace::synth::{Access, Choice, Contents, Distribution, Length, Plan, Synth};
use onefold_trace::transfer;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The part of a phone's trace that is made by default.
const PHONE_SCALE: f64 = 0.001;

const NOTES: &str = "\
SHARE is a part of all, as 0.25 or 25%. SIZES are numbers to choose from: one like 8, a range like 1-32, or several with
weights like 1:70,8:20,16-32:10.

The same options give the same trace, byte for byte. Fingerprints stand for no content that exists. Contents are dealt
from exact counts; sizes, times and places are chance. A trace that cannot be what was asked for is not made.

Examples:
  onefold-lab synth --out t --blocks 1M --duplication 40% --overwrites 50% --flush-every 8
  onefold-lab scan disk.img --out disk.json && onefold-lab synth --out t --distribution disk.json --access hotspot
  onefold-lab synth --out phones --phone all --scale 0.01";

/// Make a trace from parameters, from a scanned distribution, or like a phone's
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Folder to make; with `--phone all`, for a folder of each phone.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Another seed, for another trace of the same kind.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Block writes of 4 KiB; 100000 by default. K, M and G are powers of 1024.
    #[arg(long, value_name = "N", conflicts_with = "requests", help_heading = "Length", value_parser = parse_count)]
    blocks: Option<u64>,
    /// Reads and writes.
    #[arg(long, value_name = "N", help_heading = "Length", value_parser = parse_count)]
    requests: Option<u64>,

    /// Block writes whose content some block holds at that moment.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Content")]
    duplication: Option<f64>,
    /// Block writes whose content was written before, whether a block still holds it or not. Without `--duplication` both
    /// happen as they come; with it, exactly that share is live.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Content")]
    duplication_ever: Option<f64>,
    /// Block writes of zeros, which are no duplicates.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Content")]
    zero: Option<f64>,
    /// The preference for recently written content: the content of K block writes ago comes again in proportion to K to the power of minus
    /// S (Zipf). 0: all alike. 1 by default.
    #[arg(long, value_name = "S", help_heading = "Content")]
    locality: Option<f64>,
    /// Compressed sizes of contents by the codec of slots (zstd 1), in bytes, rounded up to 64; each content keeps its own. Unknown by
    /// default.
    #[arg(long, value_name = "SIZES", help_heading = "Content")]
    compressed: Option<Choice>,
    /// Write each content as often as this file states, in random order: the output of `onefold-lab scan --out`, or a distribution of
    /// DEDISbench. It also decides how long the trace is.
    #[arg(long, value_name = "FILE", help_heading = "Content",
          conflicts_with_all = ["duplication", "duplication_ever", "zero", "locality", "blocks", "requests"])]
    distribution: Option<PathBuf>,
    /// Like a smartphone of SmartDedup's Table 1: 1 to 6, or all. Other options can give what the table leaves open; docs/tracing.md lists
    /// the assumptions.
    #[arg(long, value_name = "ROW|all", value_parser = parse_phones, help_heading = "Content",
          conflicts_with_all = [
              "distribution", "blocks", "requests", "duplication", "duplication_ever", "reads", "overwrites", "working_set"
          ])]
    phone: Option<Phones>,
    /// Part of the distribution, or of the phone's trace, that is made: 0.001 by default for a phone, 1 for a distribution.
    #[arg(long, value_name = "SHARE", value_parser = parse_scale, help_heading = "Length")]
    scale: Option<f64>,

    /// Range that requests lie in, as 256M, which is the default.
    #[arg(long, value_name = "SIZE", help_heading = "Place")]
    working_set: Option<Size>,
    /// Block writes that go to a block written before; the others go to the end of the written blocks, as on a file system that fills up.
    /// It decides how many blocks are written, and so replaces a working set.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, conflicts_with = "working_set", help_heading = "Place")]
    overwrites: Option<f64>,
    /// The pattern of places; hotspot by default for a phone, otherwise uniform.
    #[arg(long, value_name = "PATTERN", help_heading = "Place")]
    access: Option<Pattern>,
    /// The hot spot: per cent of the requests, and of the blocks that they go to. 90/10 by default.
    #[arg(long, value_name = "REQUESTS/BLOCKS", value_parser = parse_hotspot, help_heading = "Place")]
    hotspot: Option<(f64, f64)>,
    /// Blocks of a request; 1 by default.
    #[arg(long, value_name = "SIZES", help_heading = "Place")]
    request_blocks: Option<Choice>,

    /// Requests that read.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Time")]
    reads: Option<f64>,
    /// Reads and writes a second; 1000 by default.
    #[arg(long, value_name = "N", help_heading = "Time")]
    rate: Option<f64>,
    /// Always the same time between two of them, instead of random times (Poisson).
    #[arg(long, help_heading = "Time")]
    even: bool,
    /// A flush after this many writes.
    #[arg(long, value_name = "N", help_heading = "Time")]
    flush_every: Option<u64>,
    /// A flush after this many milliseconds, where anything was written.
    #[arg(long, value_name = "MS", help_heading = "Time")]
    flush_ms: Option<u64>,
    /// Writes that are FUA.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Time")]
    fua: Option<f64>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The pattern of the requests' places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Pattern {
    /// Anywhere, all alike.
    Uniform,
    /// One after the other, and from the beginning again.
    Sequential,
    /// Most of them to few blocks: see --hotspot.
    Hotspot,
    /// Hot spots as in DEDISbench: NURand of TPC-C.
    Nurand,
}

#[derive(Clone, Debug, PartialEq)]
struct Phones(Vec<Phone>);

fn parse_phones(typed: &str) -> Result<Phones, String> {
    let one = || typed.parse().ok().and_then(Phone::numbered).map(|phone| vec![phone]);
    let phones = if typed == "all" { Some(PHONES.to_vec()) } else { one() };
    phones.map(Phones).ok_or_else(|| format!("there is no phone '{typed}': give 1 to {}, or all", PHONES.len()))
}

/// Parses a share: 0 to 1, or a percentage.
pub fn parse_share(typed: &str) -> Result<f64, String> {
    let number = match typed.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().map(|number| number / 100.0),
        None => typed.parse(),
    };
    number.ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| format!("'{typed}' is no share: give 0 to 1, or 0% to 100%"))
}

fn parse_scale(typed: &str) -> Result<f64, String> {
    parse_share(typed)
        .ok()
        .filter(|share| *share > 0.0)
        .ok_or_else(|| format!("'{typed}' is no part: give above 0 and up to 1, like 0.01 or 1%"))
}

/// Parses a number of requests or blocks.
pub fn parse_count(typed: &str) -> Result<u64, String> {
    let wrong = || format!("'{typed}' is no number of them: give, say, 5000, 64K or 1.5M");
    let is_number = typed.ends_with(|last: char| last.is_ascii_digit() || "kKmMgG".contains(last));
    typed.parse::<Size>().ok().filter(|size| is_number && size.0 > 0).map(|size| size.0).ok_or_else(wrong)
}

fn parse_hotspot(typed: &str) -> Result<(f64, f64), String> {
    let percent = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0).map(|number| number / 100.0);
    let both = typed.split_once('/').and_then(|(requests, blocks)| Some((percent(requests)?, percent(blocks)?)));
    both.ok_or_else(|| format!("'{typed}' is no hot spot: give per cent of requests and of blocks, like 90/10"))
}

#[derive(Debug, Serialize)]
struct Made {
    traces: Vec<One>,
}

#[derive(Debug, Serialize)]
struct One {
    trace: PathBuf,
    /// The origin, as in its metadata.
    made_from: String,
    #[serde(flatten)]
    info: Info,
}

impl Report for Made {
    const NAME: &'static str = "trace-synth";

    fn table(&self) -> Table {
        let percent = |share: Option<f64>| share.map(|share| format!("{:.1} %", share * 100.0));
        self.traces.iter().enumerate().fold(Table::new(), |table, (index, one)| {
            let table = if index > 0 { table.line("") } else { table };
            let (total, shape, duplication) = (&one.info.total, &one.info.shape, &one.info.duplication);
            let mebibytes = |blocks: u64| blocks.checked_mul(BLOCK_BYTES).map_or_else(String::new, |bytes| format!(" ({})", Size(bytes)));
            table
                .row("trace", one.trace.display())
                .row("made from", &one.made_from)
                .row("records", one.info.records)
                .row("block writes", format!("{}{}", total.blocks_written, mebibytes(total.blocks_written)))
                .row("blocks ever written", format!("{}{}", shape.blocks_ever_written, mebibytes(shape.blocks_ever_written)))
                .row_if("duplication, live", percent(duplication.map(|d| d.live)))
                .row_if("duplication, ever", percent(duplication.map(|d| d.ever)))
                .row_if("zero", percent(duplication.map(|d| d.zero)))
                .row_if("overwrites", percent(shape.overwrites))
                .row_if("reads", percent(shape.reads))
                .row("flushes, FUA writes", format!("{}, {}", total.flushes, total.fua))
                .row("duration", format!("{}.{:03} s", one.info.duration_ns / 1_000_000_000, one.info.duration_ns / 1_000_000 % 1000))
        })
    }
}

/// A trace to make.
struct Job {
    folder: PathBuf,
    plan: Plan,
    form: String,
}

impl Arguments {
    fn jobs(&self) -> Outcome<Vec<Job>> {
        if self.scale.is_some() && self.phone.is_none() && self.distribution.is_none() {
            let next = "`--blocks` or `--requests` says how long a trace from parameters is.";
            return Err(Failed::new(Exit::Usage, "--scale is for --phone and --distribution").next(next));
        }
        if self.hotspot.is_some() && self.access.is_some_and(|access| access != Pattern::Hotspot) {
            return Err(Failed::new(Exit::Usage, "--hotspot goes with --access hotspot alone"));
        }
        let form = self.form();
        let Some(Phones(phones)) = &self.phone else {
            let mut plan = Plan { seed: self.seed, ..Plan::default() };
            if let Some(path) = &self.distribution {
                let distribution = read_distribution(path)?.thinned(self.scale.unwrap_or(1.0));
                plan.working_set = distribution.blocks().max(1);
                plan.contents = Contents::Distribution(distribution);
            }
            return Ok(vec![Job { folder: self.out.clone(), plan: self.given(plan), form }]);
        };
        let job = |phone: &Phone| Job {
            folder: if phones.len() > 1 { self.out.join(format!("phone-{}", phone.id)) } else { self.out.clone() },
            plan: self.given(phone.plan(self.scale.unwrap_or(PHONE_SCALE), self.seed)),
            form: format!("{form}: trace {} of SmartDedup (USENIX ATC '19), Table 1", phone.id),
        };
        Ok(phones.iter().map(job).collect())
    }

    /// Returns the origin for the trace's metadata: the options that make a difference.
    fn form(&self) -> String {
        fn shown<T: std::fmt::Display>(value: Option<&T>) -> Option<String> {
            value.map(ToString::to_string)
        }
        let file = self.distribution.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        let access = self.access.as_ref().and_then(clap::ValueEnum::to_possible_value).map(|value| value.get_name().to_owned());
        let options = [
            ("seed", Some(self.seed.to_string())),
            ("blocks", shown(self.blocks.as_ref())),
            ("requests", shown(self.requests.as_ref())),
            ("duplication", shown(self.duplication.as_ref())),
            ("duplication-ever", shown(self.duplication_ever.as_ref())),
            ("zero", shown(self.zero.as_ref())),
            ("locality", shown(self.locality.as_ref())),
            ("compressed", shown(self.compressed.as_ref())),
            ("distribution", file),
            (
                "phone",
                self.phone.as_ref().map(|Phones(phones)| if let [one] = &phones[..] { one.id.to_string() } else { "all".to_owned() }),
            ),
            ("scale", shown(self.scale.as_ref())),
            ("working-set", self.working_set.map(|size| size.0.to_string())),
            ("overwrites", shown(self.overwrites.as_ref())),
            ("access", access),
            ("hotspot", self.hotspot.map(|(requests, blocks)| format!("{}/{}", requests * 100.0, blocks * 100.0))),
            ("request-blocks", shown(self.request_blocks.as_ref())),
            ("reads", shown(self.reads.as_ref())),
            ("rate", shown(self.rate.as_ref())),
            ("even", self.even.then(String::new)),
            ("flush-every", shown(self.flush_every.as_ref())),
            ("flush-ms", shown(self.flush_ms.as_ref())),
            ("fua", shown(self.fua.as_ref())),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some(format!(" --{name} {}", value?).trim_end().to_owned()));
        given.fold("synth".to_owned(), |form, option| form + &option)
    }

    /// Returns the plan with the user's options instead of its own.
    fn given(&self, mut plan: Plan) -> Plan {
        if let Some(length) = self.blocks.map(Length::Blocks).or(self.requests.map(Length::Requests)) {
            plan.length = length;
        }
        if let Contents::Shares { zero, live, ever, skew } = &mut plan.contents {
            *zero = self.zero.unwrap_or(*zero);
            *skew = self.locality.unwrap_or(*skew);
            if self.duplication.is_some() || self.duplication_ever.is_some() {
                (*live, *ever) = (self.duplication, self.duplication_ever);
            }
        }
        let (requests, blocks) = self.hotspot.unwrap_or((0.9, 0.1));
        let hot = Access::HotSpot { requests, blocks };
        plan.access = match self.access {
            Some(Pattern::Uniform) => Access::Uniform,
            Some(Pattern::Sequential) => Access::Sequential,
            Some(Pattern::Nurand) => Access::NuRand,
            Some(Pattern::Hotspot) => hot,
            None if self.hotspot.is_some() => hot,
            None => plan.access,
        };
        if self.compressed.is_some() {
            plan.compressed.clone_from(&self.compressed);
        }
        if let Some(size) = self.working_set {
            plan.working_set = size.0 / BLOCK_BYTES;
        }
        plan.overwrites = self.overwrites.or(plan.overwrites);
        plan.sizes = self.request_blocks.clone().unwrap_or(plan.sizes);
        plan.reads = self.reads.unwrap_or(plan.reads);
        plan.rate = self.rate.unwrap_or(plan.rate);
        plan.even = self.even;
        if self.flush_every.is_some() || self.flush_ms.is_some() {
            plan.flushes.every_writes = self.flush_every;
            plan.flushes.every_ns = self.flush_ms.map(|ms| ms.saturating_mul(1_000_000));
        }
        plan.flushes.fua = self.fua.unwrap_or(plan.flushes.fua);
        plan
    }
}

fn read_distribution(path: &Path) -> Outcome<Distribution> {
    let text = std::fs::read_to_string(path).map_err(|error| failed(TraceError::Io { path: path.to_path_buf(), source: error }, path))?;
    Distribution::from_text(&text).map_err(|reason| {
        let next = "`onefold-lab scan PATH --out FILE` makes one.";
        Failed::new(Exit::Damaged, format!("{} is no distribution that can be read: {reason}", path.display())).next(next)
    })
}

impl Job {
    fn make(self, stop: &AtomicBool) -> Outcome<One> {
        let wrong = |error: onefold_trace::synth::Wrong| Failed::new(Exit::Usage, error.to_string());
        let mut synth = Synth::new(self.plan).map_err(wrong)?;
        let header = synth.header(&self.form);
        let mut counter = Counter::new();
        transfer::make(&self.folder, header.clone(), Some(stop), |push| {
            for record in synth.by_ref() {
                counter.count(&record, Unit::Block);
                push(&record)?;
            }
            synth.shortfall().map_or(Ok(()), |why| Err(TraceError::Shortfall(why)))
        })
        .map_err(|error| failed(error, &self.folder))?;
        Ok(One { trace: self.folder, made_from: self.form, info: counter.info(&header) })
    }
}

/// Makes.
///
/// # Errors
/// When the options contradict each other, their wishes are impossible, or a folder is there already.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let traces = arguments.jobs()?.into_iter().map(|job| job.make(&stop)).collect::<Outcome<Vec<One>>>()?;
    print(&Made { traces }, Style::of(arguments.json));
    Ok(())
}
