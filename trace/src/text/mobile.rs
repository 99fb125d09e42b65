//! The form of MobileTraces (Mao et al., MSST '17), one request a line: `SECONDS R|W FIRST_SECTOR SECTORS PID PROCESS MD5[-MD5...]`, with
//! one MD5 for each 4096 bytes of the request.
//!
//! 1. Two layouts are known: one has a single space between fields; the published one has tabs, right-aligned fields and a space after the
//!    time. The first line determines the layout and the number of decimals in which the trace is exported.
//! 2. A line in another layout is understood all the same, and counted, since an export would change it.
//! 3. The name of a process may contain spaces.
//! 4. Reads have MD5s, too, and keep them.

use super::fiu::direction;
use super::names::{MD5_BYTES, Names, number, shown};
use super::shape::{in_seconds, md5s, push_md5s, seconds, sectors};
use super::{Form, Reason, Render};
use crate::header::{Header, Unit};
use crate::record::{Op, Record};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::SECTOR_BYTES;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// The layout of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Whether lines have tabs and columns of fixed width, as published.
    pub tabs: bool,
    /// The number of decimals of the time.
    pub decimals: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self { tabs: false, decimals: 9 }
    }
}

impl Layout {
    /// Returns the layout as a trace's header stores it.
    fn named(self) -> String {
        format!("mobile {} {}", if self.tabs { "tabs" } else { "spaces" }, self.decimals)
    }

    /// Returns the layout that a header gives, or the one with single spaces if it gives none.
    #[must_use]
    pub fn of(header: &Header) -> Self {
        let words: Vec<&str> = header.form.as_deref().unwrap_or_default().split(' ').collect();
        match words[..] {
            ["mobile", layout, decimals] => Self { tabs: layout == "tabs", decimals: decimals.parse().unwrap_or(9) },
            _ => Self::default(),
        }
    }
}

/// Reads lines of the form.
#[derive(Debug, Default)]
pub struct MobileForm {
    layout: Option<Layout>,
    relaid: u64,
    names: Names,
    again: String,
}

impl Form for MobileForm {
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason> {
        let tabs = line.contains('\t');
        let fields = if tabs { line.split('\t').map(str::trim).collect() } else { split_at_spaces(line) };
        let [time, op, first, count, pid, process, digests] = fields[..] else {
            return Err(format!("{} fields instead of seven", fields.len()));
        };
        let (time_ns, decimals) = seconds(time)?;
        let op = match op {
            "W" => Op::Write,
            "R" => Op::Read,
            _ => return Err(format!("the direction is neither W nor R: {:?}", shown(op))),
        };
        let (offset, length) = sectors(first, count)?;
        let mut record = Record::new(time_ns, op, offset, length);
        record.pid = Some(number("the pid", pid)?);
        record.blocks = md5s(digests.as_bytes().split(|byte| *byte == b'-'), length, Unit::Block)?;
        if process.is_empty() {
            return Err("the process has no name".to_owned());
        }
        record.process = Some(self.names.get(process));
        let layout = *self.layout.get_or_insert(Layout { tabs, decimals });
        self.again.clear();
        MobileLines { layout }.push(&mut self.again, &record)?;
        if self.again.trim_end_matches('\n') != line {
            self.relaid += 1;
        }
        out.push_back(record);
        Ok(())
    }

    fn header(&self) -> Header {
        Header {
            algorithm: Some(Algorithm::Md5),
            width: MD5_BYTES,
            clock: "seconds since the trace began".to_owned(),
            form: Some(self.layout.unwrap_or_default().named()),
            ..Header::default()
        }
    }

    fn relaid(&self) -> u64 {
        self.relaid
    }
}

/// Splits a line into five fields, the process, and the MD5s after the last space.
fn split_at_spaces(line: &str) -> Vec<&str> {
    let mut fields = Vec::with_capacity(7);
    let mut rest = line.trim();
    for _ in 0..5 {
        let (field, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        fields.push(field);
        rest = behind.trim_start();
    }
    if let Some((process, digests)) = rest.rsplit_once(' ') {
        fields.extend([process.trim_end(), digests]);
    }
    fields
}

/// Writes lines of the form.
#[derive(Debug)]
pub struct MobileLines {
    layout: Layout,
}

impl MobileLines {
    /// Makes a writer in the layout of the trace, or with single spaces for a trace from another form.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        Self { layout: Layout::of(header) }
    }
}

impl Render for MobileLines {
    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason> {
        let op = direction(record, Unit::Block)?;
        let time = in_seconds(record.time_ns, self.layout.decimals);
        let (first, count) = (record.offset.get() / SECTOR_BYTES, record.length.get() / SECTOR_BYTES);
        let (pid, process) = (record.pid.unwrap_or(0), record.process.as_deref().unwrap_or("-"));
        if process.contains(['\t', '\n']) || process.is_empty() || process.trim() != process {
            return Err(format!("the name of the process would not read back: {:?}", shown(process)));
        }
        let _ = match self.layout.tabs {
            true => write!(text, "{time} \t{op}\t{first:>12}\t{count:>10}\t{pid:>10}\t{process:>15}\t"),
            false => write!(text, "{time} {op} {first} {count} {pid} {process} "),
        };
        push_md5s(text, &record.blocks, Unit::Block, "-")?;
        text.push('\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReadError, Records};
    use super::*;

    const PUBLISHED: &str = "7.430000743 \tR\t     1548752\t        24\t       744\t       Binder_5\t\
        fb0ece031db8f58df6849c2211df8c5a-35598db6787678b2acf4d0fc056f3b1d-9fc4e51c5541ecaeefc9da9e7cc55587\n";
    const PLAIN: &str = "0.000100 W 8 8 1 a b 620f0b67a91f7f74151bc5be745b7110\n12.000001 R 16 1 1 c 620f0b67a91f7f74151bc5be745b7110\n";

    fn again(text: &str) -> (String, u64) {
        let mut records = Records::new(MobileForm::default(), "x", text.as_bytes());
        let all: Result<Vec<Record>, ReadError> = records.by_ref().collect();
        let mut lines = MobileLines::new(&records.form().header());
        let mut text = String::new();
        all.expect("well-formed").iter().for_each(|record| lines.push(&mut text, record).expect("the form can represent it"));
        (text, records.form().relaid())
    }

    #[test]
    fn both_layouts_come_back() {
        assert_eq!(again(PUBLISHED), (PUBLISHED.to_owned(), 0));
        assert_eq!(again(PLAIN), (PLAIN.to_owned(), 0));
    }

    #[test]
    fn a_line_laid_out_otherwise_is_counted() {
        let (text, relaid) = again(&format!("{PLAIN}0.1   W 8 8 1 x 620f0b67a91f7f74151bc5be745b7110\n"));
        assert_eq!((text.lines().last(), relaid), (Some("0.100000 W 8 8 1 x 620f0b67a91f7f74151bc5be745b7110"), 1));
    }

    #[test]
    fn malformed_lines_are_refused() {
        for wrong in [
            "1.0 W 8 8 1 620f0b67a91f7f74151bc5be745b7110",
            "1 W 8 8 1 x 620f0b67a91f7f74151bc5be745b7110",
            "1.0 W 8 16 1 x 620f0b67a91f7f74151bc5be745b7110",
            "",
        ] {
            let read: Vec<_> = Records::new(MobileForm::default(), "x", format!("{wrong}\n").as_bytes()).collect();
            assert!(matches!(read[..], [Err(ReadError::Malformed(_))]), "{wrong}: {read:?}");
        }
    }
}
