//! The writes of one trace, of several as applications of one device, or of one that is made.

use crate::traces::{Reading, failed, malformed_shown};
use onefold::exit::{Exit, Failed, Outcome};
use onefold_sim::laboratory::index::streams::Streams;
use onefold_sim::laboratory::index::writes::Writes;
use onefold_trace::analyze::By;
use onefold_trace::header::{Header, Unit};
use onefold_trace::source::{STDIN, Source};
use onefold_trace::synth::interleave::{Interleaved, TRACES_MAX, Turn, fits};
use onefold_trace::synth::phone::Phone;
use onefold_trace::synth::{Length, Plan, Synth};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Makes the writes of a phone.
///
/// # Errors
/// When such a trace cannot be made.
pub fn made(phone: &Phone, block_writes: u64, seed: u64) -> Outcome<Writes> {
    // The policies see no reads.
    let plan = Plan { length: Length::Blocks(block_writes), reads: 0.0, ..phone.plan(1.0, seed) };
    let wrong = |error: String| Failed::new(Exit::Usage, error);
    let synth = Synth::new(plan).map_err(|error| wrong(error.to_string()))?;
    Writes::of(synth, Unit::Block).map_err(wrong)
}

/// Returns the name of a trace as an application: that of its folder, or that of its file up to the first dot.
fn name_of(trace: &Path) -> String {
    let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
    let stem = if trace.is_dir() { &name } else { name.split('.').next().unwrap_or(&name) };
    if stem.is_empty() { name.into_owned() } else { stem.to_owned() }
}

/// Reads the writes of traces, and returns them with the number of malformed lines.
///
/// # Errors
/// When a trace cannot be read, or does not go with the first one.
pub fn traces(traces: &[PathBuf], turn: Turn, by: By, reading: &Reading) -> Outcome<(Writes, u64)> {
    if traces.len() > TRACES_MAX {
        return Err(Failed::new(Exit::Usage, format!("{} traces are too many: give at most {TRACES_MAX}", traces.len())));
    }
    if traces.iter().filter(|trace| *trace == Path::new(STDIN)).count() > 1 {
        return Err(Failed::new(Exit::Usage, "-: standard input can be read only once"));
    }
    let how = reading.how(None);
    let open = |trace: &PathBuf| Source::open(trace, &how).map_err(|error| failed(error, trace));
    let mut sources = traces.iter().map(open).collect::<Outcome<Vec<Source>>>()?;
    let unit = sources[0].unit();
    if let Some((_, other)) = sources.iter().zip(traces).find(|(source, _)| source.unit() != unit) {
        return Err(unlike(&traces[0], other, "its fingerprints stand for another number of bytes"));
    }
    let mut shows: Vec<_> = traces.iter().map(|_| malformed_shown()).collect();
    let mut sounds: Vec<_> = sources.iter_mut().zip(&mut shows).map(|(source, show)| source.sound(reading.lenient, show)).collect();
    let unread = RefCell::new(None);
    let records = sounds.iter_mut().zip(traces).map(|(sound, trace)| {
        sound.map_while(|record| match record {
            Ok(record) if fits(&record) => Some(record),
            Ok(record) => {
                let message = format!("{}: byte {} is beyond any device", trace.display(), record.offset.0);
                unread.replace(Some(Failed::new(Exit::Damaged, message)));
                None
            }
            Err(error) => {
                unread.replace(Some(failed(error, trace)));
                None
            }
        })
    });
    let streams = Streams::new(by, traces.iter().map(|trace| name_of(trace)));
    let writes = Writes::divided(Interleaved::new(records, turn), unit, streams);
    let malformed_lines = sounds.iter().map(|sound| sound.tally().malformed).sum();
    drop(sounds);
    if let Some(failed) = unread.into_inner() {
        return Err(failed);
    }
    let writes = writes.map_err(|error| Failed::new(Exit::Usage, format!("{}: {error}", traces[0].display())))?;
    same_names(traces, &sources)?;
    Ok((writes, malformed_lines))
}

/// Checks that equal fingerprints of the traces mean equal content.
fn same_names(traces: &[PathBuf], sources: &[Source]) -> Outcome {
    let headers: Vec<Header> = sources.iter().map(Source::header).collect();
    let has_content = |header: &&Header| header.width > 0;
    let Some(first) = headers.iter().position(|header| has_content(&header)) else { return Ok(()) };
    let kind = |header: &Header| (header.algorithm, header.key_id.clone(), header.width);
    let other = headers.iter().zip(traces).find(|(header, _)| has_content(header) && kind(header) != kind(&headers[first]));
    other.map_or(Ok(()), |(_, other)| Err(unlike(&traces[first], other, "its fingerprints have another algorithm, key or width")))
}

fn unlike(first: &Path, other: &Path, why: &str) -> Failed {
    let message = format!("{} does not go with {}: {why}", other.display(), first.display());
    Failed::new(Exit::Usage, message)
        .next("Give traces that one recorder made with one key; `onefold-lab trace info` shows the fingerprints.")
}
