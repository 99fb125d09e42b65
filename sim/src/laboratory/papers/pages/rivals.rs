//! Rows about existing products, whose counts are the bar. They were taken separately, by hand, with jobs of fio; here count benches with
//! jobs of the same shape stand in, whose figures are recorded, and replays of fio without a sync.

use crate::laboratory::papers::pages::target::COUNTED_ON;
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::recorded::RecordedFigures;
use crate::laboratory::papers::verdict::{Judged, Row, RowResult, nothing};
use crate::laboratory::replay::scheme::Scheme;

const VDO: &str = "dm-vdo (measured apart)";

/// Returns the rows.
#[must_use]
pub fn rows(results: &Results) -> Vec<Row> {
    let recorded = &results.recorded;
    let of = |published, bars: &[(&str, f64)]| Row::new(VDO, published, "fewer", fewer(recorded, bars));
    vec![
        of(
            "fsync after each write: 1.007 metadata units and 3.0 device flushes a client flush; write ratio 2.01 / 1.51 at 0 / 50 % \
             duplicates",
            &[("log-single", 2.01), ("log-single-flushes", 3.0)],
        ),
        of(
            "fsync every 32, depth 32 (1): 2.6 (5.4 to 6.7) and 6 (12 to 14) a client flush; 1.08 / 0.58 (1.17 / 0.71)",
            &[("log-batch", 1.08), ("log-batch-flushes", 6.0)],
        ),
        Row::new(
            VDO,
            "no fsync, 1 GiB, depth 32: 0.04 a client unit, 15,000 to 17,000 flushes for the job; 1.04 / 0.54",
            "fewer",
            without_sync(results, (1.04, 0.54), 15_000),
        ),
        of("sequential 128 KiB: 0.02 a client unit, 20 flushes for 1000 units; 1.02 / 0.52", &[("log-sequential", 1.02)]),
        of(
            "content that compresses to 40 %, compression on, all unique, fsync each / every 4 / every 32 / none: \
             2.01 / 1.49 / 0.99 / 0.53",
            &[("carried-single", 2.01), ("packed-four", 1.49), ("packed-batch", 0.99), ("front-packed", 0.53)],
        ),
        Row::new(
            "ZFS dedup (measured apart)",
            "no fsync: 0.17 metadata units a client unit, 36 flushes for the job; 1.17 / 0.67",
            "fewer",
            without_sync(results, (1.17, 0.67), 36),
        ),
    ]
}

/// Compares recorded figures with the counts of a rival, each of which they have to be below.
fn fewer(recorded: &RecordedFigures, bars: &[(&str, f64)]) -> Judged {
    let known: Vec<(String, bool)> = bars
        .iter()
        .filter_map(|&(name, bar)| {
            let (quoted, is_below) = (recorded.quoted(name)?, recorded.number(name)? < bar);
            Some((format!("{quoted} {} {bar}", if is_below { "<" } else { "≥" }), is_below))
        })
        .collect();
    if known.is_empty() {
        return ("no figure of it is recorded".to_owned(), RowResult::NotMeasured);
    }
    let list: Vec<&str> = known.iter().map(|(text, _)| text.as_str()).collect();
    let tail = ". A stand-in: unique writes of the same shape, counted in the simulator";
    (list.join(", ") + tail, RowResult::StandIn(known.iter().all(|(_, is_below)| *is_below)))
}

/// Compares replays of fio over 1 GiB without a sync, at 0 and 50 % duplicates, with the write ratios and the flushes of a rival.
fn without_sync(results: &Results, (unique, half): (f64, f64), flushes_max: u64) -> Judged {
    let of = |trace: &str| results.of(trace, Scheme::Packed, Mode::Weak, COUNTED_ON).map(|timed| &timed.report.measured);
    let (Some(none), Some(fifty)) = (of("16_fio_dup0"), of("16_fio_dup50")) else { return nothing() };
    let (flushes, is_fewer) = (none.device_flushes, none.write_ratio < unique && fifty.write_ratio < half);
    let measured = format!(
        "packed, the default of a volume: {:.3} / {:.3} units and {flushes} flushes, for {} of ext4. A stand-in: replays of 16_fio_dup0 \
         and 16_fio_dup50, fio on ext4",
        none.write_ratio, fifty.write_ratio, none.client_flushes
    );
    (measured, RowResult::StandIn(is_fewer && flushes < flushes_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(figures: &[(&str, f64)]) -> Results {
        let line = |(name, figure): &(&str, f64)| format!("2026-01-01\t0123456789ab\t?\t?\t{name}\t{figure}\tunits/unit\tnone\t./dev\n");
        let recorded = RecordedFigures::parse(&figures.iter().map(line).collect::<String>()).expect("it is a table");
        Results { recorded, ..Results::default() }
    }

    fn verdict(rows: &[Row], published: &str) -> RowResult {
        rows.iter().find(|row| row.published.starts_with(published)).expect("there is such a row").verdict
    }

    #[test]
    fn a_rivals_row_is_judged_by_the_recorded_figures() {
        let rows = |figures: &[(&str, f64)]| super::rows(&recorded(figures));
        let better = rows(&[("log-batch", 1.04), ("log-batch-flushes", 1.02)]);
        assert_eq!(verdict(&better, "fsync every 32"), RowResult::StandIn(true));
        assert_eq!(verdict(&better, "fsync after each"), RowResult::NotMeasured);
        let worse = rows(&[("log-batch", 1.04), ("log-batch-flushes", 6.0)]);
        assert_eq!(verdict(&worse, "fsync every 32"), RowResult::StandIn(false), "one of two is not below");
    }

    /// A bench that is recorded is compared where a row is about it.
    #[test]
    fn no_row_is_called_unmeasured_that_the_projects_figures_measure() {
        let path = [env!("CARGO_MANIFEST_DIR"), "..", "docs", "figures.tsv"].iter().collect::<std::path::PathBuf>();
        let recorded = RecordedFigures::read(&path).expect("the figures come along");
        let rows = super::rows(&Results { recorded, ..Results::default() });
        for published in ["fsync after each", "fsync every 32", "sequential 128", "content that compresses"] {
            assert_ne!(verdict(&rows, published), RowResult::NotMeasured, "{published}");
        }
    }
}
