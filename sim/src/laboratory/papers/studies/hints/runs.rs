//! The replays of the made loads, with hints and without.
//!
//! 1. Each load runs on the default of mode `ordered`, on `packed`, and on `shadow`, Dmdedup's design with its cache of metadata bounded
//!    (`rivals/dedup/looking.rs`); and once without deduplication.
//! 2. A cache has 1, 2, 5 or 10 per cent of an estimate of Dmdedup's metadata. Onefold gets as much for its index (`--index-memory`), and
//!    four times as much in all (`--memory`), or the least that works.
//! 3. Metadata are flushed after each write: strong persistence, 32 writes outstanding; or weak, with a flush of the client after each
//!    thousand writes.
//! 4. A replay is an error if the hint did not act where it was given, or acted where it was not.
//! 5. Figures are those of the phase `run`, with what it leaves to be done later. Its time has no processor time.

use super::cases::{Commit, Hint, Load};
use super::published::CACHE_PERCENT;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use crate::laboratory::replay::report::Report;
use crate::laboratory::replay::run::{Plan, replay_on};
use crate::laboratory::replay::scheme::{IndexLimits, ReadyScheme, Scheme, ready, shadow_with_cache};
use onefold_engine::memory::Accountant;
use onefold_engine::units::Bytes;
use onefold_trace::model::Model;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// The schemes that are compared.
pub const SCHEMES: [Scheme; 3] = [Scheme::OrderedAnticipate, Scheme::Packed, Scheme::Shadow];
/// The models of the medium. On the first one a write takes little more than its time on the bus, as on the paper's disk drive that is
/// written in sequence, and a look-up as long as on its SSD; on the second one a write takes longer than a look-up, which hides behind it.
pub const MODELS: [&str; 2] = ["sata", "850pro"];

/// The result of one replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HintRun {
    pub figure: u8,
    pub duplicates: String,
    pub scheme: String,
    pub model: String,
    pub commit: Commit,
    pub hint: Hint,
    pub cache_percent: u64,
    pub cache_bytes: u64,
    /// The block writes of the dd, of which the size of each load follows; and those of this phase.
    pub writes: u64,
    pub client_units: u64,
    pub virtual_seconds: f64,
    pub device_units: u64,
    pub read_units: u64,
    /// The units of tables that were read: look-ups that went to the medium. Reads of data are no look-ups.
    pub look_ups: u64,
    pub device_flushes: u64,
    /// The share of the client's units that were found to be duplicates.
    pub found: Option<f64>,
}

/// A replay to do.
#[derive(Clone, Copy, Debug)]
struct Job {
    load: Load,
    scheme: Scheme,
    model: &'static str,
    commit: Commit,
    hint: Hint,
    percent: u64,
}

/// Lists the replays: all of Figures 3 and 4; of Figure 5 those with a flush after each thousand writes.
fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for (load, model) in Load::ALL.into_iter().flat_map(|load| MODELS.map(|model| (load, model))) {
        let commits: &[Commit] = if load.figure() == 5 { &[Commit::Thousand] } else { &[Commit::Each, Commit::Thousand] };
        let hints: &[Hint] = if load.figure() == 5 { &[Hint::Off, Hint::Metadata, Hint::All] } else { &[Hint::Off, Hint::All] };
        for &commit in commits {
            jobs.push(Job { load, scheme: Scheme::None, model, commit, hint: Hint::Off, percent: CACHE_PERCENT[0] });
            for scheme in SCHEMES {
                for &hint in hints {
                    jobs.extend(CACHE_PERCENT.map(|percent| Job { load, scheme, model, commit, hint, percent }));
                }
            }
        }
    }
    jobs
}

impl Job {
    fn name(&self) -> String {
        let Self { load, scheme, model, commit, hint, percent } = self;
        let (figure, duplicates) = (load.figure(), load.duplicates());
        format!(
            "Hints, Figure {figure}, {duplicates}, {}, {model}, {}, hint {}, cache {percent} %",
            scheme.name(),
            commit.name(),
            hint.name()
        )
    }

