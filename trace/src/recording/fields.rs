//! The records of one block.
//!
//! 1. Numbers are written 7 bits a byte, the lowest first; the top bit says that another follows. Differences are zigzag: 0, -1, 1, -2.
//! 2. A record is: the operation, plus 8 for FUA; a byte with a bit for each field that is there, pid, process, stream, flags, device,
//!    note, file and cgroup, the first in the lowest bit; the difference of the time to the record before; the difference of the offset to
//!    the end of the record before; the length; the fields; twice the number of blocks, plus 1 if there are sizes; for each block 0 for
//!    zeros, 1 for unknown content or 2 and the kept bytes of the fingerprint; for each block the size plus 1, or 0 for none.
//! 3. A text is the number of an earlier text of the block, from 1; or 0, its length and its bytes, which gives it the next number.

use crate::header::Header;
use crate::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record, kept};
use crate::text::names::Names;
use onefold_engine::units::{Bytes, count};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The operations, by their numbers.
const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes, Op::Mark];
/// The bit of FUA beside an operation.
const FUA: u8 = 8;

/// The values that differences are taken from.
#[derive(Default)]
struct Previous {
    time_ns: u64,
    end: u64,
}

impl Previous {
    fn set(&mut self, record: &Record) {
        *self = Self { time_ns: record.time_ns, end: record.offset.get().wrapping_add(record.length.get()) };
    }
}

fn texts(record: &Record) -> [Option<&Arc<str>>; 7] {
    let Record { process, stream, flags, device, note, file, cgroup, .. } = record;
    [process, stream, flags, device, note, file, cgroup].map(Option::as_ref)
}

/// Writes the records of a block.
pub struct Encoder {
    width: usize,
    bytes: Vec<u8>,
    previous: Previous,
    texts: FxHashMap<Arc<str>, u64>,
}

impl Encoder {
    /// Makes one that keeps as many bytes of each fingerprint as `header` says.
    pub fn new(header: &Header) -> Self {
        Self { width: kept(header.width), bytes: Vec::new(), previous: Previous::default(), texts: FxHashMap::default() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the block; the next record begins another one.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.previous = Previous::default();
        self.texts.clear();
    }

    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.bytes.push(low_bits(number));
    }

    fn difference(&mut self, from: u64, to: u64) {
        let difference = to.wrapping_sub(from) as i64;
        self.number(((difference << 1) ^ (difference >> 63)) as u64);
    }

    fn text(&mut self, text: &Arc<str>) {
        if let Some(known) = self.texts.get(text) {
            return self.number(*known);
        }
        self.texts.insert(Arc::clone(text), count(self.texts.len()) + 1);
        self.number(0);
        self.number(count(text.len()));
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Appends a record.
    pub fn push(&mut self, record: &Record) {
        let op = (0..).zip(OPS).find(|(_, op)| *op == record.op).map_or(0, |(number, _)| number);
        let texts = texts(record);
        let there = texts.iter().rev().fold(0, |bits, text| bits << 1 | u8::from(text.is_some())) << 1 | u8::from(record.pid.is_some());
        self.bytes.extend([op | if record.fua { FUA } else { 0 }, there]);
        self.difference(self.previous.time_ns, record.time_ns);
        self.difference(self.previous.end, record.offset.get());
        self.number(record.length.get());
        record.pid.into_iter().for_each(|pid| self.number(pid.into()));
        texts.into_iter().flatten().for_each(|text| self.text(text));
        let has_sizes = record.blocks.iter().any(|block| block.compressed.is_some());
        self.number(count(record.blocks.len()) * 2 + u64::from(has_sizes));
        for block in &record.blocks {
            match &block.name {
                ContentName::Zero => self.bytes.push(0),
                ContentName::Unknown => self.bytes.push(1),
                ContentName::Of(bytes) => {
                    self.bytes.push(2);
                    self.bytes.extend_from_slice(&bytes[..self.width]);
                }
            }
        }
        if has_sizes {
            record.blocks.iter().for_each(|block| self.number(block.compressed.map_or(0, |size| u64::from(size) + 1)));
        }
        self.previous.set(record);
    }
}

fn low_bits(number: u64) -> u8 {
    u8::try_from(number & 0x7f).expect("seven bits")
}

/// Reads the records of a block.
pub struct Decoder {
    width: usize,
    bytes: Vec<u8>,
    at: usize,
    previous: Previous,
    texts: Vec<Arc<str>>,
}

impl Decoder {
    /// Begins with the content of a block of a recording with this header.
    pub fn new(header: &Header, bytes: Vec<u8>) -> Self {
        Self { width: kept(header.width), bytes, at: 0, previous: Previous::default(), texts: Vec::new() }
    }

