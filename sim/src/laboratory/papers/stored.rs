//! The file of all results, `results.json`: the pages are made of it, and can be made of it again. Where it ends in `.zst`, it is
//! compressed.

use crate::laboratory::papers::pages::target::Target;
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::verdict::{Row, Tally};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The version of the file. Fields may be added within a version; none changes its meaning. 2: everything that was measured is at the top.
const VERSION: u32 = 2;

/// The content of the file: everything that was measured, and beside it what was derived of that.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    report: &'static str,
    count: String,
    targets: &'a [Target],
    against_published: &'a [Row],
    #[serde(flatten)]
    results: &'a Results,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Formats the results, with what is derived of them.
///
/// # Panics
/// Never: nothing in it has no form in JSON.
#[must_use]
pub fn json(results: &Results, targets: &[Target], rows: &[Row]) -> String {
    let written =
        Written { version: VERSION, report: "papers", count: Tally::of(rows).to_string(), targets, against_published: rows, results };
    serde_json::to_string(&written).expect("maps have texts as keys") + "\n"
}

/// Reads results that were written by an earlier report.
///
/// # Errors
/// Fails if no such file is there, or it has another version.
pub fn read(path: &Path) -> Result<Results, String> {
    let complain =
        |error: &dyn std::fmt::Display| format!("{}: {error}; onefold-lab report writes such a file, results.json", path.display());
    let file = File::open(path).map_err(|error| complain(&error))?;
    let text = if path.extension().is_some_and(|end| end == "zst") {
        zstd::decode_all(BufReader::new(file)).map_err(|error| complain(&error))?
    } else {
        std::fs::read(path).map_err(|error| complain(&error))?
    };
    let Version { version } = serde_json::from_slice(&text).map_err(|error| complain(&error))?;
    if version != VERSION {
        return Err(complain(&format_args!("version {version} instead of {VERSION}")));
    }
    serde_json::from_slice(&text).map_err(|error| complain(&error))
}
