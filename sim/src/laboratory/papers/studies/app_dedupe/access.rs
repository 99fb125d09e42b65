//! Figure 6: sequential and random reads and writes of a file, in the time of a model of a tablet's flash.
//!
//! 1. A benchmark of storage sends one read at a time; its writes are buffered, with one flush in the end. Sequential requests are of
//!    128 KiB, random ones of a block, each block once.
//! 2. The paper does not say which content its benchmark writes. Here a share of the blocks repeats earlier content: the mean redundancy of
//!    its applications. They lie in runs: the shorter these are, the more a file is scattered by deduplication.
//! 3. For reads and for random writes the file was written before, in sequence, with the same content; random writes bring new content.
//! 4. Virtual time has no processor time.

use crate::laboratory::counts::names::mix;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use crate::laboratory::replay::plan::Plan;
use crate::laboratory::replay::run::replay;
use crate::laboratory::replay::scheme::{IndexLimits, Scheme};
use fastrand::Rng;
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use onefold_trace::model::Model;
use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// The model of the medium: the flash of a tablet, whose latencies by size are published.
pub const MODEL: &str = "tablet";
/// The blocks of the file, and of a sequential request.
pub const FILE_BLOCKS: u64 = 8192;
const REQUEST_BLOCKS: u64 = 32;
/// The redundant blocks in a thousand: the mean of the paper's Table I.
pub const REDUNDANT_PER_MILLE: u64 = 331;
/// The lengths of runs of duplicates, in blocks.
pub const RUNS: [u64; 3] = [1, 8, 32];
/// The shortest run that is linked to, for a volume that is to keep files in sequence.
const MIN_RUN: u64 = 8;
/// The first content of random writes: the file has none of them.
const OVERWRITES: u64 = 1 << 40;

/// A pattern of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    SequentialWrite,
    SequentialRead,
    RandomWrite,
    RandomRead,
}

impl Pattern {
    /// All patterns, in the order of reports.
    pub const ALL: [Self; 4] = [Self::SequentialWrite, Self::SequentialRead, Self::RandomWrite, Self::RandomRead];

    /// Returns the name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SequentialWrite => "sequential writes",
            Self::SequentialRead => "sequential reads",
            Self::RandomWrite => "random writes",
            Self::RandomRead => "random reads",
        }
    }

    /// Returns the records of a trace with runs of this length.
    fn records(self, run: u64) -> Vec<Record> {
        let file = contents(run);
        let sequence = || (0..FILE_BLOCKS).step_by(REQUEST_BLOCKS as usize);
        let written = sequence().map(|first| write(first, &file[first as usize..(first + REQUEST_BLOCKS) as usize]));
        let (flush, mark) = (request(Op::Flush, 0, 0), Record { note: Some("run".into()), ..request(Op::Mark, 0, 0) });
        let mut random: Vec<u64> = (0..FILE_BLOCKS).collect();
        Rng::with_seed(2).shuffle(&mut random);
        let phase: Vec<Record> = match self {
            Self::SequentialWrite => return std::iter::once(mark).chain(written).chain([flush]).collect(),
            Self::SequentialRead => sequence().map(|first| request(Op::Read, first, REQUEST_BLOCKS)).collect(),
            Self::RandomRead => random.into_iter().map(|lbn| request(Op::Read, lbn, 1)).collect(),
            Self::RandomWrite => {
                let overwrites = random.into_iter().zip(&file).map(|(lbn, content)| write(lbn, &[OVERWRITES + content]));
                overwrites.chain([flush.clone()]).collect()
            }
        };
        written.chain([flush, mark]).chain(phase).collect()
    }
}

/// Returns the content of each block of the file: of its runs, [`REDUNDANT_PER_MILLE`] repeat an earlier one that does not.
fn contents(run: u64) -> Vec<u64> {
    let (mut draw, mut unique) = (Rng::with_seed(1), Vec::new());
    let first_of = |n: u64| {
        let is_repeat = (n + 1) * REDUNDANT_PER_MILLE / 1000 > n * REDUNDANT_PER_MILLE / 1000;
        if is_repeat {
            return unique[draw.usize(0..unique.len())];
        }
        unique.push(n * run);
        n * run
    };
    (0..FILE_BLOCKS / run).map(first_of).collect::<Vec<u64>>().into_iter().flat_map(|first| first..first + run).collect()
}

fn request(op: Op, lbn: u64, blocks: u64) -> Record {
    Record::new(0, op, Bytes(lbn * BLOCK_BYTES), Bytes(blocks * BLOCK_BYTES))
}

fn write(lbn: u64, contents: &[u64]) -> Record {
    let named = |content: &u64| {
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..8].copy_from_slice(&mix(*content, 0x6163_6365).to_le_bytes());
        Block::named(ContentName::Of(bytes))
    };
    Record { blocks: contents.iter().map(named).collect(), ..request(Op::Write, lbn, contents.len() as u64) }
}

/// A scheme, and the shortest run of duplicates that it links to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub scheme: Scheme,
    pub min_run: u64,
}

impl Setup {
    /// No deduplication; the defaults of a volume in both commit modes; and the default with `--min-run`.
    pub const ALL: [Self; 4] =
        [Self::NONE, Self::of(Scheme::OrderedAnticipate), Self::OURS, Self { scheme: Scheme::Packed, min_run: MIN_RUN }];
    pub const NONE: Self = Self::of(Scheme::None);
    /// The default of a volume, which is judged.
    pub const OURS: Self = Self::of(Scheme::Packed);