    pub fn is_over(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], String> {
        let begin = self.at;
        let taken = begin.checked_add(bytes).and_then(|end| self.bytes.get(begin..end));
        let taken = taken.ok_or("a record goes beyond its block")?;
        self.at += bytes;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.take(1).map(|byte| byte[0])
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    fn differing(&mut self, from: u64) -> Result<u64, String> {
        let number = self.number()?;
        Ok(from.wrapping_add((number >> 1) ^ (number & 1).wrapping_neg()))
    }

    /// Reads a number of things that have at least a byte each.
    fn length(&mut self, number: u64) -> Result<usize, String> {
        let left = self.bytes.len() - self.at;
        usize::try_from(number).ok().filter(|number| *number <= left).ok_or_else(|| "a record goes beyond its block".to_owned())
    }

    fn text(&mut self, names: &mut Names) -> Result<Arc<str>, String> {
        let number = self.number()?;
        if number > 0 {
            let known = usize::try_from(number - 1).ok().and_then(|number| self.texts.get(number));
            return known.cloned().ok_or_else(|| format!("a record names the text {number} of {}", self.texts.len()));
        }
        let length = self.number()?;
        let length = self.length(length)?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8")?;
        let text = names.get(text);
        self.texts.push(Arc::clone(&text));
        Ok(text)
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn record(&mut self, names: &mut Names) -> Result<Record, String> {
        let (op, there) = (self.byte()?, self.byte()?);
        let fua = op & FUA != 0;
        let op = *OPS.get(usize::from(op & !FUA)).ok_or_else(|| format!("a record has the unknown operation {op}"))?;
        let time_ns = self.differing(self.previous.time_ns)?;
        let offset = Bytes(self.differing(self.previous.end)?);
        let length = Bytes(self.number()?);
        let mut record = Record { fua, ..Record::new(time_ns, op, offset, length) };
        if there & 1 != 0 {
            let pid = self.number()?;
            record.pid = Some(u32::try_from(pid).map_err(|_| format!("a process has the number {pid}"))?);
        }
        let Record { process, stream, flags, device, note, file, cgroup, .. } = &mut record;
        for (bit, field) in (1..).zip([process, stream, flags, device, note, file, cgroup]) {
            if there >> bit & 1 != 0 {
                *field = Some(self.text(names)?);
            }
        }
        record.blocks = self.blocks()?;
        self.previous.set(&record);
        Ok(record)
    }

    fn blocks(&mut self) -> Result<Vec<Block>, String> {
        let number = self.number()?;
        let (blocks, has_sizes) = (self.length(number / 2)?, number % 2 != 0);
        let mut listed = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            listed.push(Block::named(match self.byte()? {
                0 => ContentName::Zero,
                1 => ContentName::Unknown,
                2 => {
                    let (mut name, width) = ([0; NAME_BYTES_MAX], self.width);
                    name[..width].copy_from_slice(self.take(width)?);
                    ContentName::Of(name)
                }
                other => return Err(format!("a block has the unknown content {other}")),
            }));
        }
        for block in listed.iter_mut().filter(|_| has_sizes) {
            let size = self.number()?;
            let size = size.checked_sub(1).map(|size| u16::try_from(size).map_err(|_| format!("a block has {size} bytes")));
            block.compressed = size.transpose()?;
        }
        Ok(listed)
    }
}
