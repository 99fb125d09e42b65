//! APP-Dedupe's part of the tables that Onefold is judged by.

use crate::laboratory::papers::drawing::html::{change, percent};
use crate::laboratory::papers::results::{Results, range};
use crate::laboratory::papers::studies::app_dedupe::access::{Pattern, RUNS, Setup, ratio};
use crate::laboratory::papers::studies::app_dedupe::live::{More, VOLUME};
use crate::laboratory::papers::studies::app_dedupe::published::{COLLECTIONS, MEMORY, PROCESSOR_MOST, RESPONSES, SEQUENTIAL, WRITES_SAVED};
use crate::laboratory::papers::studies::app_dedupe::runs::{
    Case, LoadRun, OURS, SCHEMES, collections, find, mean, names, response_us, saved, written,
};
use crate::laboratory::papers::studies::recorded::RecordedFigures;
use crate::laboratory::papers::verdict::{Judged, Row, RowResult};
use crate::laboratory::replay::scheme::Scheme;

const PAPER: &str = "APP-Dedupe (section IV.B)";
/// The throughput of reads, and of random writes, that counts as no less.
const ALIKE: f64 = 0.95;

/// Returns the rows.
#[must_use]
pub fn rows(results: &Results) -> Vec<Row> {
    let of = |published, goal, judged| Row::new(PAPER, published, goal, judged);
    let runs: &[LoadRun] = &results.loads;
    vec![
        of("Figure 4: memory +1.6 % in the mean, +2.5 % at most", "no more, of the memory of the paper's phone", memory(results)),
        of("Figure 4: processor at most +2 %", "no more, of one processor", processor(results)),
        of("Figure 5: 45.2 % less data written, in the mean", "the same", less_written(runs)),
        of("Figure 6: sequential writes +11.5 %", "the same, whatever the runs of duplicates", writes(results)),
        of("Figure 6: sequential reads −30.0 %", "within 5 % of no deduplication, whatever the runs of duplicates", reads(results)),
        of("Figure 6: random reads and writes like the baseline's", "at most 5 % slower", random(results)),
        of("sequential reads −30.0 %, live", "within 5 %", live_reads(&results.recorded)),
        of("Figure 7: responses shorter by 6.2 % in the mean, 15.4 % at most", "the same mean", shorter(runs)),
        of("Figure 8: 41.5 % fewer collections in the mean, 58.7 % at most", "the same mean", fewer(runs)),
    ]
}

fn not_replayed() -> Judged {
    ("the loads were not replayed".to_owned(), RowResult::NotMeasured)
}