    const fn of(scheme: Scheme) -> Self {
        Self { scheme, min_run: 1 }
    }

    /// Returns the name for people.
    #[must_use]
    pub fn name(self) -> String {
        if self.min_run > 1 { format!("{}, --min-run {}", self.scheme.name(), self.min_run) } else { self.scheme.name().to_owned() }
    }
}

/// The result of one replay: its measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessRun {
    pub pattern: Pattern,
    /// The length of the runs of duplicates, in blocks.
    pub run: u64,
    pub setup: String,
    pub virtual_seconds: f64,
    /// The units that reached the device, and those that were read there.
    pub device_units: u64,
    pub read_units: u64,
}

/// A replay to do.
#[derive(Clone, Copy)]
struct Job {
    pattern: Pattern,
    run: u64,
    setup: Setup,
}

impl Job {
    fn name(&self) -> String {
        format!("{}, duplicates in runs of {}, {}", self.pattern.name(), self.run, self.setup.name())
    }

    fn replayed(&self) -> Result<AccessRun, String> {
        let Setup { scheme, min_run } = self.setup;
        let index = IndexLimits { min_run, ..IndexLimits::default() };
        let plan = Plan { scheme, model: Model::named(MODEL)?, index, reads_max: 1, ..Plan::default() };
        let records = self.pattern.records(self.run).into_iter().map(Ok::<_, Infallible>);
        let report = replay("access", records, FILE_BLOCKS * 2, &plan)?;
        let figures = &report.measured;
        if report.phase != "run" || figures.virtual_seconds <= 0.0 {
            return Err("the pattern has no measured phase".to_owned());
        }
        Ok(AccessRun {
            pattern: self.pattern,
            run: self.run,
            setup: self.setup.name(),
            virtual_seconds: figures.virtual_seconds,
            device_units: figures.device_units_all,
            read_units: figures.device_read_units,
        })
    }
}

/// Replays every pattern on this number of threads.
#[must_use]
pub fn run(threads: usize) -> (Vec<AccessRun>, Vec<Failure>) {
    let cases = Pattern::ALL.into_iter().flat_map(|pattern| RUNS.map(|run| (pattern, run)));
    let jobs: Vec<Job> = cases.flat_map(|(pattern, run)| Setup::ALL.map(|setup| Job { pattern, run, setup })).collect();
    parted(on_threads(&jobs, |_| 1, threads, |job| job.replayed().map_err(|error| Failure { replay: job.name(), error })))
}

/// Returns the throughput as a multiple of that without deduplication.
#[must_use]
pub fn ratio(runs: &[AccessRun], pattern: Pattern, run: u64, setup: Setup) -> Option<f64> {
    let seconds = |setup: Setup| find(runs, pattern, run, setup).map(|found| found.virtual_seconds);
    Some(seconds(Setup::NONE)? / seconds(setup)?)
}

/// Returns the result of a replay.
#[must_use]
pub fn find(runs: &[AccessRun], pattern: Pattern, run: u64, setup: Setup) -> Option<&AccessRun> {
    runs.iter().find(|found| found.pattern == pattern && found.run == run && found.setup == setup.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_trace::analyze::published::mean_of;
    use std::collections::HashSet;

    #[test]
    fn the_share_of_duplicates_is_the_papers_and_exact() {
        assert!((mean_of(|row| row.redundancy) - REDUNDANT_PER_MILLE as f64 / 10.0).abs() < 0.05);
        for run in RUNS {
            let contents = contents(run);
            let unique = contents.iter().collect::<HashSet<_>>().len() as u64;
            let repeated = FILE_BLOCKS / run * REDUNDANT_PER_MILLE / 1000 * run;
            assert_eq!((contents.len() as u64, FILE_BLOCKS - unique), (FILE_BLOCKS, repeated), "runs of {run}");
            assert!(contents.chunks(run as usize).all(|blocks| blocks.windows(2).all(|two| two[1] == two[0] + 1)), "runs of {run}");
        }
    }

    #[test]
    fn every_pattern_touches_each_block_of_the_file_once_in_its_phase() {
        for pattern in Pattern::ALL {
            let records = pattern.records(1);
            let phase = records.iter().skip_while(|record| record.op != Op::Mark);
            let touched = phase.filter(|record| record.length.0 > 0).flat_map(|record| {
                let first = record.offset.0 / BLOCK_BYTES;
                first..first + record.length.0 / BLOCK_BYTES
            });
            let mut touched: Vec<u64> = touched.collect();
            let is_in_order = touched.is_sorted();
            touched.sort_unstable();
            assert!(touched.into_iter().eq(0..FILE_BLOCKS), "{}", pattern.name());
            assert_eq!(is_in_order, matches!(pattern, Pattern::SequentialWrite | Pattern::SequentialRead), "{}", pattern.name());
        }
    }

    #[test]
    fn without_deduplication_a_read_takes_the_models_time_one_after_the_other() {
        let seconds = |pattern, run| Job { pattern, run, setup: Setup::NONE }.replayed().expect("it runs").virtual_seconds;
        let (blocks, requests) = (FILE_BLOCKS as f64, (FILE_BLOCKS / REQUEST_BLOCKS) as f64);
        assert!((seconds(Pattern::RandomRead, 1) - blocks * 270e-6).abs() < 2e-3);
        assert!((seconds(Pattern::SequentialRead, 1) - requests * 1450e-6).abs() < 2e-3);
    }
}
