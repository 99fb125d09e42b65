//! The form of the recorded traces under `data/traces`: tab-separated text, compressed by zstd with a window of 128 MiB.
//!
//! Its eight columns are microseconds, op, first block, blocks, kind, flags, process/pid, and the names of a write's blocks or a mark's
//! phase.
//!
//! 1. Each line becomes one record. Where the recorder saw a FUA write as a write and a flush, so does the reader: the write is `fua`, and
//!    the flush follows it. A replay makes one FUA write of both.
//! 2. A flush that a write asked for in advance (its flags begin with F) is a line of its own, too, before the write.
//! 3. A name is the first 8 bytes of an MD5; that of 4096 zeros is [`ContentName::Zero`].
//! 4. A request that the recorder split where kind, flags or process change stays split: the parts have the same time.

use super::names::{MD5_OF_ZERO_BLOCK, Names, name, number, push_hex, shown};
use super::shape::{bytes_of, is_fua};
use super::{Form, Reason, Records, Render};
use crate::header::Header;
use crate::record::{Block, ContentName, Op, Record};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::BLOCK_BYTES;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// The first line.
pub const HEADER: &str = "#t_us\top\tlba4k\tn4k\tkind\trwbs\tcomm/pid\tmd5_8bytes_per_4k_block_hex_concatenated";
/// The number of bytes that are kept of a fingerprint.
pub const WIDTH: usize = 8;
/// The size of the window that the files are compressed with, as a power of two.
pub const WINDOW_LOG: u32 = 27;

/// The records of a file, decompressed on demand.
pub type Recorded = Records<zstd::Decoder<'static, BufReader<File>>, RecordedForm>;

/// Opens `NAME.tsv.zst`.
///
/// # Errors
/// Fails if the system does not open it.
pub fn open(path: &Path) -> io::Result<Recorded> {
    let mut decoder = zstd::Decoder::new(File::open(path)?)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(read(&path.display().to_string(), decoder))
}

/// Reads decompressed text, which messages call `file`.
pub fn read<R: Read>(file: &str, input: R) -> Records<R, RecordedForm> {
    Records::new(RecordedForm::default(), file, input)
}

/// Reads lines of the form.
#[derive(Debug, Default)]
pub struct RecordedForm {
    names: Names,
}

impl Form for RecordedForm {
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason> {
        if line.starts_with('#') {
            return Ok(());
        }
        let columns: Vec<&str> = line.splitn(9, '\t').collect();
        let [time, op, first, blocks, kind, flags, process, content] = columns[..] else {
            return Err(format!("{} columns instead of 8", if columns.len() > 8 { "more".to_owned() } else { columns.len().to_string() }));
        };
        let op = match op {
            "W" => Op::Write,
            "R" => Op::Read,
            "F" => Op::Flush,
            "D" => Op::Discard,
            "Z" => Op::WriteZeroes,
            "M" => Op::Mark,
            _ => return Err(format!("unknown op {:?}", shown(op))),
        };
        let time_ns = number::<u64>("the time", time)?.checked_mul(1000).ok_or("the time is beyond 584 years")?;
        let (first, blocks) = (number::<u64>("the first block", first)?, number::<u64>("the number of blocks", blocks)?);
        let (offset, length) = bytes_of(first, blocks, BLOCK_BYTES)?;
        let mut record = Record::new(time_ns, op, offset, length);
        if !record.is_well_formed() {
            return Err(format!("such a request cannot have {blocks} blocks"));
        }
        record.stream = (kind != unknown_kind(op)).then(|| self.names.get(kind));
        record.flags = (flags != "-").then(|| self.names.get(flags));
        record.fua = op == Op::Write && is_fua(flags);
        self.process(&mut record, process)?;
        match op {
            Op::Write => record.blocks = names_of(content, blocks)?,
            Op::Mark => record.note = Some(content.into()),
            _ if !content.is_empty() => return Err("only a write or a mark may have a last column that is not empty".to_owned()),
            _ => {}
        }
        out.push_back(record);
        Ok(())
    }

    fn header(&self) -> Header {
        Header {
            algorithm: Some(Algorithm::Md5),
            width: WIDTH,
            clock: "monotonic, microseconds".to_owned(),
            form: Some("recorded".to_owned()),
            ..Header::default()
        }
    }
}

impl RecordedForm {
    /// Parses `name/pid`, where the name may contain slashes.
    fn process(&mut self, record: &mut Record, text: &str) -> Result<(), Reason> {
        if text == "-" {
            return Ok(());
        }
        let (process, pid) = text.rsplit_once('/').ok_or("the process has no pid after a slash")?;
        record.process = (process != "-").then(|| self.names.get(process));
        record.pid = if pid == "-" { None } else { Some(number("the pid", pid)?) };
        Ok(())
    }
}

/// Returns the column of kinds for a record whose kind is unknown: only a write could have had one.
const fn unknown_kind(op: Op) -> &'static str {
    match op {
        Op::Write => "?",
        _ => "-",
    }
}

fn names_of(digits: &str, blocks: u64) -> Result<Vec<Block>, Reason> {
    if digits.len() as u64 != blocks.saturating_mul(2 * WIDTH as u64) {
        return Err(format!("{} digits of fingerprints for {blocks} blocks, but each has {}", digits.len(), 2 * WIDTH));
    }
    digits.as_bytes().chunks_exact(2 * WIDTH).map(|digits| name(digits, &MD5_OF_ZERO_BLOCK).map(Block::named)).collect()
}

/// Writes lines of the form.
#[derive(Debug, Default)]
pub struct RecordedLines;

impl Render for RecordedLines {
    fn begin(&mut self, text: &mut String) {
        text.push_str(HEADER);
        text.push('\n');
    }

    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason> {
        push_line(text, record)
    }
}

