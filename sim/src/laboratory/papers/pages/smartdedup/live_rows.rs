//! The rows that are judged by what was measured live: Figures 3, 5 and 9. Figure 3 is judged on a volume with the paper's memory as it is
//! counted there, with a volume beside it that has no more in all; the others on the latter.

use crate::laboratory::papers::drawing::html::change;
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::smartdedup::live::{
    BARE, Distributed, EqualReads, Fio, LITTLE, Live, Mix, PAPER, PASSTHROUGH, VOLUME, change_of, equal_change, processor_change,
    reads_change,
};
use crate::laboratory::papers::studies::smartdedup::published::{MOST_DUPLICATES, PERCENTILES, PROCESSOR, QUARTER};
use crate::laboratory::papers::studies::workloads::of_trace;
use crate::laboratory::papers::verdict::{Judged, Row, RowResult};
use crate::laboratory::replay::scheme::Scheme;

/// The least changes of throughput of writes and reads without duplicates; the largest share of metadata in all units.
const NO_DUPLICATES: (f64, f64) = (-0.02, 0.01);
const UNIQUE: &str = "16_fio_dup0";
const NOTHING: &str = "not measured in this run: ./dev bench smartdedup-fio smartdedup-mixes dedisbench-live measures it";

/// Returns the rows.
#[must_use]
pub fn rows(paper: &'static str, results: &Results) -> Vec<Row> {
    let of = |published, goal, judged: Option<Judged>| {
        Row::new(paper, published, goal, judged.unwrap_or_else(|| (NOTHING.to_owned(), RowResult::NotMeasured)))
    };
    let live = &results.live;
    vec![
        of("no duplicates: −3.8 % throughput; +9 % of EXT4's metadata writes", "≤ −2 %; ≤ 1 % of all units", no_duplicates(results)),
        of("25 % duplicates: +16.9 % write, +38.2 % read throughput (13.4 × at the highest duplication)", "more, on both", quarter(live)),
        of("25 % duplicates: 95th percentile −18.5 % (writes), −18.7 % (reads)", "less, on both", percentiles(live)),
        of(
            "Figure 5: processor +3.3 % (Mix 1), +1.7 % (Mix 2), 3.5 MB of memory",
            "no more processor time than the paper's",
            mixes(&live.mixes),
        ),
        of(
            "Figure 9, DEDISbench: up to +54.4 % write, +33.6 % read throughput, 45.0 % of the space and 41.6 % of the writes saved",
            "the same at most duplicates",
            distributed(&live.distributed).or_else(|| dedisbench(&live.dedisbench)),
        ),
    ]
}

/// Returns the run with this share of duplicates on a volume with the paper's memory, on a slowed store if there is one.
fn counted(all: &[Fio], duplicates_percent: f64) -> Option<&Fio> {
    of_setup(all, PAPER, duplicates_percent)
}

/// Returns that with as little memory in all.
fn little(all: &[Fio], duplicates_percent: f64) -> Option<&Fio> {
    of_setup(all, LITTLE, duplicates_percent)
}

fn of_setup<'a>(all: &'a [Fio], setup: &str, duplicates_percent: f64) -> Option<&'a Fio> {
    let is_it = |fio: &&Fio| fio.setup == setup && (fio.duplicates_percent - duplicates_percent).abs() < 0.01;
    all.iter().filter(is_it).max_by_key(|fio| fio.store != BARE)
}

/// Describes the throughput of writes and reads against passthrough.
fn throughput(fio: &Fio, live: &Live) -> String {
    let writes = change(change_of(fio, &live.fio, |fio| fio.write_mib_per_second));
    let reads = change(reads_change(fio, live));
    format!("{} on the {} store, {} %: writes {writes}, reads {reads}", fio.setup, fio.store, fio.duplicates_percent)
}

/// Describes the volume with little memory in all, and the default one, beside a run.
fn beside(fio: &Fio, live: &Live) -> String {
    let others = [LITTLE, VOLUME].into_iter().filter_map(|setup| of_setup(&live.fio, setup, fio.duplicates_percent));
    others.fold(throughput(fio, live), |text, other| text + "; " + &throughput(other, live))
}

