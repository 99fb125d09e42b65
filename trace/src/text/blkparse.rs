//! The text that blkparse prints by default, without content:
//! `MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION FLAGS FIRST_SECTOR + SECTORS [PROCESS]`.
//!
//! 1. A request has several events. Those of one action, Q (queued) by default, become requests; the others are skipped.
//! 2. The statistics that blkparse prints at the end are skipped, too: nothing after their first line is read.
//! 3. A write that asks for a flush before it (F in front of its W) becomes two records: a flush with the flags [`BEFORE`], then the write.
//! 4. CPU and sequence number are not kept: in an export the CPU is 0 and the sequence counts lines. Text in that form is exported byte for
//!    byte.

use super::names::{Names, number, shown};
use super::shape::{device, in_seconds, is_fua, seconds, sectors};
use super::{Form, Reason, Render};
use crate::header::Header;
use crate::record::{Op, Record};
use onefold_engine::units::{Bytes, SECTOR_BYTES};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// The flags of a flush that the following write asked for.
pub const BEFORE: &str = "F+";

/// The events that become requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Queued requests, as the device's users made them.
    #[default]
    Queued,
    /// Requests as they were merged and issued to the driver.
    Issued,
    /// Completed requests. These lines name no process.
    Completed,
}

impl Action {
    /// Lists all actions.
    pub const ALL: [Self; 3] = [Self::Queued, Self::Issued, Self::Completed];

    /// Returns the letter of the action.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Queued => "Q",
            Self::Issued => "D",
            Self::Completed => "C",
        }
    }
}

/// Reads lines of the form.
#[derive(Debug, Default)]
pub struct BlkparseForm {
    action: Action,
    is_over: bool,
    names: Names,
}

impl BlkparseForm {
    /// Makes a reader that takes the events of one action.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self { action, is_over: false, names: Names::default() }
    }
}

/// Splits off the next word.
fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (word, behind) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
    *rest = behind;
    Some(word).filter(|word| !word.is_empty())
}

impl Form for BlkparseForm {
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason> {
        self.is_over |= line.starts_with("CPU") || line.starts_with("Total (");
        if self.is_over || line.trim().is_empty() {
            return Ok(());
        }
        let mut rest = line;
        let mut next = |what: &str| word(&mut rest).ok_or_else(|| format!("it ends before the {what}"));
        let device = next("device")?;
        let (major, minor) = device.split_once(',').ok_or_else(|| format!("the device is not like 8,0: {:?}", shown(device)))?;
        let (major, minor) = (number::<u32>("the major number", major)?, number::<u32>("the minor number", minor)?);
        number::<u32>("the CPU", next("CPU")?)?;
        number::<u64>("the sequence", next("sequence")?)?;
        let (time_ns, _) = seconds(next("time")?)?;
        let pid = number::<u32>("the pid", next("pid")?)?;
        let action = next("action")?;
        if action != self.action.letter() {
            return Ok(());
        }
        let flags = next("flags")?;
        if !is_plain(flags) {
            return Err(format!("flags are not like WS: {:?}", shown(flags)));
        }
        let rest = rest.trim_start();
        let (place, process) = rest.split_once('[').ok_or("it does not end with [PROCESS]")?;
        let process = process.strip_suffix(']').ok_or("it does not end with ]")?;
        let place: Vec<&str> = place.split_whitespace().collect();
        let (first, count) = match place[..] {
            [] => ("0", "0"),
            [first, "+", count] => (first, count),
            _ => return Err("the text before its process is neither FIRST + COUNT nor empty".to_owned()),
        };
        let mut record = match (op_of(flags), count) {
            (None, _) => return Ok(()),
            (Some(Op::Write), "0") if !flags.contains('F') => return Err("a write of no sectors".to_owned()),
            (Some(Op::Flush), _) | (Some(Op::Write), "0") => {
                number::<u64>("the first sector", first)?;
                Record::new(time_ns, Op::Flush, Bytes(0), Bytes(0))
            }
            (Some(op), _) => {
                let (offset, length) = sectors(first, count)?;
                Record::new(time_ns, op, offset, length)
            }
        };
        record.pid = Some(pid);
        record.device = Some(self.names.get(&format!("{major} {minor}")));
        record.process = (self.action != Action::Completed).then(|| self.names.get(process));
        if record.op == Op::Write && flags.starts_with('F') {
            let before = Record { op: Op::Flush, offset: Bytes(0), length: Bytes(0), flags: Some(BEFORE.into()), ..record.clone() };
            out.push_back(before);
        }
        record.fua = record.op == Op::Write && is_fua(flags);
        record.flags = Some(self.names.get(flags));
        out.push_back(record);
        Ok(())
    }

    fn header(&self) -> Header {
        let clock = "since blktrace began, nanoseconds".to_owned();
        Header { clock, form: Some(format!("blkparse {}", self.action.letter())), ..Header::default() }
    }
}

