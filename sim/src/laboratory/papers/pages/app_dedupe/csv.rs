//! The replays of the loads as comma-separated values.

use crate::laboratory::papers::studies::app_dedupe::runs::{Begin, LoadRun};
use std::fmt::Write as _;

const HEADS: &str = "load,scheme,persistence,flash_begins,flash_bytes,client_units,device_units,metadata_units,found,ideal,flash_pages,\
                     moved_pages,collections,amplification,responses,response_us_mean,response_us_p95,response_us_p99,response_us_max\n";

/// Formats all replays, with a first line of names.
#[must_use]
pub fn csv(runs: &[LoadRun]) -> String {
    let mut out = HEADS.to_owned();
    for LoadRun { begin, flash_bytes, report } in runs {
        let (figures, flash) = (&report.measured, report.measured.flash.unwrap_or_default());
        let found = figures.duplication.found.map_or_else(String::new, |found| format!("{found:.6}"));
        let begin = if *begin == Begin::Full { "full" } else { "held" };
        let (counts, response) = (flash.counts, flash.response_us);
        let _ = writeln!(
            out,
            "{},{},{},{begin},{flash_bytes},{},{},{},{found},{:.6},{},{},{},{:.4},{},{:.1},{:.1},{:.1},{:.1}",
            report.trace,
            report.scheme,
            report.persistence,
            figures.client_units,
            figures.device_units_all,
            figures.metadata_units_all,
            figures.ideal,
            counts.host_pages,
            counts.moved_pages,
            counts.collections,
            flash.amplification,
            response.count,
            response.mean,
            response.p95,
            response.p99,
            response.max
        );
    }
    out
}
