//! The replays with hints and without, as comma-separated values.

use crate::laboratory::papers::studies::hints::runs::HintRun;
use std::fmt::Write as _;

const HEADS: &str = "figure,duplicates,scheme,model,commit,hint,cache_percent,cache_bytes,dd_writes,client_units,virtual_seconds,\
                     device_units,read_units,look_ups,device_flushes,found\n";

/// Formats all replays, with a first line of names.
#[must_use]
pub fn csv(runs: &[HintRun]) -> String {
    let mut out = HEADS.to_owned();
    for run in runs {
        let commit = run.commit.name().replace(',', "");
        let found = run.found.map_or_else(String::new, |found| found.to_string());
        let _ = writeln!(
            out,
            "{},{},{},{},{commit},{},{},{},{},{},{},{},{},{},{},{found}",
            run.figure,
            run.duplicates,
            run.scheme,
            run.model,
            run.hint.name(),
            run.cache_percent,
            run.cache_bytes,
            run.writes,
            run.client_units,
            run.virtual_seconds,
            run.device_units,
            run.read_units,
            run.look_ups,
            run.device_flushes
        );
    }
    out
}
