//! `trace replay`: sends a trace to a device as it was recorded.

use crate::live::figures::Figures;
use crate::live::{self, Failure, Found, Plan};
use crate::traces::{FORMS, Reading, failed, malformed_shown};
use onefold::device::Method;
use onefold::device::backing::{Access, Backing, PATIENCE};
use onefold::exit::{Exit, Failed, Outcome};
use onefold::files::stopped_by_signals;
use onefold::heartbeat;
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold::volume;
use onefold_engine::memory::Accountant;
use onefold_trace::error::TraceError;
use onefold_trace::source::Source;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Replay a trace on a device, with content made of the fingerprints
///
/// Requests are sent with the think times that were recorded. A request that was recorded after a flush waits until that flush is
/// acknowledged. The content of the device is lost. `onefold-lab replay` replays on a simulated device.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
pub struct Arguments {
    /// Folder, recording, or text of any form; `-` for standard input.
    trace: PathBuf,
    /// Block device or file to replay on: an attached volume, a disk, a loop device.
    #[arg(long, value_name = "DEVICE")]
    on: PathBuf,
    /// Writes that may wait for their acknowledgement: at most 32.
    #[arg(long, value_name = "N", default_value = "32")]
    outstanding: NonZeroUsize,
    /// Compare what the trace reads, and in the end every block that it wrote.
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    reading: Reading,
    /// Replay even over what is there.
    #[arg(long)]
    force: bool,
    /// Leave think times out; what depends on an answer still waits for it.
    #[arg(long)]
    no_think: bool,
    /// Idle this long where a phase begins and in the end, so that delayed writes of a volume happen within the phase that caused them.
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    idle: u64,
    /// The method of reading and writing the device.
    #[arg(long, value_enum, value_name = "METHOD", default_value_t)]
    io: Method,
    /// Memory of requests that are under way.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    memory: Size,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Replayed {
    trace: PathBuf,
    device: PathBuf,
    malformed_lines: u64,
    /// Writes that may wait for their answers.
    outstanding: usize,
    /// Whether think times were kept.
    think: bool,
    #[serde(flatten)]
    found: Found,
}

impl Report for Replayed {
    const NAME: &'static str = "trace-replay";

    fn table(&self) -> Table {
        let Found { io, whole, phases, cpu_seconds, verified_blocks } = &self.found;
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        let table = Table::new()
            .row("trace", self.trace.display())
            .row("device", format!("{} ({io})", self.device.display()))
            .row_if("malformed lines", Some(self.malformed_lines).filter(|lines| *lines > 0))
            .row("writes outstanding", format!("{} at most", self.outstanding))
            .row("think times", if self.think { "as recorded" } else { "left out" })
            .row("duration", format!("{:.3} s", whole.seconds))
            .row("CPU", format!("{cpu_seconds:.2} s of this client"))
            .row_if("read back", verified_blocks.map(|blocks| format!("{blocks} blocks, all as they were written")));
        let row = |name: &str, f: &Figures| {
            let mut row = vec![if name.is_empty() { "-".to_owned() } else { name.to_owned() }, format!("{:.1}", f.seconds)];
            let counts = [f.client_units, f.client_writes, f.client_flushes, f.client_fua, f.client_reads, f.client_discards];
            row.extend(counts.map(|count| count.to_string()));
            row.extend([f.duplication.live, f.duplication.ever, f.duplication.zero].map(share));
            row
        };
        let mut rows: Vec<_> = phases.iter().map(|phase| row(&phase.name, &phase.figures)).collect();
        rows.push(row("all", whole));
        let heads = ["phase", "seconds", "units", "writes", "flushes", "FUA", "reads", "discards", "live", "ever", "zero"];
        let table = table.line("").grid(&heads, rows);
        let us = |us: f64| format!("{us:.0}");
        let latencies = whole.latency_us.iter().map(|(kind, l)| {
            let mut row = vec![(*kind).to_owned(), l.count.to_string()];
            row.extend([l.mean, l.p50, l.p90, l.p99, l.p999, l.max].map(us));
            row
        });
        table.line("").grid(&["latency, us", "requests", "mean", "50 %", "90 %", "99 %", "99.9 %", "most"], latencies.collect())
    }
}

/// The largest number of changes that wait for their answers, whatever is asked for: a client's queue.
const OUTSTANDING_MAX: usize = 32;

/// Replays.
///
/// # Errors
/// When the trace cannot be read, or the device holds something, fails, or returns other data than was written.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { trace, on, .. } = arguments;
    let mut source = Source::open(trace, &arguments.reading.how(None)).map_err(|error| failed(error, trace))?;
    let outstanding = arguments.outstanding.get();
    if outstanding > OUTSTANDING_MAX {
        return Err(Failed::new(Exit::Usage, format!("--outstanding {outstanding}: on a device at most {OUTSTANDING_MAX}")));
    }
    let Size(memory_bytes) = arguments.memory;
    if memory_bytes < Accountant::BYTES_MIN {
        return Err(Failed::new(
            Exit::Usage,
            format!("--memory {}: at least {} are needed", arguments.memory, Size(Accountant::BYTES_MIN)),
        ));
    }
    let stop = stopped_by_signals()?;
    let backing = Arc::new(open(on, arguments.force)?);
    if let Some(needed) = source.header().device_bytes.filter(|bytes| bytes.get() > backing.facts().length) {
        let (needed, length) = (Size(needed.get()), Size(backing.facts().length));
        return Err(Failed::new(Exit::State, format!("{} has {length}, the traced device had {needed}", on.display()))
            .next("`onefold-lab trace cut --lbn` takes what fits."));
    }
    let plan = Plan {
        outstanding_max: outstanding,
        think: !arguments.no_think,
        idle: Duration::from_secs(arguments.idle),
        verify: arguments.verify,
        method: arguments.io,
        memory_bytes,
    };
    let mut show = malformed_shown();
    let mut sound = source.sound(arguments.reading.lenient, &mut show);
    let found = live::replay(backing, &mut sound, &plan, &stop).map_err(|failure| broken(failure, trace, on))?;
    let malformed = sound.tally().malformed;
    let (trace, device) = (trace.clone(), on.to_owned());
    let replayed = Replayed { trace, device, malformed_lines: malformed, outstanding, think: plan.think, found };
    print(&replayed, Style::of(arguments.json));
    Ok(())
}

/// Opens a store that holds nothing, or any store where the user insists.
fn open(path: &Path, force: bool) -> Outcome<Backing> {
    // Data written there is only measured, and nobody keeps it.
    let backing = Backing::open_patiently(path, Access::WriteBuffered, PATIENCE)?;
    let content = volume::content(path, &backing).map_err(|e| Failed::system(format!("cannot read {}", path.display()), e))?;
    match content {
        Some(content) if !force => Err(Failed::new(Exit::Refused, format!("{} holds something: {content}", path.display()))
            .next("It would be lost. --force replays all the same.")),
        _ => heartbeat::look_first(&backing).map(|()| backing),
    }
}

fn broken(failure: Failure<TraceError>, trace: &Path, device: &Path) -> Failed {
    match failure {
        Failure::Trace(error) => failed(error, trace),
        Failure::Interrupted => Failed::new(Exit::System, "interrupted; what was sent stays on the device"),
        Failure::Verify(_) => Failed::new(Exit::Damaged, format!("{}: {failure}", device.display())),
        Failure::Request { .. } | Failure::Method(_) => Failed::new(Exit::System, format!("{}: {failure}", device.display())),
    }
}