fn no_duplicates(results: &Results) -> Option<Judged> {
    let unique = of_trace(UNIQUE).and_then(|w| results.figures(w, Scheme::OrderedAnticipate, Mode::Weak));
    let metadata = unique.map(|figures| figures.metadata_per_unit.values().sum::<f64>());
    let units = metadata
        .map(|share| format!("replay of {UNIQUE}, a stand-in for the paper's metadata: {:.2} % of all units are metadata", share * 100.0));
    let is_little = metadata.is_none_or(|share| share <= NO_DUPLICATES.1);
    let all = &results.live.fio;
    let slower = counted(all, 0.0).and_then(|fio| {
        let slower = [change_of(fio, all, |fio| fio.write_mib_per_second)?, reads_change(fio, &results.live)?];
        Some((beside(fio, &results.live), slower.into_iter().fold(f64::INFINITY, f64::min)))
    });
    match (units, slower) {
        (None, None) => None,
        (Some(units), None) => Some((units, RowResult::StandIn(is_little))),
        (units, Some((text, slowest))) => {
            let text = units.map_or_else(|| text.clone(), |units| format!("{text}; {units}"));
            Some((text, RowResult::of(slowest >= NO_DUPLICATES.0 && is_little)))
        }
    }
}

fn quarter(live: &Live) -> Option<Judged> {
    let all = &live.fio;
    let fio = counted(all, 25.0)?;
    let writes = change_of(fio, all, |fio| fio.write_mib_per_second)?;
    let reads = reads_change(fio, live)?;
    let most = all.iter().map(|fio| fio.duplicates_percent).fold(0.0, f64::max);
    let highest = counted(all, most).filter(|_| most > 25.0).map(|fio| format!("; {}", throughput(fio, live)));
    let measured = beside(fio, live) + &highest.unwrap_or_default() + &equal(&live.equal);
    Some((measured, RowResult::of(writes >= QUARTER.0 && reads >= QUARTER.1)))
}

/// Describes reads with as many bytes of cache by PBN as the bare store has by LBN.
fn equal(all: &[EqualReads]) -> String {
    let volumes: Vec<String> = all
        .iter()
        .filter_map(|of| Some((of, equal_change(of, all)?)))
        .filter(|(of, _)| of.setup == VOLUME)
        .map(|(of, faster)| format!("{} %, {}: {}", of.duplicates_percent, of.load, change(Some(faster))))
        .collect();
    if volumes.is_empty() { String::new() } else { format!("; reads with the same bytes of cache: {}", volumes.join(", ")) }
}

/// Judges the percentiles. Those of writes say something of the device where its dirty pages are bounded.
fn percentiles(live: &Live) -> Option<Judged> {
    let all = &live.fio;
    let fio = counted(all, 25.0)?;
    let reads = change_of(fio, all, |fio| fio.read_p95_us)?;
    let writes = change_of(fio, all, |fio| fio.write_p95_us)?;
    let of_reads = format!("{} on the {} store: reads {} ({:.0} µs)", fio.setup, fio.store, change(Some(reads)), fio.read_p95_us);
    Some(match fio.dirty_bytes {
        Some(bytes) => (
            format!(
                "{of_reads}, writes {} ({:.0} µs) with {} KiB of dirty pages at most",
                change(Some(writes)),
                fio.write_p95_us,
                bytes >> 10
            ),
            RowResult::of(reads <= PERCENTILES.1 && writes <= PERCENTILES.0),
        ),
        None => {
            (format!("{of_reads}; a write ends in the page cache, and says nothing of the device"), RowResult::of(reads <= PERCENTILES.1))
        }
    })
}

fn mixes(all: &[Mix]) -> Option<Judged> {
    let of = |number, setup: &str| all.iter().find(|mix| mix.mix == number && mix.setup == setup);
    let mut list = Vec::new();
    let mut is_as_little = true;
    for (number, most) in PROCESSOR {
        let more = processor_change(of(number, LITTLE)?, all)?;
        is_as_little &= more <= most;
        let shown = [LITTLE, VOLUME].into_iter().filter_map(|setup| {
            let mix = of(number, setup)?;
            Some(format!("{setup} {}, {:.1} MiB resident", change(processor_change(mix, all)), mix.peak_mib))
        });
        list.push(format!("Mix {number}: {}", shown.collect::<Vec<_>>().join("; ")));
    }
    Some((list.join(". ") + "; the battery is not measured", RowResult::of(is_as_little)))
}

