//! Figure 3's load in virtual time: SmartDedup's rivals beside Onefold, on the same model of a device.
//!
//! 1. Blocks of 4 KiB are written at random places, each once, as fast as they are taken, and flushed after each 1,000, as often as a
//!    journal commits on such a device. A duplicate has the content of the block written before, as fio's has. Reads are left out: no
//!    rival has a cache of content.
//! 2. All have the paper's memory for fingerprints: 3 MB for Onefold's index, 3.5 MB for CAFTL's and for Dmdedup's metadata.
//! 3. Neighbouring writes are not joined here, as they are live, so that what is left is deduplication and its metadata. Processor time
//!    takes none.

use super::published::{RIVALS, statements};
use crate::laboratory::papers::drawing::html::{Table, change, number, percent};
use crate::laboratory::papers::studies::hints::loads::{FLUSH_WRITES, MadeLoad, Step};
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use crate::laboratory::papers::verdict::{Judged, RowResult, nothing};
use crate::laboratory::replay::run::{Plan, replay_on};
use crate::laboratory::replay::scheme::{IndexLimits, Scheme, ready, shadow_with_cache};
use onefold_engine::settings::Persistence;
use onefold_engine::units::Bytes;
use onefold_trace::model::Model;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// The schemes; the first one is what the others are compared with.
pub const SCHEMES: [Scheme; 6] =
    [Scheme::None, Scheme::Shadow, Scheme::Caftl, Scheme::CaftlNoPreHash, Scheme::OrderedAnticipate, Scheme::Packed];
const DUPLICATES_PERCENT: [u64; 4] = [0, 25, 50, 75];
const DEVICE: &str = "tablet";
const MEMORY_BYTES: u64 = 64 << 20;
const INDEX_BYTES: u64 = 3_000_000;
const METADATA_BYTES: u64 = 3_500_000;
/// The golden ratio as a part of 2^64: a multiple of it that is odd scatters numbers over a power of two.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The result of one replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RivalRun {
    pub scheme: String,
    pub duplicates_percent: u64,
    pub blocks: u64,
    pub virtual_seconds: f64,
    pub device_units: u64,
    pub found: Option<f64>,
}

#[derive(Clone, Copy)]
struct Job {
    scheme: Scheme,
    duplicates_percent: u64,
}

/// Makes the load of this number of blocks, a power of two.
fn load(blocks: u64, duplicates_percent: u64) -> MadeLoad {
    let place = |n: u64| n.wrapping_mul(SCATTER) % blocks;
    let unique = 4 - duplicates_percent / 25;
    let write = |n: u64| Step::Write { lbn: place(n), content: n / 4 * 4 + (n % 4).min(unique - 1), stream: "D" };
    let mut steps = vec![Step::Run];
    for n in 0..blocks {
        steps.push(write(n));
        if (n + 1) % FLUSH_WRITES == 0 || n + 1 == blocks {
            steps.push(Step::Flush);
        }
    }
    MadeLoad { steps }
}

impl Job {
    fn name(&self) -> String {
        format!("SmartDedup, Figure 3, {} %, {}", self.duplicates_percent, self.scheme.name())
    }

    fn run(&self, blocks: u64) -> Result<RivalRun, String> {
        let made = load(blocks, self.duplicates_percent);
        let index = IndexLimits { bytes_max: if self.scheme.is_rival() { METADATA_BYTES } else { INDEX_BYTES }, ..IndexLimits::default() };
        let plan = Plan { scheme: self.scheme, model: Model::named(DEVICE)?, memory_bytes: MEMORY_BYTES, index, ..Plan::default() };
        let ready = if self.scheme == Scheme::Shadow {
            shadow_with_cache(Persistence::Weak, blocks, MEMORY_BYTES, Bytes(METADATA_BYTES))
        } else {
            ready(self.scheme, Persistence::Weak, blocks, MEMORY_BYTES, index)?
        };
        let report = replay_on(ready, "figure 3", made.records().map(Ok::<_, Infallible>), &plan)?;
        let figures = &report.measured;
        if figures.client_units != blocks {
            return Err(format!("{} of {blocks} blocks were written", figures.client_units));
        }
        Ok(RivalRun {
            scheme: self.scheme.name().to_owned(),
            duplicates_percent: self.duplicates_percent,
            blocks,
            virtual_seconds: figures.virtual_seconds,
            device_units: figures.device_units_all,
            found: figures.duplication.found,
        })
    }
}

/// Replays the load with this number of blocks, at most, on each scheme.
#[must_use]
pub fn run(blocks_max: u64, threads: usize) -> (Vec<RivalRun>, Vec<Failure>) {
    let blocks = 1 << blocks_max.max(1024).ilog2();
    let jobs: Vec<Job> =
        SCHEMES.into_iter().flat_map(|scheme| DUPLICATES_PERCENT.map(|duplicates_percent| Job { scheme, duplicates_percent })).collect();
    let cost = |job: &Job| if job.scheme == Scheme::Shadow { 8 } else { 1 };
    parted(on_threads(&jobs, cost, threads, |job| job.run(blocks).map_err(|error| Failure { replay: job.name(), error })))
}

