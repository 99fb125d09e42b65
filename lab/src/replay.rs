//! `onefold-lab replay`: sends a trace to the engine or a rival in virtual time, and counts all effects.

use crate::traces::{FORMS, Reading, failed, malformed_shown};
use onefold::attachment::plan::parse_index_memory;
use onefold::attachment::start::PersistenceName;
use onefold::exit::{Exit, Failed, Outcome};
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_engine::units::BLOCK_BYTES;
use onefold_sim::laboratory::replay::run::Plan;
use onefold_sim::laboratory::replay::scheme::{IndexLimits, Scheme};
use onefold_sim::laboratory::replay::timed::{Timed, blocks_of, name_of, replay_timed};
use onefold_trace::model::Model;
use onefold_trace::source::Source;
use serde::Serialize;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

/// The choices, in `--help`.
const CHOICES: &str = "\
Schemes:
  none               no deduplication
  journal            deduplication with a redo journal
  shadow             Dmdedup's copy-on-write trees
  ordered-only       Onefold's ordered commits, every page written right after its commit
  ordered            with updates that nobody waits for delayed by 30 s
  ordered-period     with 1 ms of waiting for more to commit besides, as in the paper: where more than one write is likely
  ordered-anticipate with shorter waits, too, where those are not likely: the default of a volume in mode `ordered`, and here
  log                Onefold's log, with one flush for a synced write, and nothing compressed
  carried            with one compressed block in a unit that records it, where one is small enough
  packed             with as many as fit, and large commits packed, too: the default of a volume

Device models: instant takes no time; tablet and 850pro are those of OrderMergeDedup, section 4.1; emmc, ufs, sata and
nvme are orders of magnitude.";

/// Replay a trace on the engine or a rival in virtual time, and count what reaches the simulated device
///
/// Requests are sent with the think times that were recorded. A request that was recorded after a flush waits until that flush is
/// acknowledged. The phase `run` of the trace is measured, or all of it where it has none. `onefold-lab trace replay --on` replays on
/// a device.
#[derive(Debug, clap::Args)]
#[command(after_help = CHOICES, after_long_help = format!("{CHOICES}\n\n{FORMS}"))]
pub struct Arguments {
    /// Folder, or text of any form; `-` for standard input.
    trace: PathBuf,
    /// The system that serves the requests.
    #[arg(long, value_name = "NAME", value_parser = Scheme::named, default_value = Scheme::OrderedAnticipate.name())]
    scheme: Scheme,
    /// The moment when a write is acknowledged: weak, on admission; strong, when it is durable.
    #[arg(long, value_enum, value_name = "MODE", default_value = "weak")]
    persistence: PersistenceName,
    /// Writes that may wait for their acknowledgement, under strong persistence.
    #[arg(long, value_name = "N", default_value = "32")]
    outstanding: NonZeroUsize,
    /// Send requests in pieces of at most N blocks of 4 KiB. Default: as they were recorded.
    #[arg(long, value_name = "N")]
    request_blocks: Option<NonZeroU64>,
    /// The model of the simulated device's times.
    #[arg(long, value_name = "NAME", value_parser = Model::named, default_value = "instant")]
    device_model: Model,
    /// Size of the volume, in blocks of 4 KiB. Default: that of the traced device, from the trace or NAME.json beside it.
    #[arg(long, value_name = "N")]
    blocks: Option<NonZeroU64>,
    /// Memory for the index of fingerprints. Default: its share of all memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    index_memory: Option<Size>,
    /// Look for no duplicate out of line: what the index does not find is stored again.
    #[arg(long)]
    no_out_of_line: bool,
    /// Link to a duplicate only within a run of at least N. With more than a write has blocks, nothing is linked to.
    #[arg(long, value_name = "N", default_value = "1")]
    min_run: NonZeroU64,
    /// Read every block in the end, too, and compare it. Reads of the trace are always compared.
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    reading: Reading,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Replayed {
    malformed_lines: u64,
    #[serde(flatten)]
    timed: Timed,
}

impl Report for Replayed {
    const NAME: &'static str = "trace-replay";

    fn table(&self) -> Table {
        let malformed = Some(self.malformed_lines).filter(|lines| *lines > 0);
        Table::new().row_if("malformed lines", malformed).line(self.timed.to_string().trim_end())
    }
}

/// Replays.
///
/// # Errors
/// When the trace cannot be read or does not fit the volume, or when the replay finds a fault.
pub fn run(arguments: &Arguments) -> Outcome {
    let trace = &arguments.trace;
    let mut source = Source::open(trace, &arguments.reading.how(None)).map_err(|error| failed(error, trace))?;
    let blocks = match arguments.blocks {
        Some(blocks) => blocks.get(),
        None => blocks_of(trace, &source.header())
            .map_err(|error| Failed::new(Exit::Usage, error).next("`--blocks` says how large the volume is."))?,
    };
    let plan = Plan {
        scheme: arguments.scheme,
        persistence: arguments.persistence.into(),
        model: arguments.device_model,
        outstanding_max: arguments.outstanding.get(),
        request_bytes_max: arguments.request_blocks.map_or(u64::MAX, |blocks| blocks.get().saturating_mul(BLOCK_BYTES)),
        index: IndexLimits {
            bytes_max: arguments.index_memory.map_or(u64::MAX, |size| size.0),
            is_out_of_line: !arguments.no_out_of_line,
            min_run: arguments.min_run.get(),
        },
        verify: arguments.verify,
        ..Plan::default()
    };
    let wrong = |error| Failed::new(Exit::Damaged, format!("{}: {error}", trace.display()));
    let mut show = malformed_shown();
    let mut sound = source.sound(arguments.reading.lenient, &mut show);
    let timed = replay_timed(&name_of(trace), &mut sound, blocks, &plan).map_err(wrong)?;
    print(&Replayed { malformed_lines: sound.tally().malformed, timed }, Style::of(arguments.json));
    Ok(())
}
