//! A trace in the policy lab, and with the filter of short runs.
//!
//! 1. A recorded trace is taken whole. A made one is like a row of Table 1, with a part of its writes, and gets the same part of the memory
//!    and of the batch, so that the index has room for as many of the fingerprints.
//! 2. Made traces are not filtered by runs: their duplicates are drawn one by one, so they have none.

use super::facts::Facts;
use crate::laboratory::index::adapting::Adapt;
use crate::laboratory::index::lab::{Found, Plan as Trial, run as try_policy};
use crate::laboratory::index::policy::Policy;
use crate::laboratory::index::writes::Writes;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use crate::laboratory::replay::run::Plan;
use crate::laboratory::replay::scheme::IndexLimits;
use crate::laboratory::replay::timed::{name_of, replay_file};
use onefold_trace::header::Unit;
use onefold_trace::info::{Counter, Info};
use onefold_trace::record::Record;
use onefold_trace::source::{ReadOptions, Source};
use onefold_trace::synth::phone::Phone;
use onefold_trace::synth::{Length, Plan as Made, Synth};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The sizes of memory in Figure 8, in MiB.
pub const MEMORY_MIB: [u64; 6] = [1, 2, 4, 8, 16, 40];
/// The blocks that the work out of line takes at once, as in the paper's skipped buffer of 0.5 MB.
const BATCH: u64 = 16_384;
/// The lengths of run in Figure 12; and one that no request has.
pub const RUNS: [u64; 4] = [1, 2, 3, 4];
pub const NO_RUN: u64 = 1 << 20;
/// The number of writes that each of the paper's long traces would have in the lab, of which a made trace is a part.
pub const WHOLE_WRITES: u64 = 20_000_000;

/// A trace of the study.
#[derive(Clone, Debug)]
pub enum Subject {
    Recorded(PathBuf),
    /// A row of Table 1, with this number of block writes.
    Made(Phone, u64),
}

/// A policy with an amount of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PolicyRun {
    pub policy: String,
    /// The memory as the figure has it, and the part of it that this trace was given.
    pub memory_mib: u64,
    pub index_bytes: u64,
    pub found: Found,
}

/// A replay in which only runs of this length were linked to in line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Filtered {
    pub min_run: u64,
    pub extents: u64,
    /// The duplicates that were found in line, zeros excluded.
    pub duplicates: u64,
}

/// Everything about a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Study {
    pub trace: String,
    pub is_made: bool,
    pub facts: Facts,
    /// With every fingerprint in memory.
    pub full: Found,
    pub policies: Vec<PolicyRun>,
    /// With every fingerprint in memory, and deferred writes.
    pub by_duplication: Found,
    pub by_battery: Found,
    pub filtered: Vec<Filtered>,
}

impl Subject {
    /// Returns the name of the trace.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Recorded(path) => name_of(path),
            Self::Made(phone, _) => format!("like trace {}", phone.id),
        }
    }

    /// The expected duration compared with other studies.
    fn cost(&self) -> u64 {
        match self {
            Self::Recorded(path) => path.metadata().map_or(0, |data| data.len() / 16),
            Self::Made(_, writes) => *writes,
        }
    }

    fn read(&self) -> Result<(Info, Writes), String> {
        match self {
            Self::Recorded(path) => {
                let mut source = Source::open(path, &ReadOptions::default()).map_err(|error| error.to_string())?;
                let (unit, mut failed) = (source.unit(), None);
                let records = source.by_ref().map_while(|record| record.map_err(|error| failed = Some(error)).ok());
                let (counter, writes) = count(records, unit)?;
                match failed {
                    Some(error) => Err(error.to_string()),
                    None => Ok((counter.info(&source.header()), writes)),
                }
            }
            Self::Made(phone, blocks) => {
                // The policies see no reads.
                let plan = Made { length: Length::Blocks(*blocks), reads: 0.0, ..phone.plan(1.0, 1) };
                let synth = Synth::new(plan).map_err(|error| error.to_string())?;
                let header = synth.header("made");
                let (counter, writes) = count(synth, Unit::Block)?;
                Ok((counter.info(&header), writes))
            }
        }
    }

    /// The part of the whole that the trace is, and so of memory and batch.
    fn part(&self, of: u64) -> u64 {
        match self {
            Self::Recorded(_) => of,
            Self::Made(_, writes) => (of * writes / WHOLE_WRITES).max(1),
        }
    }

    fn study(&self) -> Result<Study, String> {
        let (info, writes) = self.read()?;
        let batch = usize::try_from(self.part(BATCH)).map_err(|error| error.to_string())?;
        let full = |adapt| try_policy(&writes, Trial { policy: Policy::Full, index_bytes: 0, active: 1, batch: 0, adapt });
        let policies = MEMORY_MIB.into_iter().flat_map(|mib| {
            let writes = &writes;
            Policy::GLOBAL.into_iter().filter(|&policy| policy != Policy::Full).map(move |policy| {
                let index_bytes = self.part(mib << 20);
                let found = try_policy(writes, Trial { policy, index_bytes, active: 1, batch, adapt: Adapt::Never });
                PolicyRun { policy: policy.name().to_owned(), memory_mib: mib, index_bytes, found }
            })
        });
        Ok(Study {
            trace: self.name(),
            is_made: matches!(self, Self::Made(..)),
            facts: Facts::from(&info),
            full: full(Adapt::Never),
            policies: policies.collect(),
            by_duplication: full(Adapt::Duplication),
            by_battery: full(Adapt::Battery),
            filtered: self.filtered()?,
        })
    }

    fn filtered(&self) -> Result<Vec<Filtered>, String> {
        let Self::Recorded(path) = self else { return Ok(Vec::new()) };
        let filtered = |min_run| {
            let index = IndexLimits { min_run, is_out_of_line: false, ..IndexLimits::default() };
            let report = replay_file(path, &Plan { index, ..Plan::default() })?.report;
            let shares = report.whole.duplication;
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count, from its share
            let duplicates = ((shares.found.unwrap_or(0.0) - shares.shares.zero) * report.whole.client_units as f64).round() as u64;
            Ok(Filtered { min_run, extents: report.extents.unwrap_or(0), duplicates })
        };
        RUNS.into_iter().chain([NO_RUN]).map(filtered).collect()
    }
}

fn count(records: impl Iterator<Item = Record>, unit: Unit) -> Result<(Counter, Writes), String> {
    let mut counter = Counter::new();
    let writes = Writes::of(records.inspect(|record| counter.count(record, unit)), unit)?;
    Ok((counter, writes))
}

/// Studies the traces on this number of threads.
#[must_use]
pub fn study(subjects: &[Subject], threads: usize) -> (Vec<Study>, Vec<Failure>) {
    let results = on_threads(subjects, Subject::cost, threads, |subject| {
        let result = subject.study().map_err(|error| Failure { replay: format!("{}, policies", subject.name()), error });
        eprintln!("papers: {}: policies, adapting, runs", subject.name());
        result
    });
    parted(results)
}
