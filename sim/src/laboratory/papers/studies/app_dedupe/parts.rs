//! Section III.B: an index in parts, one for each application, in the policy lab. The loads are applications of one device that take turns.
//!
//! A load by itself has one part, which is the whole index; so the parts are compared where several loads share the memory.

use crate::laboratory::index::adapting::Adapt;
use crate::laboratory::index::lab::{Found, Plan, run as try_policy, share};
use crate::laboratory::index::policy::Policy;
use crate::laboratory::index::streams::Streams;
use crate::laboratory::index::writes::Writes;
use crate::laboratory::papers::drawing::chart::figure;
use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group};
use crate::laboratory::papers::drawing::html::{Table, percent};
use crate::laboratory::papers::studies::parallel::on_threads;
use crate::laboratory::replay::timed::name_of;
use onefold_trace::analyze::By;
use onefold_trace::record::Record;
use onefold_trace::source::{ReadOptions, Source};
use onefold_trace::synth::interleave::{Interleaved, Turn};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Onefold's index; the paper's; and the paper's order of use without a division.
const POLICIES: [Policy; 3] = [Policy::Sweep, Policy::Parts, Policy::Undivided];
/// The sizes of memory for fingerprints, in KiB.
const MEMORY_KIB: [u64; 4] = [256, 1024, 2048, 4096];
/// The length of a turn, in seconds of a load's own time.
const TURN_S: u64 = 10;
/// The requests within which an active application has sent one, and the blocks that the work out of line takes at once.
const ACTIVE: u64 = 64;
const BATCH: usize = 16_384;

/// A policy with an amount of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartsRun {
    pub policy: String,
    pub memory_kib: u64,
    pub found: Found,
}

/// All policies over the loads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartsStudy {
    pub loads: usize,
    /// The duplicates, zeros excluded: what an index with room for everything finds.
    pub duplicates: u64,
    pub runs: Vec<PartsRun>,
}

fn read(load: &Path) -> Result<Vec<Record>, String> {
    let source = Source::open(load, &ReadOptions::default()).map_err(|error| error.to_string())?;
    source.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Runs the policies over the loads at these paths on this number of threads.
///
/// # Errors
/// Fails if a load cannot be read.
pub fn study(loads: &[PathBuf], threads: usize) -> Result<PartsStudy, String> {
    let unit = match loads.first() {
        Some(first) => Source::open(first, &ReadOptions::default()).map_err(|error| error.to_string())?.unit(),
        None => return Ok(PartsStudy::default()),
    };
    let records = loads.iter().map(|load| Ok(read(load)?.into_iter())).collect::<Result<Vec<_>, String>>()?;
    let streams = Streams::new(By::Trace, loads.iter().map(|load| name_of(load)));
    let writes = Writes::divided(Interleaved::new(records, Turn::Time(TURN_S * 1_000_000_000)), unit, streams)?;
    let plan = |policy, index_bytes| Plan { policy, index_bytes, active: ACTIVE, batch: BATCH, adapt: Adapt::Never };
    let full = try_policy(&writes, Plan { batch: 0, ..plan(Policy::Full, 0) });
    let cases: Vec<(Policy, u64)> = POLICIES.into_iter().flat_map(|policy| MEMORY_KIB.map(|kib| (policy, kib))).collect();
    let runs = on_threads(
        &cases,
        |_| 1,
        threads,
        |&(policy, memory_kib)| PartsRun {
            policy: policy.name().to_owned(),
            memory_kib,
            found: try_policy(&writes, plan(policy, memory_kib << 10)),
        },
    );
    Ok(PartsStudy { loads: loads.len(), duplicates: full.inline, runs })
}

impl PartsStudy {
    fn of(&self, policy: Policy, memory_kib: u64) -> Option<&Found> {
        self.runs.iter().find(|run| run.policy == policy.name() && run.memory_kib == memory_kib).map(|run| &run.found)
    }

    /// Formats the chart and the table.
    #[must_use]
    pub fn html(&self) -> String {
        let inline = |policy, kib| self.of(policy, kib).map(|found| share(found.inline, self.duplicates));
        let group = |kib| {
            let bar =
                |(series, policy)| Bar { label: String::new(), parts: vec![(series, inline(policy, kib).map(|found| 100.0 * found))] };
            Group { label: format!("{kib} KiB"), bars: POLICIES.into_iter().enumerate().map(bar).collect(), marks: Vec::new() }
        };
        let caption = format!("Section III.B: duplicates found in line, {} loads in turns of {TURN_S} s", self.loads);
        let chart = Chart {
            id: "loads-parts",
            title: caption.clone(),
            axis: "per cent of all duplicates",
            series: &POLICIES.map(Policy::name),
            marks: &[],
            top: 100.0,
            bar_width: 36,
            groups: MEMORY_KIB.map(group).to_vec(),
        };
        let heads = ["memory, policy", "in line", "with work out of line", "units looked up", "read", "written"];
        let mut table = Table::new(format!("{caption}, of {}", self.duplicates), heads);
        for (kib, policy) in MEMORY_KIB.into_iter().flat_map(|kib| POLICIES.map(|policy| (kib, policy))) {
            let Some(found) = self.of(policy, kib) else { continue };
            table.row([
                format!("{kib} KiB, {}", policy.name()),
                percent(inline(policy, kib)),
                percent(Some(share(found.inline + found.out_of_line, self.duplicates))),
                found.io.looked_up.to_string(),
                found.io.read.to_string(),
                found.io.written.to_string(),
            ]);
        }
        figure(&chart) + &table.html()
    }
}