/// Returns whether the flags consist of letters.
fn is_plain(flags: &str) -> bool {
    flags.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns the operation that the flags ask for; none if they name neither a transfer nor a flush.
fn op_of(flags: &str) -> Option<Op> {
    let has = |letter| flags.contains(letter);
    match () {
        () if has('D') => Some(Op::Discard),
        () if has('W') => Some(Op::Write),
        () if has('R') => Some(Op::Read),
        () if has('F') => Some(Op::Flush),
        () => None,
    }
}

/// Writes lines of the form.
#[derive(Debug)]
pub struct BlkparseLines {
    action: Action,
    sequence: u64,
}

impl BlkparseLines {
    /// Makes a writer for a trace, with the action that it was read from.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        let form = header.form.as_deref().unwrap_or_default();
        let action = Action::ALL.into_iter().find(|action| form.strip_prefix("blkparse ") == Some(action.letter()));
        Self { action: action.unwrap_or_default(), sequence: 0 }
    }
}

impl Render for BlkparseLines {
    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason> {
        let flags = match (record.flags.as_deref(), record.op) {
            (Some(BEFORE), Op::Flush) => return Ok(()),
            (Some(flags), op) if is_plain(flags) && (op_of(flags) == Some(op) || op == Op::Flush && flags.contains('F')) => flags,
            (_, Op::Read) => "R",
            (_, Op::Write) if record.fua => "WF",
            (_, Op::Write) => "W",
            (_, Op::Flush) => "FN",
            (_, Op::Discard) => "D",
            (_, op @ (Op::WriteZeroes | Op::Mark)) => return Err(format!("the form cannot represent {}", op.name())),
        };
        let process = match self.action {
            Action::Completed => "0",
            _ => record.process.as_deref().unwrap_or("-"),
        };
        let (major, minor) = device(record)?;
        if !record.is_well_formed() || process.contains('\n') {
            return Err("it does not cover whole sectors, or the name of its process contains a line break".to_owned());
        }
        self.sequence += 1;
        let (sequence, time, pid) = (self.sequence, in_seconds(record.time_ns, 9), record.pid.unwrap_or(0));
        let _ = write!(text, "{major:>3},{minor:<3} {:>2} {sequence:>8} {time:>15} {pid:>5} {:>2} {flags:>3} ", 0, self.action.letter());
        if record.op != Op::Flush {
            let _ = write!(text, "{} + {} ", record.offset.get() / SECTOR_BYTES, record.length.get() / SECTOR_BYTES);
        }
        let _ = writeln!(text, "[{process}]");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReadError, Records};
    use super::*;

    const PRINTED: &str = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000000500   697  Q   W 223490 + 8 [kjournald]
  8,0    3        0     0.000001000     0  m   N cfq697 insert_request
  8,0    3        3     0.000002000   697  Q FWFS 16 + 8 [jbd2/sda1-8]
  8,0    3        4     0.000003000   697  Q FWS [jbd2/sda1-8]
  8,0    3        5     0.000004000  1697  Q  RA 4096 + 16 [tar -x]
  8,0    3        6     0.000005000     0  C   W 223490 + 8 [0]
  8,0    3        7     1.000005000     1  Q   D 8 + 65536 [fstrim]
CPU3 (8,0):
 Reads Queued:           1,        8KiB  Writes Queued:           2,        8KiB
";

    fn read(text: &str) -> (Vec<Record>, Header) {
        let mut records = Records::new(BlkparseForm::default(), "x", text.as_bytes());
        let all: Result<Vec<Record>, ReadError> = records.by_ref().collect();
        (all.expect("well-formed"), records.form().header())
    }

    fn write(records: &[Record], header: &Header) -> String {
        let (mut lines, mut text) = (BlkparseLines::new(header), String::new());
        records.iter().for_each(|record| lines.push(&mut text, record).expect("the form can represent it"));
        text
    }

    #[test]
    fn the_queued_requests_are_taken() {
        let (records, _) = read(PRINTED);
        let ops: Vec<_> = records.iter().map(|record| (record.op, record.fua, record.length.get())).collect();
        let (w, f) = ((Op::Write, false, 4096), (Op::Flush, false, 0));
        assert_eq!(ops, [w, f, (Op::Write, true, 4096), f, (Op::Read, false, 8192), (Op::Discard, false, 32 << 20)]);
        assert_eq!((records[4].process.as_deref(), records[4].pid), (Some("tar -x"), Some(1697)));
    }

    #[test]
    fn written_lines_are_read_back() {
        let (records, header) = read(PRINTED);
        let text = write(&records, &header);
        assert_eq!(text.lines().next(), Some("  8,0    0        1     0.000000500   697  Q   W 223490 + 8 [kjournald]"));
        assert_eq!(read(&text), (records.clone(), header.clone()));
        assert_eq!(write(&read(&text).0, &header), text);
    }
}
