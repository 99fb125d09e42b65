//! `trace replay`: a trace sent again, and all that comes of it counted.

use super::{FORMS, failed, parse_action};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::server::plan::PersistenceName;
use onefold_sim::replay::run::Plan;
use onefold_sim::replay::scheme::Scheme;
use onefold_sim::replay::timed::{Timed, blocks_of, name_of, replay_source};
use onefold_trace::model::Model;
use onefold_trace::source::{How, Source};
use onefold_trace::text::blkparse::Action;
use onefold_trace::text::detect::FormName;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

/// What can be chosen, in `--help`.
const CHOICES: &str = "\
Schemes:
  none               no deduplication
  journal            deduplication with a redo journal
  shadow             Dmdedup's copy-on-write trees
  ordered-only       Onefold's ordered commits, every page written right after its commit
  ordered            with updates that nobody waits for delayed by 30 s
  ordered-anticipate with 1 ms of waiting for more to commit besides: the default of a volume

Device models: instant takes no time; tablet and 850pro are those of OrderMergeDedup, section 4.1; emmc, ufs, sata and
nvme are orders of magnitude.";

/// Replay a trace and count what reaches the device
///
/// Requests are sent with the think times that were recorded, and nothing is sent that was recorded after a flush before
/// that flush is acknowledged. What is measured is the phase `run` of the trace, or all of it where it has none.
#[derive(Debug, clap::Args)]
#[command(after_help = CHOICES, after_long_help = format!("{CHOICES}\n\n{FORMS}"))]
pub struct Arguments {
    /// Folder, or text of any form; `-` for standard input.
    trace: PathBuf,
    #[command(flatten)]
    to: To,
    /// What serves the requests.
    #[arg(long, value_name = "NAME", value_parser = Scheme::named, default_value = Scheme::OrderedAnticipate.name())]
    scheme: Scheme,
    /// When a write is acknowledged: weak, on admission; strong, when it is durable.
    #[arg(long, value_enum, value_name = "MODE", default_value = "weak")]
    persistence: PersistenceName,
    /// Writes that may wait for their acknowledgement under strong persistence.
    #[arg(long, value_name = "N", default_value = "32")]
    outstanding: NonZeroUsize,
    /// How long the simulated device takes.
    #[arg(long, value_name = "NAME", value_parser = Model::named, default_value = "instant")]
    device_model: Model,
    /// Size of the volume, in blocks of 4 KiB. Default: that of the traced device, from the trace or NAME.json beside it.
    #[arg(long, value_name = "N")]
    blocks: Option<NonZeroU64>,
    /// Read every block in the end, too, and compare it. Reads of the trace are always compared.
    #[arg(long)]
    verify: bool,
    /// Form of the text that is read. Default: told from its first lines.
    #[arg(long, value_name = "FORM")]
    form: Option<FormName>,
    /// Events of blkparse that are taken for requests: Q, queued; D, issued; C, completed.
    #[arg(long, value_name = "LETTER", value_parser = parse_action, default_value = "Q")]
    action: Action,
    #[arg(long)]
    json: bool,
}

/// Where to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// A simulated device, in virtual time.
    #[arg(long)]
    sim: bool,
}

impl Report for Timed {
    const NAME: &'static str = "trace-replay";

    fn table(&self) -> Table {
        Table::new().line(self.to_string().trim_end())
    }
}

/// Replays.
///
/// # Errors
/// Where the trace cannot be read or does not fit the volume, or where the replay finds what must not be.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { trace, to, scheme, persistence, outstanding, device_model, blocks, verify, form, action, json } = arguments;
    assert!(to.sim, "there is nothing else yet");
    let how = How { form: *form, action: *action, ..How::default() };
    let source = Source::open(trace, &how).map_err(|error| failed(error, trace))?;
    let blocks = match blocks {
        Some(blocks) => blocks.get(),
        None => blocks_of(trace, &source.header())
            .map_err(|error| Failed::new(Exit::Usage, error).next("`--blocks` says how large the volume is."))?,
    };
    let plan = Plan {
        scheme: *scheme,
        persistence: (*persistence).into(),
        model: *device_model,
        outstanding_max: outstanding.get(),
        verify: *verify,
        ..Plan::default()
    };
    let wrong = |error| Failed::new(Exit::Damaged, format!("{}: {error}", trace.display()));
    print(&replay_source(&name_of(trace), source, blocks, &plan).map_err(wrong)?, Style::of(*json));
    Ok(())
}
