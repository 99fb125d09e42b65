//! The figures that are replayed: 6, 8, 10, 11 and 12.

use crate::laboratory::index::lab::{Found, share};
use crate::laboratory::index::naming::Naming;
use crate::laboratory::index::policy::Policy;
use crate::laboratory::papers::drawing::chart::figure;
use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group};
use crate::laboratory::papers::drawing::html::{Table, change, number, percent};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::smartdedup::facts::{Contributor, Facts};
use crate::laboratory::papers::studies::smartdedup::published::CONTRIBUTORS;
use crate::laboratory::papers::studies::smartdedup::study::{Filtered, MEMORY_MIB, NO_RUN, RUNS, Study};
use crate::laboratory::replay::scheme::Scheme;

/// The device model of the page: the closest to a telephone's flash.
pub const DEVICE: &str = "tablet";
/// A share of fewer duplicates says nothing.
pub const DUPLICATES_MIN: u64 = 100;

/// Returns the deduplication ratio: the duplicates that were found, of all writes.
#[must_use]
pub fn ratio(found: &Found, out_of_line: bool) -> f64 {
    share(found.inline + if out_of_line { found.out_of_line } else { 0 }, found.writes)
}

/// Formats Table 4 for the recorded traces.
#[must_use]
pub fn segments(results: &Results) -> String {
    let heads = [
        "trace",
        "seconds",
        "GB written",
        "GB read",
        "reads : writes",
        "GB ever written",
        "GB of contents",
        "duplicates ever, no zeros",
        "in the phase \"run\", live",
    ];
    let mut table = Table::new("Table 4: the recorded traces", heads);
    for Study { trace, facts, .. } in results.studies.iter().filter(|study| !study.is_made) {
        let Facts { seconds, blocks_written, blocks_read, blocks_ever_written, contents, duplication, .. } = facts;
        #[allow(clippy::cast_precision_loss)] // counts of one trace are far below 2^52
        let gb = |blocks: u64| number(Some(blocks as f64 * 4096.0 / 1e9), 3);
        table.row([
            trace.clone(),
            number(Some(*seconds), 0),
            gb(*blocks_written),
            gb(*blocks_read),
            number(Some(share(*blocks_read, *blocks_written)), 2),
            gb(*blocks_ever_written),
            gb(*contents),
            percent(Some(*duplication)),
            results.parts_of(trace),
        ]);
    }
    table.html()
}

/// Formats Table 2, published and for the recorded traces.
#[must_use]
pub fn contributors(studies: &[Study]) -> String {
    let heads = ["trace", "first", "second", "third"];
    let mut published = Table::new("Table 2, published: type of file, its share of the writes, duplicates among them", heads);
    for (trace, parts) in (1..).zip(CONTRIBUTORS) {
        let cells = parts.map(|(name, writes, duplicates)| format!("{name}, {writes} %, {duplicates} %"));
        published.row(std::iter::once(format!("Trace {trace}")).chain(cells));
    }
    let here = |caption, of: fn(&Facts) -> &Vec<Contributor>| {
        let mut table = Table::new(caption, heads);
        for study in studies.iter().filter(|study| !study.is_made) {
            let shown = |part: &Contributor| format!("{}, {:.0} %, {:.0} %", part.name, part.writes * 100.0, part.duplication * 100.0);
            let cells = of(&study.facts).iter().map(shown).chain(std::iter::repeat("–".to_owned()));
            table.row(std::iter::once(study.trace.clone()).chain(cells.take(3)));
        }
        table.html()
    };
    let streams = here("Table 2, here: D file data, M metadata, J journal; share of the writes, duplicates among them", |f| &f.streams);
    published.html() + &streams + &here("Table 2, here: by process", |facts| &facts.processes)
}

/// Formats Figure 6 from the replays in virtual time.
#[must_use]
pub fn replays(results: &Results) -> String {
    let schemes = [Scheme::OrderedAnticipate, Scheme::Packed];
    let mut heads = vec!["trace".to_owned(), "duplicates and zeros".to_owned(), "of them".to_owned()];
    for scheme in schemes {
        heads.extend(["found in line", "faster", "writes saved", "space saved"].map(|head| format!("{head}, {}", scheme.name())));
    }
    let mut table = Table::new(format!("Figure 6: replays on the model {DEVICE}, weak persistence, against no deduplication"), heads);
    for trace in results.traces() {
        let of = |scheme| results.of(&trace, scheme, Mode::Weak, DEVICE);
        let duplicates = of(Scheme::None).map(|timed| {
            let shares = timed.report.measured.duplication.shares;
            shares.live + shares.zero
        });
        let mut row = vec![trace.clone(), percent(duplicates), results.parts_of(&trace)];
        for scheme in schemes {
            let report = of(scheme).map(|timed| &timed.report);
            row.extend([
                percent(report.and_then(|report| report.measured.duplication.found)),
                change(results.time_ratio(&trace, scheme, Mode::Weak, DEVICE).map(|ratio| 1.0 / ratio - 1.0)),
                percent(report.map(|report| 1.0 - report.measured.write_ratio)),
                percent(report.and_then(|report| report.space.ratio).map(|ratio| 1.0 - ratio)),
            ]);
        }
        table.row(row);
    }
    table.html()
}

