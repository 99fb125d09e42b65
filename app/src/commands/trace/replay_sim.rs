//! `trace replay --sim`: a trace sent to the engine or a rival in virtual time, and all that comes of it counted.

use super::replay::Arguments;
use super::teller;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::server::plan::PersistenceName;
use onefold_sim::replay::run::Plan;
use onefold_sim::replay::scheme::Scheme;
use onefold_sim::replay::timed::{Timed, blocks_of, name_of, replay_timed};
use onefold_trace::model::Model;
use onefold_trace::source::Source;
use serde::Serialize;
use std::num::NonZeroU64;

/// What can be chosen, in `--help`.
pub const CHOICES: &str = "\
Schemes:
  none               no deduplication
  journal            deduplication with a redo journal
  shadow             Dmdedup's copy-on-write trees
  ordered-only       Onefold's ordered commits, every page written right after its commit
  ordered            with updates that nobody waits for delayed by 30 s
  ordered-anticipate with 1 ms of waiting for more to commit besides: the default of a volume in mode `ordered`, and here
  log                Onefold's log, with one flush for a synced write, and nothing compressed
  carried            with one compressed block in a unit that records it, where one is small enough
  packed             with as many as fit, and large commits packed, too: the default of a volume

Device models: instant takes no time; tablet and 850pro are those of OrderMergeDedup, section 4.1; emmc, ufs, sata and
nvme are orders of magnitude.";

/// What only a simulated replay has.
#[derive(Debug, clap::Args)]
pub struct Simulated {
    /// What serves the requests.
    #[arg(long, value_name = "NAME", value_parser = Scheme::named, default_value = Scheme::OrderedAnticipate.name(), conflicts_with = "on")]
    scheme: Scheme,
    /// When a write is acknowledged: weak, on admission; strong, when it is durable. (An attached volume has its own persistence.)
    #[arg(long, value_enum, value_name = "MODE", default_value = "weak", conflicts_with = "on")]
    persistence: PersistenceName,
    /// How long the simulated device takes.
    #[arg(long, value_name = "NAME", value_parser = Model::named, default_value = "instant", conflicts_with = "on")]
    device_model: Model,
    /// Size of the volume, in blocks of 4 KiB. Default: that of the traced device, from the trace or NAME.json beside it.
    #[arg(long, value_name = "N", conflicts_with = "on")]
    blocks: Option<NonZeroU64>,
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
/// Where the trace does not fit the volume, or where the replay finds what must not be.
pub fn run(arguments: &Arguments, mut source: Source) -> Outcome {
    let Arguments { trace, outstanding, verify, simulated, json, .. } = arguments;
    let blocks = match simulated.blocks {
        Some(blocks) => blocks.get(),
        None => blocks_of(trace, &source.header())
            .map_err(|error| Failed::new(Exit::Usage, error).next("`--blocks` says how large the volume is."))?,
    };
    let plan = Plan {
        scheme: simulated.scheme,
        persistence: simulated.persistence.into(),
        model: simulated.device_model,
        outstanding_max: outstanding.get(),
        verify: *verify,
        ..Plan::default()
    };
    let wrong = |error| Failed::new(Exit::Damaged, format!("{}: {error}", trace.display()));
    let mut tell = teller();
    let mut sound = source.sound(arguments.reading.lenient, &mut tell);
    let timed = replay_timed(&name_of(trace), &mut sound, blocks, &plan).map_err(wrong)?;
    print(&Replayed { malformed_lines: sound.tally().malformed, timed }, Style::of(*json));
    Ok(())
}
