//! Import into a folder, and export from one.
//!
//! 1. No incomplete output remains: all is written under a temporary name beside the final one, synced, and renamed when it is complete.
//! 2. An existing output is not replaced, unless the user asks for it (export only).
//! 3. A record that the form cannot represent stops an export, unless the user asked for leniency: then it is left out and counted.

use crate::error::TraceError;
use crate::folder::{FILE_RECORDS, Writer};
use crate::header::Header;
use crate::partial_output::PartialOutput;
use crate::record::Record;
use crate::source::{ReadOptions, Source, Tally};
use crate::text::detect::FormName;
use crate::text::recorded::WINDOW_LOG;
use crate::text::{Malformed, Render};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The level of compression of an exported file.
const ZSTD_LEVEL: i32 = 9;
/// The name that stands for standard output.
pub const STDOUT: &str = "-";

/// Reads a trace of any kind into a new folder.
///
/// # Errors
/// Fails if it cannot be read or written, or too many of its lines are malformed. Then no folder is left.
pub fn import(from: &Path, into: &Path, how: &ReadOptions, report: &mut dyn FnMut(&Malformed)) -> Result<Tally, TraceError> {
    take_over(from, into, how, report, &mut |_, record| Some(record), &|header| header)
}

/// Imports like [`import`], but passes each record through `change`, which may drop it, and the header through `change_header`, after the
/// first record that was kept or at the end.
///
/// # Errors
/// Fails like [`import`], and also if there are records but none was kept.
pub fn take_over(
    from: &Path,
    into: &Path,
    how: &ReadOptions,
    report: &mut dyn FnMut(&Malformed),
    change: &mut dyn FnMut(&Source, Record) -> Option<Record>,
    change_header: &dyn Fn(Header) -> Header,
) -> Result<Tally, TraceError> {
    let mut source = Source::open(from, how)?;
    let place = PartialOutput::new(into, false)?;
    let mut writer: Option<Writer> = None;
    let tally = source.each(how, report, |source, record| {
        let Some(record) = change(source, record) else { return Ok(()) };
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(Writer::create(&place.partial, change_header(source.header()), FILE_RECORDS)?),
        };
        // In comma-separated values, the first fingerprint gives the width; it need not be in the first record.
        if writer.header_mut().width == 0 && !record.blocks.is_empty() {
            writer.header_mut().width = source.header().width;
        }
        Ok(writer.push(record)?)
    })?;
    let writer = match writer {
        Some(writer) => writer,
        None if tally.records > 0 => return Err(TraceError::NothingTaken { path: from.to_path_buf() }),
        None => Writer::create(&place.partial, change_header(source.header()), FILE_RECORDS)?,
    };
    writer.finish()?;
    place.keep()?;
    Ok(tally)
}

/// A function that appends a record to the folder that is being made.
pub type Push<'a> = &'a mut dyn FnMut(&Record) -> Result<(), TraceError>;

/// Makes a new folder of the records that `fill` pushes; the same records give the same bytes.
///
/// # Errors
/// Fails if it cannot be written, was interrupted, or `fill` fails. Then no folder is left.
pub fn make(
    into: &Path,
    header: Header,
    stop: Option<&AtomicBool>,
    fill: impl FnOnce(Push) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let place = PartialOutput::new(into, false)?;
    let mut writer = Writer::create(&place.partial, header, FILE_RECORDS)?;
    fill(&mut |record| {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(TraceError::Interrupted);
        }
        Ok(writer.push(record.clone())?)
    })?;
    writer.finish()?;
    place.keep()
}

/// Counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub read: Tally,
    /// Records that were left out.
    pub unfit: u64,
}

/// Writes a trace of any kind as text: to a file, compressed if its name ends with `.zst`, or to standard output if the path is `-`.
///
/// # Errors
/// Fails if it cannot be read or written, or the form cannot represent some of it. Then no new file is left.
pub fn export(
    from: &Path,
    form: FormName,
    to: &Path,
    replace: bool,
    how: &ReadOptions,
    report: &mut dyn FnMut(&Malformed),
) -> Result<Exported, TraceError> {
    let mut source = Source::open(from, how)?;
    if to == Path::new(STDOUT) {
        let mut output = BufWriter::new(io::stdout().lock());
        let exported = write_text(&mut source, form, to, how, report, &mut output)?;
        output.flush().map_err(TraceError::io(to))?;
        return Ok(exported);
    }
    let place = PartialOutput::new(to, replace)?;
    let io = |error| TraceError::io(to)(error);
    let file = File::create(&place.partial).map_err(io)?;
    let (exported, file) = if to.extension().is_some_and(|extension| extension == "zst") {
        let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL).map_err(io)?;
        encoder.window_log(WINDOW_LOG).map_err(io)?;
        encoder.long_distance_matching(true).map_err(io)?;
        let exported = write_text(&mut source, form, to, how, report, &mut encoder)?;
        (exported, encoder.finish().map_err(io)?)
    } else {
        let mut output = BufWriter::new(file);
        let exported = write_text(&mut source, form, to, how, report, &mut output)?;
        (exported, output.into_inner().map_err(|error| io(error.into_error()))?)
    };
    file.sync_all().map_err(io)?;
    place.keep()?;
    Ok(exported)
}

fn write_text(
    source: &mut Source,
    form: FormName,
    to: &Path,
    how: &ReadOptions,
    report: &mut dyn FnMut(&Malformed),
    output: &mut dyn Write,
) -> Result<Exported, TraceError> {
    let mut lines: Option<Box<dyn Render>> = None;
    let mut text = String::new();
    let (mut unfit, mut first, mut number) = (0, None, 0);
    let begin = |header: &Header, text: &mut String| -> Result<Box<dyn Render>, TraceError> {
        let mut lines = form.lines(header).map_err(|reason| TraceError::Unwritable { path: to.to_path_buf(), reason })?;
        lines.begin(text);
        Ok(lines)
    };
    let read = source.each(how, report, |source, record| {
        let lines = match &mut lines {
            Some(lines) => lines,
            None => lines.insert(begin(&source.header(), &mut text)?),
        };
        number += 1;
        let before = text.len();
        if let Err(reason) = lines.push(&mut text, &record) {
            text.truncate(before);
            unfit += 1;
            first.get_or_insert((number, reason));
        }
        if text.len() > 1 << 16 {
            output.write_all(text.as_bytes()).map_err(TraceError::io(to))?;
            text.clear();
        }
        Ok(())
    })?;
    if lines.is_none() {
        begin(&source.header(), &mut text)?;
    }
    output.write_all(text.as_bytes()).map_err(TraceError::io(to))?;
    match first {
        Some((number, reason)) if !how.lenient => Err(TraceError::Unfit { unfit, records: read.records, number, reason }),
        _ => Ok(Exported { read, unfit }),
    }
}