/// Formats Figure 8: a chart for each made trace, and a table for every trace.
#[must_use]
pub fn policies(studies: &[Study]) -> String {
    let names: Vec<&str> = Policy::GLOBAL.map(Policy::name).into_iter().filter(|name| *name != Policy::Full.name()).collect();
    let mut out = String::new();
    for study in studies.iter().filter(|study| study.is_made) {
        let group = |mib| {
            let of = |name: &&str| study.policies.iter().find(|run| run.memory_mib == mib && run.policy == *name);
            let bar =
                |(series, name)| Bar { label: String::new(), parts: vec![(series, of(name).map(|run| 100.0 * ratio(&run.found, false)))] };
            let marks = vec![(0, 100.0 * ratio(&study.full, false))];
            Group { label: format!("{mib} MiB"), bars: names.iter().enumerate().map(bar).collect(), marks }
        };
        let chart = Chart {
            id: &format!("policies-{}", study.trace.replace(' ', "-")),
            title: format!("Figure 8: duplicates found in line, {}", study.trace),
            axis: "per cent of all writes",
            series: &names,
            marks: &["everything in memory"],
            top: 50.0,
            bar_width: 14,
            groups: MEMORY_MIB.map(group).to_vec(),
        };
        out += &figure(&chart);
    }
    studies.iter().fold(out, |out, study| out + &policy_table(study).html())
}

fn policy_table(study: &Study) -> Table {
    let heads = ["memory, policy", "in line", "with work out of line", "looked up", "read", "written", "fingerprints in memory"];
    let full = percent(Some(ratio(&study.full, false)));
    let mut table = Table::new(format!("Figure 8, {}: of all writes; everything in memory finds {full}", study.trace), heads);
    for run in &study.policies {
        table.row([
            format!("{} MiB, {}", run.memory_mib, run.policy),
            percent(Some(ratio(&run.found, false))),
            percent(Some(ratio(&run.found, true))),
            run.found.io.looked_up.to_string(),
            run.found.io.read.to_string(),
            run.found.io.written.to_string(),
            run.found.resident_max.to_string(),
        ]);
    }
    table
}

/// The share of the processor time for names that is saved while these writes got their fingerprint at once.
#[must_use]
pub fn time_saved(found: &Found, naming: &Naming) -> f64 {
    naming.saved_by_deferring() * (1.0 - share(found.fingerprinted, found.writes))
}

/// Formats Figures 10 and 11.
#[must_use]
pub fn adapting(studies: &[Study], naming: &Naming) -> String {
    let of = |caption, found: fn(&Study) -> &Found| {
        let heads =
            ["trace", "fingerprinted at once", "time for names saved", "deduplication ratio, never adapting", "adapting", "points lost"];
        let mut table = Table::new(caption, heads);
        for study in studies.iter().filter(|study| study.full.inline >= DUPLICATES_MIN) {
            let (found, all) = (found(study), ratio(&study.full, false));
            table.row([
                study.trace.clone(),
                percent(Some(share(found.fingerprinted, found.writes))),
                percent(Some(time_saved(found, naming))),
                percent(Some(all)),
                percent(Some(ratio(found, false))),
                number(Some(100.0 * (all - ratio(found, false))), 1),
            ]);
        }
        table.html()
    };
    let time = format!(
        "<p>A fingerprint takes {:.0} ns here ({:.0} alone), a checksum {:.0} ns: while everything is deferred, {:.0} % of the time is \
         saved.</p>\n",
        naming.fingerprint_ns,
        naming.fingerprint_alone_ns,
        naming.checksum_ns,
        100.0 * naming.saved_by_deferring()
    );
    of("Figure 10: by the level of duplication", |study| &study.by_duplication)
        + &of("Figure 11: by the battery, full at the first write, at 20 % at the last", |study| &study.by_battery)
        + &time
}

/// Formats Figure 12.
#[must_use]
pub fn runs(studies: &[Study]) -> String {
    let mut heads = vec!["trace".to_owned()];
    heads.extend(RUNS.map(|run| format!("extents, {run}")));
    heads.extend(RUNS[1..].iter().map(|run| format!("duplicates lost, {run}")));
    let caption = "Figure 12: extents as a multiple of those without links, and duplicates lost, by the shortest run that is linked to";
    let mut table = Table::new(caption, heads);
    for study in studies {
        let of = |min_run| study.filtered.iter().find(|filtered: &&Filtered| filtered.min_run == min_run);
        let (Some(all), Some(none)) = (of(1), of(NO_RUN)) else { continue };
        if all.duplicates < DUPLICATES_MIN {
            continue;
        }
        let mut row = vec![study.trace.clone()];
        row.extend(RUNS.map(|run| number(of(run).map(|filtered| share(filtered.extents, none.extents)), 2)));
        row.extend(RUNS[1..].iter().map(|&run| percent(of(run).map(|filtered| 1.0 - share(filtered.duplicates, all.duplicates)))));
        table.row(row);
    }
    table.html()
}
