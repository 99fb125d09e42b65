//! A trace to read, in whatever form it is stored: a folder, a recording, or a text in any known form, compressed by zstd or not.
//!
//! 1. Malformed lines are reported, one by one, and counted. A trace with more than one in a hundred is refused, unless the user asked for
//!    leniency.
//! 2. The header ([`Source::header`]) is complete once the first record has been read.

use crate::beside;
use crate::error::TraceError;
use crate::folder::Reader;
use crate::header::{Header, Unit};
use crate::record::Record;
use crate::recording::{self, MAGIC, RecordingError};
use crate::text::blkparse::Action;
use crate::text::detect::FormName;
use crate::text::recorded::WINDOW_LOG;
use crate::text::{Form, Malformed, ReadError, Records};
use onefold_engine::units::Bytes;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of bytes from which the form of a text is detected.
const LOOK_BYTES: usize = 256 << 10;
/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The name that stands for standard input.
pub const STDIN: &str = "-";

/// Options for reading a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'a> {
    /// The form of the text; none to detect it from the first lines.
    pub form: Option<FormName>,
    /// The kind of blkparse's events that count as requests.
    pub action: Action,
    /// Whether to accept the trace no matter how many lines are malformed or do not fit.
    pub lenient: bool,
    /// A flag that ends the work when another thread sets it.
    pub stop: Option<&'a AtomicBool>,
}

/// A text in any form.
type AnyText = Records<Box<dyn Read>, Box<dyn Form>>;

enum Kind {
    Folder(Box<Reader>),
    Recording(Box<recording::Reader>),
    Text(AnyText),
}

/// A trace to read.
pub struct Source {
    path: PathBuf,
    kind: Kind,
    /// The size of the traced device, for a text that does not give it itself.
    beside: Option<Bytes>,
}

/// Counts of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub records: u64,
    pub malformed: u64,
    /// Lines that were understood but would be formatted differently when they are written again.
    pub relaid: u64,
    /// The place in a recording after which nothing could be read, because it was cut off or is damaged there.
    pub cut_off_at: Option<u64>,
}

impl Source {
    /// Opens a folder, a recording, a text, or standard input if the path is `-`.
    ///
    /// # Errors
    /// Fails if it cannot be read or has no known form.
    pub fn open(path: &Path, how: &ReadOptions) -> Result<Self, TraceError> {
        if path.is_dir() {
            return Ok(Self { path: path.to_path_buf(), kind: Kind::Folder(Box::new(Reader::open(path)?)), beside: None });
        }
        if path != Path::new(STDIN) && is_recording(path) {
            let reader = recording::Reader::open(path, how.lenient)?;
            return Ok(Self { path: path.to_path_buf(), kind: Kind::Recording(Box::new(reader)), beside: None });
        }
        let beside = Some(path).filter(|path| *path != Path::new(STDIN)).and_then(|path| beside::device_bytes(path).ok());
        Ok(Self { path: path.to_path_buf(), kind: Kind::Text(text(path, how)?), beside })
    }

    /// Returns the facts about the whole trace.
    #[must_use]
    pub fn header(&self) -> Header {
        match &self.kind {
            Kind::Folder(reader) => reader.header().clone(),
            Kind::Recording(reader) => reader.header().clone(),
            Kind::Text(records) => {
                let header = records.form().header();
                Header { device_bytes: header.device_bytes.or(self.beside), ..header }
            }
        }
    }

    /// Returns the unit that each fingerprint stands for.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match &self.kind {
            Kind::Folder(reader) => reader.header().unit,
            Kind::Recording(reader) => reader.header().unit,
            Kind::Text(records) => records.form().unit(),
        }
    }

    /// Iterates over the records that can be read; calls `report` with each malformed line.
    pub fn sound<'a>(&'a mut self, lenient: bool, report: &'a mut dyn FnMut(&Malformed)) -> Sound<'a> {
        Sound { source: self, lenient, report, tally: Tally::default(), has_ended: false }
    }

    /// Passes each record to `take`, with the source that it came from, and each malformed line to `report`.
    ///
    /// # Errors
    /// Fails if the trace cannot be read, too many of its lines are malformed, the work was interrupted, or `take` fails.
    pub fn each(
        &mut self,
        how: &ReadOptions,
        report: &mut dyn FnMut(&Malformed),
        mut take: impl FnMut(&Self, Record) -> Result<(), TraceError>,
    ) -> Result<Tally, TraceError> {
        let mut sound = self.sound(how.lenient, report);
        while let Some(read) = sound.next() {
            take(sound.source, read?)?;
            if how.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(TraceError::Interrupted);
            }
        }
        Ok(sound.tally())
    }
}

