//! The form of the traces of Florida International University (Koller and Rangaswami, FAST '10), one request a line, with a space between
//! fields:
//! `NANOSECONDS PID PROCESS FIRST_SECTOR SECTORS W|R MAJOR MINOR MD5`.
//!
//! 1. A line has one MD5 for each 4096 bytes of the request; in the set `homes` one for each 512 bytes, without separators.
//! 2. The name of a process may contain spaces: it is what remains between the numbers, the direction and the MD5.
//! 3. Times count from that of the first line, which the header keeps. A line with an earlier time is malformed.
//! 4. Reads have MD5s, too, and keep them.

use super::names::{MD5_BYTES, Names, number, shown};
use super::shape::{device, md5s, push_md5s, sectors};
use super::{Form, Reason, Render};
use crate::header::{Header, Unit};
use crate::record::{Op, Record};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::SECTOR_BYTES;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Reads lines of the form.
#[derive(Debug)]
pub struct FiuForm {
    unit: Unit,
    origin_ns: Option<u64>,
    names: Names,
}

impl FiuForm {
    /// Makes a reader of the form with one MD5 for each unit.
    #[must_use]
    pub fn new(unit: Unit) -> Self {
        Self { unit, origin_ns: None, names: Names::default() }
    }
}

impl Form for FiuForm {
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason> {
        let few = || "fewer than nine fields".to_owned();
        let (time, rest) = line.split_once(' ').ok_or_else(few)?;
        let (pid, rest) = rest.split_once(' ').ok_or_else(few)?;
        let behind: Vec<&str> = rest.rsplitn(7, ' ').collect();
        let [digests, minor, major, op, count, first, process] = behind[..] else { return Err(few()) };
        let time: u64 = number("the time", time)?;
        let origin = self.origin_ns.unwrap_or(time);
        let time_ns = time.checked_sub(origin).ok_or_else(|| format!("its time is earlier than that of the first line, {origin}"))?;
        let op = match op {
            "W" => Op::Write,
            "R" => Op::Read,
            _ => return Err(format!("the direction is neither W nor R: {:?}", shown(op))),
        };
        let (offset, length) = sectors(first, count)?;
        let mut record = Record::new(time_ns, op, offset, length);
        record.pid = Some(number("the pid", pid)?);
        let (major, minor) = (number::<u32>("the major number", major)?, number::<u32>("the minor number", minor)?);
        record.blocks = md5s(digests.as_bytes().chunks(2 * MD5_BYTES), length, self.unit)?;
        record.process = Some(self.names.get(process));
        record.device = Some(self.names.get(&format!("{major} {minor}")));
        self.origin_ns = Some(origin);
        out.push_back(record);
        Ok(())
    }

    fn header(&self) -> Header {
        Header {
            algorithm: Some(Algorithm::Md5),
            width: MD5_BYTES,
            unit: self.unit,
            clock: "of the traced machine, nanoseconds".to_owned(),
            origin_ns: self.origin_ns.unwrap_or(0),
            form: Some(if self.unit == Unit::Block { "fiu" } else { "fiu-homes" }.to_owned()),
            ..Header::default()
        }
    }

    fn unit(&self) -> Unit {
        self.unit
    }
}

/// Writes lines of the form.
#[derive(Debug)]
pub struct FiuLines {
    unit: Unit,
    origin_ns: u64,
}

impl FiuLines {
    /// Makes a writer for a trace, with times on the trace's own clock.
    #[must_use]
    pub const fn new(header: &Header) -> Self {
        Self { unit: header.unit, origin_ns: header.origin_ns }
    }
}

impl Render for FiuLines {
    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason> {
        let op = direction(record, self.unit)?;
        let time = record.time_ns.checked_add(self.origin_ns).ok_or("its time is beyond 584 years")?;
        let (first, count) = (record.offset.get() / SECTOR_BYTES, record.length.get() / SECTOR_BYTES);
        let process = record.process.as_deref().unwrap_or("-");
        let (major, minor) = device(record)?;
        if process.contains('\n') {
            return Err("the name of the process contains a line break".to_owned());
        }
        let _ = write!(text, "{time} {} {process} {first} {count} {op} {major} {minor} ", record.pid.unwrap_or(0));
        push_md5s(text, &record.blocks, self.unit, "")?;
        text.push('\n');
        Ok(())
    }
}

/// Returns W or R for a request that has a fingerprint for each of its units.
pub(super) fn direction(record: &Record, unit: Unit) -> Result<char, Reason> {
    let op = match record.op {
        Op::Write => 'W',
        Op::Read => 'R',
        _ => return Err(format!("the form cannot represent {}", record.op.name())),
    };
    if !record.is_well_formed() {
        return Err("it does not cover whole sectors".to_owned());
    }
    if record.blocks.len() as u64 != record.length.get().div_ceil(unit.bytes()) {
        return Err(format!("it does not have one fingerprint for each {} bytes", unit.bytes()));
    }
    Ok(op)
}

#[cfg(test)]
mod tests {
    use super::super::{ReadError, Records};
    use super::*;
    use crate::record::ContentName;

    const BLOCKS: &str = "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
        89968195792470 4892 a b  c 904265560 9 W 6 0 620f0b67a91f7f74151bc5be745b7110531e779e531e779e531e779e531e779e\n";

    fn read(unit: Unit, text: &str) -> (Vec<Result<Record, ReadError>>, Header) {
        let mut records = Records::new(FiuForm::new(unit), "x", text.as_bytes());
        let all = records.by_ref().collect();
        (all, records.form().header())
    }

    #[test]
    fn published_lines_come_back() {
        let (records, header) = read(Unit::Block, BLOCKS);
        let records: Vec<Record> = records.into_iter().map(|record| record.expect("well-formed")).collect();
        assert_eq!((header.origin_ns, records[0].time_ns, records[1].time_ns), (89_968_195_792_462, 0, 8));
        assert_eq!((records[1].process.as_deref(), records[1].device.as_deref()), (Some("a b  c"), Some("6 0")));
        assert_eq!((records[1].blocks.len(), records[1].blocks[0].name), (2, ContentName::Zero));
        let (mut lines, mut text) = (FiuLines::new(&header), String::new());
        records.iter().for_each(|record| lines.push(&mut text, record).expect("the form can represent it"));
        assert_eq!(text, BLOCKS);
    }

    #[test]
    fn homes_has_one_for_each_sector() {
        let digests = "bf619eac0cdf3f68d496ea9344137e8b".repeat(8);
        let line = format!("5 1 nfsd 8 8 W 8 1 {digests}\n");
        let (records, header) = read(Unit::Sector, &line);
        let record = records.into_iter().next().expect("one").expect("well-formed");
        assert!(record.blocks.len() == 8 && record.blocks.iter().all(|block| block.name == ContentName::Zero));
        let mut text = String::new();
        FiuLines::new(&header).push(&mut text, &record).expect("the form can represent it");
        assert_eq!(text, line);
        assert!(read(Unit::Block, &line).0[0].is_err(), "eight for one block");
    }

    #[test]
    fn malformed_lines_are_refused() {
        let good = BLOCKS.lines().next().expect("there is one");
        let wrong =
            ["", "a b", &good.replace(" R ", " X "), &good[..good.len() - 1], &good.replace(" 8 R", " 0 R"), &good.replace(" 6 ", " 06 ")];
        let (records, _) = read(Unit::Block, &format!("{good}\n1 {}\n{}\n", &good[15..], wrong.join("\n")));
        assert_eq!(records.iter().map(Result::is_ok).collect::<Vec<_>>(), [&[true, false][..], &[false; 6]].concat());
    }
}