fn push_line(text: &mut String, record: &Record) -> Result<(), Reason> {
    let op = match record.op {
        Op::Write => 'W',
        Op::Read => 'R',
        Op::Flush => 'F',
        Op::Discard => 'D',
        Op::WriteZeroes => 'Z',
        Op::Mark => 'M',
    };
    if record.offset.get() % BLOCK_BYTES != 0 || record.length.get() % BLOCK_BYTES != 0 {
        return Err("it does not cover whole blocks of 4 KiB".to_owned());
    }
    if record.op == Op::Write && record.blocks.len() as u64 != record.blocks_touched() {
        return Err("it is a write without a fingerprint for each 4 KiB".to_owned());
    }
    let (first, blocks) = (record.offset.get() / BLOCK_BYTES, record.length.get() / BLOCK_BYTES);
    let flags = record.flags.as_deref().unwrap_or(if record.fua { "WF" } else { "-" });
    let stream = record.stream.as_deref().unwrap_or(unknown_kind(record.op));
    for field in [Some(stream), Some(flags), record.process.as_deref(), record.note.as_deref()].into_iter().flatten() {
        if field.contains(['\t', '\n']) {
            return Err(format!("{:?} contains a tab or a line break", shown(field)));
        }
    }
    let _ = write!(text, "{}\t{op}\t{first}\t{blocks}\t{stream}\t{flags}\t", record.time_ns / 1000);
    match (record.process.as_deref(), record.pid) {
        (None, None) => text.push('-'),
        (process, pid) => {
            let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            let _ = write!(text, "{}/{pid}", process.unwrap_or("-"));
        }
    }
    text.push('\t');
    for block in &record.blocks {
        match block.name {
            ContentName::Zero => push_hex(text, &MD5_OF_ZERO_BLOCK[..WIDTH]),
            ContentName::Of(bytes) => push_hex(text, &bytes[..WIDTH]),
            ContentName::Unknown => return Err("it has a block whose content was not recorded".to_owned()),
        }
    }
    text.push_str(record.note.as_deref().unwrap_or_default());
    text.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::ReadError;
    use super::*;
    use onefold_engine::units::Bytes;

    const TEXT: &str = "#t_us\top\tlba4k\tn4k\tkind\trwbs\tcomm/pid\tmd5_8bytes_per_4k_block_hex_concatenated\n\
        0\tF\t0\t0\t-\t-\t-\t\n\
        298726\tD\t0\t1\t-\t-\t-\t\n\
        300337\tZ\t801\t512\t-\t-\t-\t\n\
        324507\tW\t272\t2\tM\tWS\tmkfs.ext4/11729\t620f0b67a91f7f74bf7210d53f4eb2d0\n\
        356417\tW\t0\t1\tJ\tFWFSM\tjbd2/loop0-8/11730\tb159cc8de8ca3e42\n\
        356418\tW\t7\t1\t?\tWF\t-\tb159cc8de8ca3e42\n\
        378801\tM\t0\t0\t-\t-\t-\tsetup\n\
        411730\tR\t524281\t5\t-\tRA\tmount/11730\t\n";

    fn records(text: &str) -> Vec<Result<Record, ReadError>> {
        read("x.tsv", text.as_bytes()).collect()
    }

    #[test]
    fn lines_become_records_and_lines_again() {
        let records: Vec<Record> = records(TEXT).into_iter().map(|record| record.expect("well-formed")).collect();
        let (zeros, journal) = (&records[3], &records[4]);
        assert_eq!((zeros.offset, zeros.length, zeros.fua), (Bytes(272 * 4096), Bytes(8192), false));
        assert_eq!(zeros.blocks[0].name, ContentName::Zero);
        assert!(matches!(zeros.blocks[1].name, ContentName::Of([0xbf, 0x72, 0x10, 0xd5, 0x3f, 0x4e, 0xb2, 0xd0, 0, ..])));
        assert_eq!((journal.process.as_deref(), journal.pid, journal.stream.as_deref()), (Some("jbd2/loop0-8"), Some(11730), Some("J")));
        assert!(journal.fua && records[5].fua && records[5].stream.is_none());
        assert_eq!((records[6].op, records[6].note.as_deref()), (Op::Mark, Some("setup")));
        let mut text = format!("{HEADER}\n");
        for record in &records {
            push_line(&mut text, record).expect("the form can represent it");
        }
        assert_eq!(text, TEXT);
    }

    #[test]
    fn malformed_lines_are_reported_with_file_and_line() {
        let lines = [
            "1\tW\t0\t2\tD\tW\tx/1\t620f0b67a91f7f74",
            "1\tW\t0\t1\tD\tW\tx/1\t620f0b67a91f7f7G",
            "1\tX\t0\t1\tD\tW\tx/1\t",
            "1\tR\t0\t1\t-\tR\tx/1",
            "1\tR\t0\t1\t-\tR\tx/1\t\t",
            "01\tR\t0\t1\t-\tR\tx/1\t",
            "1\tR\t18446744073709551615\t1\t-\tR\tx/1\t",
            "1\tR\t0\t0\t-\tR\tx/1\t",
            "1\tF\t0\t1\t-\t-\t-\t",
            "1\tR\t0\t1\t-\tR\tx\t",
        ];
        let read = records(&lines.join("\n"));
        assert_eq!(read.len(), lines.len());
        for (index, read) in read.into_iter().enumerate() {
            let Err(ReadError::Malformed(malformed)) = read else { panic!("line {}: {read:?}", index + 1) };
            assert_eq!((&*malformed.file, malformed.line), ("x.tsv", index as u64 + 1), "{malformed}");
        }
    }
}
