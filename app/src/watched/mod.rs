//! The account of what a disk is asked: who writes what, and how much of it need not have been written.
//!
//! Memory is bounded: of programs, kinds and files the largest are kept, and contents are counted in a sample where there are too many.

pub mod amounts;
pub mod life;
pub mod page;
pub mod report;
mod shares;

use crate::estimate::contents::{Contents, Seen};
use crate::estimate::kinds::Kinds;
use amounts::{Hour, Named, Part, Totals};
use onefold_trace::record::{Block, ContentName, Op, Record};
use shares::Shares;
use std::path::Path;

/// The most programs and files that are kept.
const PROGRAMS_MAX: usize = 512;
const FILES_MAX: usize = 4096;
/// The most hours: a month.
const HOURS_MAX: usize = 31 * 24;
const HOUR_NS: u64 = 3_600_000_000_000;
/// The size to which a block has to compress to count as compressible: two fit into one.
const COMPRESSIBLE_BYTES: u16 = 1984;

/// The names of what belongs to no file.
const JOURNAL: &str = "(journal)";
const METADATA: &str = "(metadata)";
const NO_FILE: &str = "(no file)";
const UNKNOWN: &str = "(unknown)";

/// The account of a disk.
pub struct Account {
    totals: Totals,
    programs: Shares,
    kinds: Shares,
    files: Shares,
    hours: Vec<Hour>,
    contents: Contents,
    endings: Kinds,
}

impl Account {
    /// Begins an account, with this many bytes of memory for contents.
    #[must_use]
    pub fn new(contents_bytes: u64) -> Self {
        Self {
            totals: Totals::default(),
            programs: Shares::new(PROGRAMS_MAX),
            kinds: Shares::new(PROGRAMS_MAX),
            files: Shares::new(FILES_MAX),
            hours: Vec::new(),
            contents: Contents::new(contents_bytes),
            endings: Kinds::default(),
        }
    }

    /// Takes a record into account.
    pub fn take(&mut self, record: &Record) {
        let hour = usize::try_from(record.time_ns / HOUR_NS).unwrap_or(usize::MAX).min(HOURS_MAX - 1);
        while self.hours.len() <= hour {
            self.hours.push(Hour::default());
        }
        let program = program(record.process.as_deref());
        let part = match record.op {
            Op::Write => self.write(record),
            Op::Flush => Part { flushes: 1, ..Part::default() },
            Op::Discard | Op::WriteZeroes => {
                self.totals.discarded_bytes += record.length.get();
                return;
            }
            Op::Read | Op::Mark => return,
        };
        self.totals.all.add(part);
        self.hours[hour].all.add(part);
        self.programs.add(program, part);
        match record.stream.as_deref() {
            Some("J") => self.totals.journal.add(part),
            Some("M") => self.totals.metadata.add(part),
            _ => {}
        }
        if record.op == Op::Write {
            let file = file(record);
            self.kinds.add(&kind(&mut self.endings, record, file), part);
            self.files.add(file, part);
        }
    }

    fn write(&mut self, record: &Record) -> Part {
        let mut part = Part { requests: 1, bytes: record.length.get(), units: record.blocks_touched(), ..Part::default() };
        let unseen = part.units - (record.blocks.len() as u64).min(part.units);
        self.totals.unknown_blocks += unseen;
        for Block { name, compressed } in &record.blocks {
            match name {
                ContentName::Zero => self.totals.zero_blocks += 1,
                ContentName::Unknown => self.totals.unknown_blocks += 1,
                ContentName::Of(bytes) => {
                    let hash = bytes.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
                    let is_again = self.contents.note(hash, 0) == Seen::Again;
                    part.duplicate_blocks += if is_again { self.contents.sampled() } else { 0 };
                    self.totals.known_blocks += 1;
                    if let Some(bytes) = compressed {
                        self.totals.measured_blocks += 1;
                        self.totals.compressed_bytes += u64::from(*bytes);
                        self.totals.compressible_blocks += u64::from(*bytes <= COMPRESSIBLE_BYTES);
                    }
                }
            }
        }
        part
    }

    /// Returns the totals, the programs, the kinds, the files and the hours, the largest first, of files at most `files`.
    pub(super) fn summed(&self, files: usize) -> (Totals, Vec<Named>, Vec<Named>, Vec<Named>, Vec<Hour>) {
        (self.totals, self.programs.largest(usize::MAX), self.kinds.largest(usize::MAX), self.files.largest(files), self.hours.clone())
    }
}

/// Returns the name of a program; the kernel's threads without their numbers.
fn program(process: Option<&str>) -> &str {
    let name = process.unwrap_or(UNKNOWN);
    if name.starts_with("kworker/") || name.starts_with("jbd2/") || name.starts_with("xfsaild/") {
        return name.split('/').next().unwrap_or(name);
    }
    name
}

/// Returns the name of the file, or of what the data are.
fn file(record: &Record) -> &str {
    match (record.stream.as_deref(), record.file.as_deref()) {
        (Some("J"), _) => JOURNAL,
        (Some("M"), _) => METADATA,
        (_, Some(file)) => file,
        (Some(_), None) => NO_FILE,
        (None, None) => UNKNOWN,
    }
}

/// Returns the kind of a file: the ending of its name.
fn kind(endings: &mut Kinds, record: &Record, file: &str) -> String {
    if record.file.is_none() || file == JOURNAL || file == METADATA {
        return file.to_owned();
    }
    let number = endings.of(Path::new(file));
    endings.name(number).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::Bytes;

    fn write(process: &str, stream: &str, file: Option<&str>, names: &[u8]) -> Record {
        let block = |&name: &u8| {
            let content = if name == 0 { ContentName::Zero } else { ContentName::Of([name; 20]) };
            Block { name: content, compressed: Some(if name == 0 { 64 } else { 1000 }) }
        };
        Record {
            process: Some(process.into()),
            stream: Some(stream.into()),
            file: file.map(Into::into),
            blocks: names.iter().map(block).collect(),
            ..Record::new(1, Op::Write, Bytes(8192), Bytes(4096 * names.len() as u64))
        }
    }

    #[test]
    fn who_writes_what_is_summed() {
        let mut account = Account::new(1 << 20);
        account.take(&write("sqlite3", "D", Some("/a/x.db"), &[1, 2, 0]));
        account.take(&write("sqlite3", "D", Some("/a/x.db"), &[1]));
        account.take(&write("jbd2/sda1-8", "J", None, &[3]));
        account.take(&write("kworker/u8:1", "M", None, &[4]));
        account.take(&Record { process: Some("sqlite3".into()), ..Record::new(2, Op::Flush, Bytes(0), Bytes(0)) });
        let (totals, programs, kinds, files, hours) = account.summed(10);
        assert_eq!((totals.all.units, totals.all.flushes, totals.all.duplicate_blocks, totals.zero_blocks), (6, 1, 1, 1));
        assert_eq!((totals.journal.units, totals.metadata.units, totals.compressible_blocks), (1, 1, 5));
        let names = |named: &[Named]| named.iter().map(|named| (named.name.clone(), named.part.units)).collect::<Vec<_>>();
        assert_eq!(names(&programs), [("sqlite3".to_owned(), 4), ("jbd2".to_owned(), 1), ("kworker".to_owned(), 1)]);
        assert_eq!(programs[0].part.flushes, 1);
        assert_eq!(names(&kinds), [(".db".to_owned(), 4), ("(journal)".to_owned(), 1), ("(metadata)".to_owned(), 1)]);
        assert_eq!(names(&files)[0], ("/a/x.db".to_owned(), 4));
        assert_eq!(hours.len(), 1);
    }
}