fn find(runs: &[RivalRun], scheme: Scheme, duplicates_percent: u64) -> Option<&RivalRun> {
    runs.iter().find(|run| (run.scheme.as_str(), run.duplicates_percent) == (scheme.name(), duplicates_percent))
}

/// Returns the change of throughput against no deduplication.
fn faster(runs: &[RivalRun], scheme: Scheme, duplicates_percent: u64) -> Option<f64> {
    let seconds = |scheme| find(runs, scheme, duplicates_percent).map(|run| run.virtual_seconds);
    Some(seconds(SCHEMES[0])? / seconds(scheme)? - 1.0)
}

/// Formats the published statements and the replays.
#[must_use]
pub fn table(runs: &[RivalRun]) -> String {
    let Some(first) = runs.first() else { return statements(&RIVALS) };
    let mib = first.blocks / 256;
    let caption = format!("Figure 3 in virtual time on the model {DEVICE}, {mib} MiB in random blocks of 4 KiB, throughput against none");
    let mut heads = vec!["scheme".to_owned()];
    heads.extend(DUPLICATES_PERCENT.map(|percent| format!("writes, {percent} %")));
    heads.extend(["units written, 25 %", "found, 25 %"].map(str::to_owned));
    let mut table = Table::new(caption, heads);
    for scheme in SCHEMES {
        let mut row = vec![scheme.name().to_owned()];
        row.extend(DUPLICATES_PERCENT.map(|percent| change(faster(runs, scheme, percent))));
        let written = find(runs, scheme, 25);
        #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
        row.push(number(written.map(|run| run.device_units as f64 / run.blocks as f64), 3));
        row.push(percent(written.and_then(|run| run.found)));
        table.row(row);
    }
    statements(&RIVALS) + &table.html()
}

/// Judges writes with 25 % duplicates: Onefold has to be faster than both rivals.
#[must_use]
pub fn judged(runs: &[RivalRun]) -> Judged {
    let writes = |scheme| faster(runs, scheme, 25);
    let all: Option<Vec<f64>> = SCHEMES[1..].iter().map(|&scheme| writes(scheme)).collect();
    let (Some(all), Some(own)) = (all, writes(Scheme::Packed)) else { return nothing() };
    let is_rival = |scheme: &Scheme| scheme.is_rival();
    let best = SCHEMES[1..].iter().zip(&all).filter(|(scheme, _)| is_rival(scheme)).map(|(_, &faster)| faster).fold(f64::MIN, f64::max);
    let list: Vec<String> =
        SCHEMES[1..].iter().zip(&all).map(|(scheme, &faster)| format!("{} {}", scheme.name(), change(Some(faster)))).collect();
    let measured = format!("virtual time on the model {DEVICE} stands in, writes with 25 %: {}", list.join(", "));
    (measured, RowResult::StandIn(own > best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_has_its_duplicates_and_each_place_once() {
        for percent in DUPLICATES_PERCENT {
            let made = load(1024, percent);
            let written: Vec<(u64, u64)> = made
                .steps
                .iter()
                .filter_map(|step| match *step {
                    Step::Write { lbn, content, .. } => Some((lbn, content)),
                    _ => None,
                })
                .collect();
            let places: std::collections::HashSet<u64> = written.iter().map(|(lbn, _)| *lbn).collect();
            let contents: std::collections::HashSet<u64> = written.iter().map(|(_, content)| *content).collect();
            assert_eq!((places.len(), contents.len() as u64), (1024, 1024 * (100 - percent) / 100), "{percent}");
        }
    }

    #[test]
    fn every_scheme_takes_the_load_and_the_verdict_is_that_of_the_times() {
        let (mut runs, failed) = run(1024, 1);
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(runs.len(), 24);
        let found = |scheme| find(&runs, scheme, 25).and_then(|run| run.found).expect("it was replayed");
        assert!((found(Scheme::Packed) - 0.25).abs() < 0.01 && found(Scheme::CaftlNoPreHash) > 0.24);
        assert!(found(Scheme::Caftl) < 0.01, "each content occurs twice, and the CRC of the first one is all that is known");
        assert!(table(&runs).contains("caftl-without-pre-hashing"));
        let is_met = |runs: &[RivalRun]| judged(runs).1;
        let set = |runs: &mut Vec<RivalRun>, scheme: Scheme, seconds: f64| {
            runs.iter_mut().filter(|run| run.scheme == scheme.name()).for_each(|run| run.virtual_seconds = seconds);
        };
        SCHEMES.into_iter().for_each(|scheme| set(&mut runs, scheme, 10.0));
        set(&mut runs, Scheme::Packed, 9.0);
        assert_eq!(is_met(&runs), RowResult::StandIn(true));
        set(&mut runs, Scheme::Shadow, 8.0);
        assert_eq!(is_met(&runs), RowResult::StandIn(false));
        assert_eq!(is_met(&[]), RowResult::NotMeasured);
    }
}