    /// The approximate microseconds a block: only the order of jobs depends on it.
    const fn cost(&self) -> u64 {
        match (self.scheme, self.commit) {
            (Scheme::Shadow, Commit::Each) => 60,
            (Scheme::Shadow, Commit::Thousand) => 8,
            _ => 3,
        }
    }

    /// Fails if the hint did not reach the scheme, or one did that was not given.
    fn check_subject(&self, report: &Report) -> Result<(), String> {
        let fact = |name: &str| report.facts.get(name).copied().unwrap_or(0);
        let acted = fact("hashes found prefetched") + fact("blocks without a hash");
        if self.scheme == Scheme::Shadow && (acted > 0) != (self.hint != Hint::Off) {
            return Err(format!("the hint has acted on {acted} blocks"));
        }
        let is_apart = self.hint == Hint::All && !matches!(self.load, Load::Copy(_));
        if is_apart && report.whole.duplication.found.is_some_and(|found| found > 0.0) {
            return Err("duplicates were found of blocks that stay apart".to_owned());
        }
        Ok(())
    }

    fn run(&self, writes: u64) -> Result<HintRun, String> {
        let Self { load, scheme, model, commit, hint, percent } = *self;
        let made = load.made(writes, commit == Commit::Thousand);
        let cache_bytes = made.metadata_bytes() * percent / 100;
        let memory_bytes = (cache_bytes * 4).max(Accountant::BYTES_MIN);
        let (persistence, model) = (commit.persistence(), Model::named(model)?);
        let index = IndexLimits { bytes_max: cache_bytes, ..IndexLimits::default() };
        let hinting = hint.of(load);
        let is_copy = matches!(load, Load::Copy(_));
        let plan = Plan { scheme, persistence, model, memory_bytes, index, hinting, is_copy, ..Plan::default() };
        let ready: ReadyScheme = if scheme == Scheme::Shadow {
            shadow_with_cache(persistence, made.blocks(), memory_bytes, Bytes(cache_bytes))
        } else {
            ready(scheme, persistence, made.blocks(), memory_bytes, index)?
        };
        let report = replay_on(ready, "hints", made.records().map(Ok::<_, Infallible>), &plan)?;
        self.check_subject(&report)?;
        let figures = &report.measured;
        if report.phase != "run" || figures.client_units == 0 {
            return Err("the load has no measured phase".to_owned());
        }
        Ok(HintRun {
            figure: load.figure(),
            duplicates: load.duplicates(),
            scheme: scheme.name().to_owned(),
            model: model.name.to_owned(),
            commit,
            hint,
            cache_percent: percent,
            cache_bytes,
            writes,
            client_units: figures.client_units,
            virtual_seconds: figures.virtual_seconds,
            device_units: figures.device_units_all,
            read_units: figures.device_read_units,
            look_ups: figures.table_read_units,
            device_flushes: figures.device_flushes,
            found: figures.duplication.found,
        })
    }
}

/// Replays every load whose dd has this number of block writes, on this number of threads.
#[must_use]
pub fn run(writes: u64, threads: usize) -> (Vec<HintRun>, Vec<Failure>) {
    let results = on_threads(&jobs(), Job::cost, threads, |job| job.run(writes).map_err(|error| Failure { replay: job.name(), error }));
    parted(results)
}

/// Returns the run of a load.
#[must_use]
pub fn find<'a>(
    runs: &'a [HintRun],
    (load, model): (Load, &str),
    scheme: Scheme,
    commit: Commit,
    hint: Hint,
    percent: u64,
) -> Option<&'a HintRun> {
    runs.iter().find(|run| {
        run.figure == load.figure()
            && run.duplicates == load.duplicates()
            && run.scheme == scheme.name()
            && run.model == model
            && run.commit == commit
            && run.hint == hint
            && run.cache_percent == percent
    })
}
