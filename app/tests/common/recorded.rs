//! Recordings, read without the laboratory.

use onefold_trace::recording::Reader;
use onefold_trace::text::detect::FormName;
use std::path::Path;

/// Returns a recording as comma-separated values.
pub fn csv_of(recording: &str) -> String {
    let reader = Reader::open(Path::new(recording), false).unwrap();
    let (mut lines, mut text) = (FormName::Csv.lines(reader.header()).unwrap(), String::new());
    lines.begin(&mut text);
    reader.for_each(|record| lines.push(&mut text, &record.unwrap()).unwrap());
    text
}

/// Returns the number of requests that a recording counts as missing.
pub fn missing(recording: &str) -> u64 {
    Reader::open(Path::new(recording), false).unwrap().header().gaps.iter().map(|gap| gap.requests).sum()
}