/// Judges the load with the distribution of scanned data, on a volume with the paper's memory as it is counted there.
fn distributed(all: &[Distributed]) -> Option<Judged> {
    let most = all.iter().map(|run| run.duplicates_percent).fold(0.0, f64::max);
    let of = |setup: &str| all.iter().find(|run| run.setup == setup && (run.duplicates_percent - most).abs() < 0.01);
    let base = of(PASSTHROUGH)?;
    let changes = |run: &Distributed| {
        let faster = |value: fn(&Distributed) -> f64| value(run) / value(base) - 1.0;
        (faster(|run| run.write_mib_per_second), faster(|run| run.read_mib_per_second), run.saved.unwrap_or(0.0), 1.0 - run.units_ratio)
    };
    let (writes, reads, space, units) = changes(of(PAPER)?);
    let is_met = writes >= MOST_DUPLICATES.0 && reads >= MOST_DUPLICATES.1 && space >= MOST_DUPLICATES.2 && units >= MOST_DUPLICATES.3;
    let shown = [PAPER, LITTLE, VOLUME].into_iter().filter_map(|setup| {
        let (writes, reads, space, units) = changes(of(setup)?);
        Some(format!(
            "{setup}: writes {}, reads {}, space saved {:.1} %, units saved {:.1} %",
            change(Some(writes)),
            change(Some(reads)),
            space * 100.0,
            units * 100.0
        ))
    });
    let measured = format!(
        "the distribution of {} with {most} % duplicates and DEDISbench's hot spots, on the {} store; {}",
        base.tree,
        base.store,
        shown.collect::<Vec<_>>().join("; ")
    );
    Some((measured, RowResult::StandIn(is_met)))
}