/// Describes what each of the two modes saves, by the mean and the range.
fn described(runs: &[LoadRun], case: Case, value: fn(&LoadRun) -> f64) -> String {
    let of = |&scheme: &Scheme| {
        let saved = saved(runs, scheme, case, value);
        let (least, most) = range(saved.iter().map(|(_, saved)| *saved))?;
        Some(format!("{} {} ({} to {})", scheme.name(), percent(mean(&saved)), percent(Some(least)), percent(Some(most))))
    };
    SCHEMES[1..].iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// Judges the mean of what the default of a volume saves.
fn judged(runs: &[LoadRun], case: Case, value: fn(&LoadRun) -> f64, wanted: f64, text: impl FnOnce(String) -> String) -> Judged {
    let Some(mean) = mean(&saved(runs, OURS, case, value)) else { return not_replayed() };
    (text(described(runs, case, value)), RowResult::StandIn(mean >= wanted))
}

/// Returns the mean share of redundant writes.
fn redundant(runs: &[LoadRun]) -> Option<f64> {
    let of = |load| Some((load, 1.0 - find(runs, load, Scheme::None, Case::WEAK)?.report.measured.ideal));
    mean(&names(runs).into_iter().filter_map(of).collect::<Vec<_>>())
}

fn less_written(runs: &[LoadRun]) -> Judged {
    judged(runs, Case::WEAK, written, WRITES_SAVED, |saved| {
        format!(
            "{} loads, less written in the mean (least to most): {saved}; redundant are {} of the writes, with zeros",
            names(runs).len(),
            percent(redundant(runs))
        )
    })
}

fn shorter(runs: &[LoadRun]) -> Judged {
    let longer = saved(runs, OURS, Case::STRONG, response_us).iter().filter(|(_, saved)| *saved < 0.0).count();
    judged(runs, Case::STRONG, response_us, RESPONSES.0, |saved| {
        format!(
            "strong persistence on the model of the flash, shorter in the mean (least to most): {saved}; longer with {} in {longer} of {} \
             loads; hashes take no time here",
            OURS.name(),
            names(runs).len()
        )
    })
}

fn fewer(runs: &[LoadRun]) -> Judged {
    let (data, saved) = (mean(&saved(runs, OURS, Case::WEAK, written)), mean(&saved(runs, OURS, Case::WEAK, collections)));
    let for_each = data.zip(saved).filter(|(data, _)| *data > 0.0).map(|(data, saved)| saved / data);
    judged(runs, Case::WEAK, collections, COLLECTIONS.0, |saved| {
        format!(
            "weak persistence on the model of the flash, fewer in the mean (least to most): {saved}; for each per cent of data that {} \
             does not write {:.2} % (paper: {:.2}); where the flash begins with what is held: {}",
            OURS.name(),
            for_each.unwrap_or(0.0),
            COLLECTIONS.0 / WRITES_SAVED,
            described(runs, Case::HELD, collections)
        )
    })
}

/// The changes of a pattern's throughput with the default of a volume, by the length of runs.
fn changes(results: &Results, pattern: Pattern, setup: Setup) -> Vec<f64> {
    RUNS.into_iter().filter_map(|run| ratio(&results.access, pattern, run, setup)).map(|ratio| ratio - 1.0).collect()
}

/// Judges a pattern by its slowest case.
fn judged_access(results: &Results, patterns: &[Pattern], least: f64) -> Judged {
    let all: Vec<f64> = patterns.iter().flat_map(|&pattern| changes(results, pattern, Setup::OURS)).collect();
    let Some((slowest, _)) = range(all.into_iter()) else {
        return ("the patterns were not replayed".to_owned(), RowResult::NotMeasured);
    };
    let shown = |setup: Setup, pattern| {
        let list: Vec<String> = changes(results, pattern, setup).into_iter().map(|more| change(Some(more))).collect();
        format!("{} {}", setup.name(), list.join(", "))
    };
    let of = |&pattern: &Pattern| {
        let setups: Vec<String> = Setup::ALL[1..].iter().map(|&setup| shown(setup, pattern)).collect();
        format!("{}: {}", pattern.name(), setups.join("; "))
    };
    let text = format!(
        "virtual time on a model of flash, duplicates in runs of {} blocks; {}",
        RUNS.map(|run| run.to_string()).join(", "),
        patterns.iter().map(of).collect::<Vec<_>>().join(". ")
    );
    (text, RowResult::StandIn(slowest >= least))
}

fn writes(results: &Results) -> Judged {
    judged_access(results, &[Pattern::SequentialWrite], SEQUENTIAL.0)
}

fn reads(results: &Results) -> Judged {
    judged_access(results, &[Pattern::SequentialRead], ALIKE - 1.0)
}

fn random(results: &Results) -> Judged {
    judged_access(results, &[Pattern::RandomRead, Pattern::RandomWrite], ALIKE - 1.0)
}

/// Judges sequential reads by what was measured live, of which the slowest case counts.
fn live_reads(recorded: &RecordedFigures) -> Judged {
    let names = ["ratio-read", "log-ratio-read", "log-ratio-read-half"];
    let known: Vec<(String, f64)> = names.iter().filter_map(|name| Some((recorded.quoted(name)?, recorded.number(name)?))).collect();
    if known.is_empty() {
        return ("no figure of it is recorded".to_owned(), RowResult::NotMeasured);
    }
    let list: Vec<&str> = known.iter().map(|(text, _)| text.as_str()).collect();
    let measured = format!("against passthrough: {}. A stand-in: fio over NBD on a fast disk, unique content", list.join(", "));
    (measured, RowResult::StandIn(known.iter().all(|(_, ratio)| *ratio >= ALIKE)))
}

/// Judges a cost of the default of a volume by its mean and its most.
fn judged_cost(results: &Results, value: fn(More) -> f64, about: &str, is_met: impl FnOnce(f64, f64) -> bool) -> Judged {
    let live = &results.load_costs;
    let loads = live.loads();
    let mean_and_most = |setup: &str| {
        let values: Vec<(&str, f64)> = loads.iter().filter_map(|load| Some((*load, value(live.more(load, setup)?)))).collect();
        let (_, most) = range(values.iter().map(|(_, value)| *value))?;
        Some((mean(&values)?, most))
    };
    let Some((mean, most)) = mean_and_most(VOLUME) else {
        return ("not measured in this run: ./dev bench load-memory load-processor measures it".to_owned(), RowResult::NotMeasured);
    };
    let shown = |setup: &&str| {
        let (mean, most) = mean_and_most(setup)?;
        Some(format!("{setup} {} in the mean, {} at most", change(Some(mean)), change(Some(most))))
    };
    let setups: Vec<String> = live.setups().iter().filter_map(shown).collect();
    (format!("{about}, {} loads replayed live: {}", loads.len(), setups.join("; ")), RowResult::StandIn(is_met(mean, most)))
}

fn memory(results: &Results) -> Judged {
    let about = "the server's most resident memory beyond that of passthrough, of the 2 GiB of the paper's phone";
    judged_cost(results, |more| more.memory, about, |mean, most| mean <= MEMORY.0 && most <= MEMORY.1)
}

fn processor(results: &Results) -> Judged {
    let about = "the server's processor time beyond that of passthrough, of one processor's while a load ran as it was recorded";
    judged_cost(results, |more| more.processor, about, |_, most| most <= PROCESSOR_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::papers::studies::app_dedupe::access::AccessRun;
    use crate::laboratory::papers::studies::app_dedupe::live::{Cost, LoadCosts, PASSTHROUGH};
    use crate::laboratory::papers::studies::app_dedupe::runs::Begin;
    use crate::laboratory::replay::flash::FlashFigures;
    use crate::laboratory::replay::report::Report;

    fn verdicts(results: &Results) -> Vec<RowResult> {
        rows(results).into_iter().map(|row| row.verdict).collect()
    }

    /// A load on the bare flash, and on the default of a volume with this part of its units, collections and times.
    fn load(part: f64) -> Vec<LoadRun> {
        let of = |scheme: Scheme, outstanding, part: f64| {
            let mut report = Report { trace: "mail".to_owned(), scheme: scheme.name().to_owned(), outstanding, ..Report::default() };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small and positive
            let count = (1000.0 * part) as u64;
            let mut flash = FlashFigures::default();
            (report.measured.device_units_all, flash.counts.collections, flash.response_us.mean) = (count, count, 1000.0 * part);
            report.measured.flash = Some(flash);
            LoadRun { begin: Begin::Full, flash_bytes: 0, report }
        };
        [None, Some(32)].into_iter().flat_map(|way| [of(Scheme::None, way, 1.0), of(OURS, way, part)]).collect()
    }

    fn access(write: f64, others: f64) -> Vec<AccessRun> {
        let cases = Pattern::ALL.into_iter().flat_map(|pattern| RUNS.map(|run| (pattern, run)));
        let of = |pattern, run, setup: Setup, faster: f64| AccessRun {
            pattern,
            run,
            setup: setup.name(),
            virtual_seconds: 1.0 / faster,
            device_units: 0,
            read_units: 0,
        };
        let both = |(pattern, run)| {
            let faster = if pattern == Pattern::SequentialWrite { write } else { others };
            [of(pattern, run, Setup::NONE, 1.0), of(pattern, run, Setup::OURS, faster)]
        };
        cases.flat_map(both).collect()
    }

    fn costs_of(mib: f64, seconds: f64) -> LoadCosts {
        let cost = |setup: &str, peak_mib, cpu_seconds| Cost {
            load: "mail".to_owned(),
            setup: setup.to_owned(),
            load_seconds: 100.0,
            cpu_seconds,
            peak_mib,
        };
        LoadCosts { cores: 2, machine_mib: 1.0, costs: vec![cost(PASSTHROUGH, 10.0, 1.0), cost(VOLUME, 10.0 + mib, 1.0 + seconds)] }
    }

    #[test]
    fn each_figure_is_judged_by_the_papers_values() {
        use RowResult::{NotMeasured, StandIn};
        let good = Results { loads: load(0.5), access: access(1.2, 0.96), load_costs: costs_of(30.0, 1.9), ..Results::default() };
        let [met, missed] = [StandIn(true), StandIn(false)];
        assert_eq!(verdicts(&good), [met, met, met, met, met, met, NotMeasured, met, met]);
        let poor = Results { loads: load(0.95), access: access(1.1, 0.94), load_costs: costs_of(33.0, 2.1), ..Results::default() };
        assert_eq!(verdicts(&poor), [missed, missed, missed, missed, missed, missed, NotMeasured, missed, missed]);
        let between = Results { loads: load(0.56), load_costs: costs_of(40.0, 0.0), ..Results::default() };
        assert_eq!(verdicts(&between), [missed, met, missed, NotMeasured, NotMeasured, NotMeasured, NotMeasured, met, met]);
        assert_eq!(verdicts(&Results::default()), [NotMeasured; 9]);
    }

    #[test]
    fn what_was_measured_live_of_reads_counts_by_its_slowest_case() {
        let verdict = |figures: &[(&str, f64)]| {
            let line = |(name, figure): &(&str, f64)| format!("2026-01-01\t0123456789ab\t?\t?\t{name}\t{figure}\tratio\tnone\t./dev\n");
            live_reads(&RecordedFigures::parse(&figures.iter().map(line).collect::<String>()).expect("it is a table")).1
        };
        assert_eq!(verdict(&[("ratio-read", 0.96)]), RowResult::StandIn(true));
        assert_eq!(verdict(&[("ratio-read", 1.0), ("log-ratio-read", 0.8)]), RowResult::StandIn(false));
        assert_eq!(verdict(&[]), RowResult::NotMeasured);
    }

    /// The project's own figures measure it.
    #[test]
    fn the_projects_figures_judge_reads() {
        let path = [env!("CARGO_MANIFEST_DIR"), "..", "docs", "figures.tsv"].iter().collect::<std::path::PathBuf>();
        let recorded = RecordedFigures::read(&path).expect("the figures come along");
        assert_ne!(live_reads(&recorded).1, RowResult::NotMeasured);
    }
}