/// The well-formed records of a trace. If too many lines were malformed, the last item is an error.
pub struct Sound<'a> {
    source: &'a mut Source,
    lenient: bool,
    report: &'a mut dyn FnMut(&Malformed),
    tally: Tally,
    has_ended: bool,
}

impl Sound<'_> {
    /// Returns the counts so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let (relaid, cut_off_at) = match &self.source.kind {
            Kind::Folder(_) => (0, None),
            Kind::Recording(reader) => (0, reader.cut_off_at()),
            Kind::Text(records) => (records.form().relaid(), None),
        };
        Tally { relaid, cut_off_at, ..self.tally }
    }

    fn too_much(&self) -> Option<TraceError> {
        let Kind::Text(records) = &self.source.kind else { return None };
        let (malformed, lines) = (self.tally.malformed, records.line());
        (!self.lenient && malformed > lines / 100).then(|| TraceError::Malformed { path: self.source.path.clone(), malformed, lines })
    }
}

impl Iterator for Sound<'_> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        loop {
            match self.source.next() {
                Some(Ok(record)) => {
                    self.tally.records += 1;
                    return Some(Ok(record));
                }
                Some(Err(TraceError::Text(ReadError::Malformed(malformed)))) => {
                    self.tally.malformed += 1;
                    (self.report)(&malformed);
                }
                Some(Err(error)) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
                None => {
                    self.has_ended = true;
                    return self.too_much().map(Err);
                }
            }
        }
    }
}

impl Iterator for Source {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.kind {
            Kind::Folder(reader) => reader.next().map(|read| read.map_err(TraceError::from)),
            Kind::Recording(reader) => reader.next().map(|read| read.map_err(TraceError::from)),
            Kind::Text(records) => records.next().map(|read| read.map_err(TraceError::from)),
        }
    }
}

/// Whether a file begins like a recording. One that cannot be read is no recording, and the reading of it as text gives the reason.
fn is_recording(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok()) && is_magic(&first)
}

/// Whether these are the first bytes of a recording, of any version.
fn is_magic(first: &[u8]) -> bool {
    first.starts_with(&MAGIC[..MAGIC.len() - 2])
}

fn text(path: &Path, how: &ReadOptions) -> Result<AnyText, TraceError> {
    let input: Box<dyn Read> =
        if path == Path::new(STDIN) { Box::new(io::stdin().lock()) } else { Box::new(File::open(path).map_err(TraceError::io(path))?) };
    let mut input = decompressed(input).map_err(TraceError::io(path))?;
    let mut first = Vec::new();
    input.by_ref().take(LOOK_BYTES as u64).read_to_end(&mut first).map_err(TraceError::io(path))?;
    if is_magic(&first) {
        let reason = "it has to be a file: standard input cannot be read twice".to_owned();
        return Err(RecordingError::NotARecording { path: path.to_path_buf(), reason }.into());
    }
    let form = how.form.or_else(|| FormName::of(&first, how.action));
    let form = form.ok_or_else(|| TraceError::UnknownForm { path: path.to_path_buf() })?;
    let whole: Box<dyn Read> = Box::new(Cursor::new(first).chain(input));
    Ok(Records::new(form.form(how.action), &path.display().to_string(), whole))
}

fn decompressed(input: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut input = BufReader::with_capacity(1 << 17, input);
    if !input.fill_buf()?.starts_with(&ZSTD_MAGIC) {
        return Ok(Box::new(input));
    }
    let mut decoder = zstd::Decoder::with_buffer(input)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(Box::new(decoder))
}