fn dedisbench(all: &[Fio]) -> Option<Judged> {
    let most = all.iter().map(|fio| fio.duplicates_percent).fold(0.0, f64::max);
    let fio = little(all, most)?;
    let writes = change_of(fio, all, |fio| fio.write_mib_per_second)?;
    let reads = change_of(fio, all, |fio| fio.read_mib_per_second)?;
    let saved = |fio: &Fio| (fio.saved.unwrap_or(0.0), -change_of(fio, all, |fio| fio.units_ratio).unwrap_or(0.0));
    let (space, units) = saved(fio);
    let is_met = writes >= MOST_DUPLICATES.0 && reads >= MOST_DUPLICATES.1 && space >= MOST_DUPLICATES.2 && units >= MOST_DUPLICATES.3;
    let shown = [LITTLE, VOLUME].into_iter().filter_map(|setup| {
        let fio = of_setup(all, setup, most)?;
        let (space, units) = saved(fio);
        let of = |value: fn(&Fio) -> f64| change(change_of(fio, all, value));
        let (writes, reads) = (of(|fio| fio.write_mib_per_second), of(|fio| fio.read_mib_per_second));
        let speed = format!("{setup} on the {} store, {most} %: writes {writes}, reads {reads}", fio.store);
        Some(format!("{speed}, space saved {:.1} %, units saved {:.1} %", space * 100.0, units * 100.0))
    });
    let measured = format!("a hot spot of fio's stands in for DEDISbench and its images; {}", shown.collect::<Vec<_>>().join("; "));
    Some((measured, RowResult::StandIn(is_met)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fio(setup: &str, store: &str, duplicates_percent: f64, mib_per_second: f64) -> Fio {
        Fio {
            setup: setup.to_owned(),
            store: store.to_owned(),
            mib: 128,
            duplicates_percent,
            write_mib_per_second: mib_per_second,
            dirty_bytes: Some(1 << 20),
            write_p95_us: 1000.0 / mib_per_second,
            read_mib_per_second: mib_per_second,
            read_p50_us: 10.0,
            read_p95_us: 1000.0 / mib_per_second,
            other_read_mib_per_second: None,
            late_percent: None,
            saved: (setup != "passthrough").then_some(0.46),
            units_ratio: if setup == "passthrough" { 1.0 } else { 0.54 },
        }
    }

    fn mix(mix: u8, setup: &str, cpu_seconds: f64) -> Mix {
        Mix { mix, setup: setup.to_owned(), mib: 4096, seconds: 30.0, cpu_seconds, peak_mib: 20.0 }
    }

    fn verdicts(live: Live) -> Vec<RowResult> {
        rows("paper", &Results { live, ..Results::default() }).into_iter().map(|row| row.verdict).collect()
    }

    /// With this throughput and processor time where the bare store has 100 each.
    fn live(throughput: f64, cpu_seconds: f64) -> Live {
        let runs = |percent| {
            [("passthrough", 100.0), (PAPER, throughput), (LITTLE, throughput)]
                .map(|(setup, speed)| fio(setup, "tablet", percent, speed))
                .to_vec()
        };
        let mixes = [1, 2].into_iter().flat_map(|n| [mix(n, "passthrough", 100.0), mix(n, LITTLE, cpu_seconds)]);
        Live { cores: 2, fio: [runs(0.0), runs(25.0)].concat(), mixes: mixes.collect(), dedisbench: runs(46.0), ..Live::default() }
    }

    #[test]
    fn what_was_measured_live_decides() {
        use RowResult::{Holds, Missed, NotMeasured, StandIn};
        assert_eq!(verdicts(live(160.0, 101.0)), [Holds, Holds, Holds, Holds, StandIn(true)]);
        assert_eq!(verdicts(live(92.0, 127.0)), [Missed, Missed, Missed, Missed, StandIn(false)]);
        assert_eq!(verdicts(live(120.0, 102.0)), [Holds, Missed, Missed, Missed, StandIn(false)], "each goal by itself");
        assert_eq!(verdicts(Live::default()), [NotMeasured; 5]);
    }

    #[test]
    fn little_memory_in_all_stands_beside_and_decides_nothing() {
        let mut live = live(160.0, 101.0);
        live.fio.iter_mut().filter(|fio| fio.setup == LITTLE).for_each(|fio| fio.write_mib_per_second = 50.0);
        let row = rows("paper", &Results { live, ..Results::default() }).swap_remove(1);
        assert_eq!(row.verdict, RowResult::Holds);
        assert!(row.measured.contains("memory 3500K on the tablet store, 25 %: writes -50.0 %"), "{}", row.measured);
    }

    #[test]
    fn reads_in_turn_are_preferred_to_those_of_runs_that_lie_apart() {
        let read = |setup: &str, read_mib_per_second| EqualReads {
            setup: setup.to_owned(),
            store: "tablet".to_owned(),
            mib: 256,
            duplicates_percent: 25.0,
            load: "in the order of the writes".to_owned(),
            read_mib_per_second,
            read_p95_us: 1.0,
            hits: 0.2,
            cache_mib: None,
        };
        let with = |speed| {
            let reads = vec![read(PASSTHROUGH, 10.0), read(PAPER, speed)];
            verdicts(Live { reads, ..live(160.0, 101.0) })[1]
        };
        assert_eq!((with(14.0), with(13.3)), (RowResult::Holds, RowResult::Missed));
    }

    #[test]
    fn percentiles_of_writes_count_where_dirty_pages_are_bounded() {
        let mut live = live(160.0, 101.0);
        live.fio.iter_mut().for_each(|fio| fio.write_p95_us = 4.0);
        assert_eq!(verdicts(live.clone())[2], RowResult::Missed);
        live.fio.iter_mut().for_each(|fio| fio.dirty_bytes = None);
        assert_eq!(verdicts(live)[2], RowResult::Holds, "the page cache's");
    }

    #[test]
    fn a_scanned_distribution_is_preferred_to_fios_hot_spot() {
        let run = |setup: &str, speed, saved| Distributed {
            setup: setup.to_owned(),
            store: "tablet".to_owned(),
            mib: 256,
            duplicates_percent: 46.0,
            tree: "/usr".to_owned(),
            write_mib_per_second: speed,
            write_p99_us: 1.0,
            read_mib_per_second: speed,
            read_p99_us: 1.0,
            saved,
            units_ratio: if saved.is_some() { 0.54 } else { 1.0 },
            late_percent: 1.0,
        };
        let with = |speed| {
            let distributed = vec![run(PASSTHROUGH, 100.0, None), run(PAPER, speed, Some(0.46))];
            verdicts(Live { distributed, ..live(92.0, 127.0) })[4]
        };
        assert_eq!((with(160.0), with(140.0)), (RowResult::StandIn(true), RowResult::StandIn(false)));
    }

    #[test]
    fn a_slowed_store_says_more_than_a_bare_one() {
        let mut live = live(160.0, 101.0);
        live.fio.extend([fio("passthrough", BARE, 25.0, 100.0), fio(PAPER, BARE, 25.0, 50.0)]);
        assert_eq!(verdicts(live)[1], RowResult::Holds);
    }
}
