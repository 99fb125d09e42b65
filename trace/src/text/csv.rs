//! Comma-separated values, which can represent every field of a record: for spreadsheets and for traces from other sources.
//!
//! 1. The first line names the columns, in any order. `time_ns`, `op`, `offset` and `length` are required; unknown columns are ignored.
//! 2. A line before it may begin with `#onefold-trace` and give the facts about the whole trace, as `key=value` separated by spaces.
//! 3. `fingerprints` and `compressed` have one entry for each block, separated by spaces: hexadecimal digits, `0` for zeros, `?` for
//!    unknown content; bytes, `?` for an unknown size.
//! 4. An empty field, or one that contains a comma or a quotation mark, is enclosed in quotation marks, and a quotation mark in it is
//!    doubled. A field contains no line break. A field that is missing altogether means *unknown*.

use super::names::{Names, name, number, push_hex, shown};
use super::{Form, Reason, Render};
use crate::header::{Header, Unit};
use crate::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record, kept};
use csv_core::{ReadFieldResult, ReaderBuilder, Terminator};
use onefold_engine::units::Bytes;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

/// All columns, in the order in which they are written.
pub const COLUMNS: [&str; 15] = [
    "time_ns",
    "op",
    "fua",
    "offset",
    "length",
    "pid",
    "process",
    "stream",
    "flags",
    "device",
    "note",
    "file",
    "cgroup",
    "fingerprints",
    "compressed",
];
/// The columns that are required.
const REQUIRED: [&str; 4] = ["time_ns", "op", "offset", "length"];
/// The beginning of the line before the columns.
const MARK: &str = "#onefold-trace";

/// Reads lines of the form.
#[derive(Debug, Default)]
pub struct CsvForm {
    /// The place in [`COLUMNS`] of each column of the input; none for an unknown column.
    columns: Option<Vec<Option<usize>>>,
    header: Header,
    names: Names,
}

impl Form for CsvForm {
    fn parse(&mut self, line: &str, out: &mut VecDeque<Record>) -> Result<(), Reason> {
        let Some(columns) = &self.columns else { return self.begin(line) };
        let given = split(line)?;
        if given.len() != columns.len() {
            return Err(format!("{} fields instead of {}", given.len(), columns.len()));
        }
        let mut fields: [Option<Cow<str>>; COLUMNS.len()] = Default::default();
        for (field, column) in given.into_iter().zip(columns) {
            if let Some(column) = column {
                fields[*column] = field;
            }
        }
        let [time, op, fua, offset, length, pid, process, stream, flags, device, note, file, cgroup, names, sizes] = fields;
        let needed = |what: &str, field: Option<Cow<str>>| field.map(Cow::into_owned).ok_or_else(|| format!("{what} is missing"));
        let op = needed("op", op)?;
        let op = Op::named(&op).ok_or_else(|| format!("unknown op {:?}", shown(&op)))?;
        let offset = Bytes(number("offset", &needed("offset", offset)?)?);
        let length = Bytes(number("length", &needed("length", length)?)?);
        let mut record = Record::new(number("time_ns", &needed("time_ns", time)?)?, op, offset, length);
        if !record.is_well_formed() || offset.get().checked_add(length.get()).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err("offset and length are not whole sectors of a device, or not 0 for a flush or a mark".to_owned());
        }
        record.fua = match fua.as_deref() {
            Some("true") => true,
            Some("false") | None => false,
            Some(other) => return Err(format!("fua is neither true nor false: {:?}", shown(other))),
        };
        record.pid = pid.map(|pid| number("pid", &pid)).transpose()?;
        let mut shared = |field: Option<Cow<str>>| field.map(|text| self.names.get(&text));
        (record.process, record.stream, record.flags) = (shared(process), shared(stream), shared(flags));
        (record.device, record.file, record.cgroup) = (shared(device), shared(file), shared(cgroup));
        record.note = note.map(|note| Arc::from(&*note));
        record.blocks = self.blocks(names.as_deref(), sizes.as_deref())?;
        out.push_back(record);
        Ok(())
    }

    fn header(&self) -> Header {
        self.header.clone()
    }

    fn unit(&self) -> Unit {
        self.header.unit
    }
}

impl CsvForm {
    fn begin(&mut self, line: &str) -> Result<(), Reason> {
        if let Some(facts) = line.strip_prefix(MARK) {
            let pairs = facts.split(' ').filter_map(|pair| pair.split_once('='));
            let pairs: Vec<(String, String)> = pairs.map(|(key, value)| (format!("onefold.{key}"), decode(value))).collect();
            self.header = Header::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))?;
            return Ok(());
        }
        let given: Vec<String> = split(line)?.into_iter().map(|field| field.unwrap_or_default().into_owned()).collect();
        if let Some(missing) = REQUIRED.iter().find(|required| !given.iter().any(|column| column == *required)) {
            return Err(format!("the first line does not name the column {missing}; the known columns are {}", COLUMNS.join(", ")));
        }
        self.columns = Some(given.iter().map(|column| COLUMNS.iter().position(|known| known == column)).collect());
        Ok(())
    }

    fn blocks(&mut self, names: Option<&str>, sizes: Option<&str>) -> Result<Vec<Block>, Reason> {
        let mut blocks = Vec::new();
        for text in names.into_iter().flat_map(|names| names.split(' ')) {
            let name = match text {
                "?" => ContentName::Unknown,
                "0" => ContentName::Zero,
                digits if digits.len() % 2 != 0 || digits.is_empty() || digits.len() > 2 * NAME_BYTES_MAX => {
                    return Err(format!("a fingerprint of {} digits", digits.len()));
                }
                digits => {
                    let width = digits.len() / 2;
                    if self.header.width == 0 {
                        self.header.width = width;
                    }
                    if self.header.width != width {
                        return Err(format!("a fingerprint of {width} bytes, but the earlier ones have {}", self.header.width));
                    }
                    // The form writes a block of zeros as `0`, so no digits are compared with those of zeros.
                    name(digits.as_bytes(), &[])?
                }
            };
            blocks.push(Block::named(name));
        }
        let sizes: Vec<&str> = sizes.into_iter().flat_map(|sizes| sizes.split(' ')).collect();
        if !sizes.is_empty() && sizes.len() != blocks.len() {
            return Err(format!("{} sizes for {} fingerprints", sizes.len(), blocks.len()));
        }
        for (block, size) in blocks.iter_mut().zip(sizes) {
            block.compressed = if size == "?" { None } else { Some(number("a compressed size", size)?) };
        }
        Ok(blocks)
    }
}

/// Splits a line into its fields; an empty field is none, and one with nothing between its quotation marks is an empty text.
fn split(line: &str) -> Result<Vec<Option<Cow<'_, str>>>, Reason> {
    let mut reader = ReaderBuilder::new().terminator(Terminator::Any(b'\n')).build();
    let (mut fields, mut rest, mut output) = (Vec::new(), line, vec![0; line.len()]);
    loop {
        let (mut result, read, written) = reader.read_field(rest.as_bytes(), &mut output);
        let mut raw = &rest[..read];
        match result {
            ReadFieldResult::Field { .. } => raw = raw.strip_suffix(',').unwrap_or(raw),
            // The line ends here. So says an input without bytes.
            _ => result = reader.read_field(&[], &mut []).0,
        }
        fields.push(field(raw, &output[..written])?);
        if !matches!(result, ReadFieldResult::Field { record_end: false }) {
            return Ok(fields);
        }
        rest = &rest[read..];
    }
}

/// Returns a field by its characters in the line and the text that they stand for. The reader takes quotation marks as they come; the form
/// knows one way to write a text.
fn field<'a>(raw: &'a str, text: &[u8]) -> Result<Option<Cow<'a, str>>, Reason> {
    if !raw.starts_with('"') {
        return Ok(Some(Cow::Borrowed(raw)).filter(|field| !field.is_empty()));
    }
    let doubled = text.iter().filter(|byte| **byte == b'"').count();
    if !raw.ends_with('"') || raw.len() != text.len() + doubled + 2 {
        return Err("a quotation mark is not closed, or its closing mark is followed by something other than a comma".to_owned());
    }
    let text = String::from_utf8(text.to_vec()).map_err(|error| error.to_string())?;
    Ok(Some(Cow::Owned(text)))
}

/// Encodes a value of the line before the columns, so that it contains no spaces.
fn encode(value: &str) -> String {
    value.replace('%', "%25").replace(' ', "%20").replace('\n', "%0A")
}

fn decode(value: &str) -> String {
    value.replace("%0A", "\n").replace("%20", " ").replace("%25", "%")
}

/// Writes lines of the form.
#[derive(Debug)]
pub struct CsvLines {
    header: Header,
}

impl CsvLines {
    /// Makes a writer for a trace.
    #[must_use]
    pub const fn new(header: Header) -> Self {
        Self { header }
    }
}

impl Render for CsvLines {
    fn begin(&mut self, text: &mut String) {
        text.push_str(MARK);
        for (key, value) in self.header.to_pairs() {
            let _ = write!(text, " {}={}", key.trim_start_matches("onefold."), encode(&value));
        }
        let _ = writeln!(text, "\n{}", COLUMNS.join(","));
    }

    fn push(&mut self, text: &mut String, record: &Record) -> Result<(), Reason> {
        let (offset, length) = (record.offset.get(), record.length.get());
        let _ = write!(text, "{},{},{},{offset},{length},", record.time_ns, record.op.name(), record.fua);
        if let Some(pid) = record.pid {
            let _ = write!(text, "{pid}");
        }
        for field in [&record.process, &record.stream, &record.flags, &record.device, &record.note, &record.file, &record.cgroup] {
            text.push(',');
            match field.as_deref() {
                Some(field) if field.contains('\n') => return Err(format!("{:?} contains a line break", shown(field))),
                Some(field) if field.is_empty() || field.contains([',', '"']) => {
                    let _ = write!(text, "\"{}\"", field.replace('"', "\"\""));
                }
                field => text.push_str(field.unwrap_or_default()),
            }
        }
        let between = |index: usize| if index == 0 { ',' } else { ' ' };
        for (index, block) in record.blocks.iter().enumerate() {
            text.push(between(index));
            match &block.name {
                ContentName::Zero => text.push('0'),
                ContentName::Of(bytes) => push_hex(text, &bytes[..kept(self.header.width)]),
                ContentName::Unknown => text.push('?'),
            }
        }
        text.push_str(if record.blocks.is_empty() { ",," } else { "" });
        let has_sizes = record.blocks.iter().any(|block| block.compressed.is_some());
        if !record.blocks.is_empty() && !has_sizes {
            text.push(',');
        }
        for (index, block) in record.blocks.iter().enumerate().filter(|_| has_sizes) {
            text.push(between(index));
            text.push_str(&block.compressed.map_or_else(|| "?".to_owned(), |size| size.to_string()));
        }
        text.push('\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReadError, Records};
    use super::*;

    fn read(text: &str) -> (Result<Vec<Record>, ReadError>, Header) {
        let mut records = Records::new(CsvForm::default(), "x", text.as_bytes());
        let all = records.by_ref().collect();
        (all, records.form().header())
    }

    #[test]
    fn every_field_comes_back() {
        let mut record = Record::new(7, Op::Write, Bytes(4096), Bytes(12288));
        (record.fua, record.pid, record.process, record.note) = (true, Some(3), Some("a, \"b\"".into()), Some("".into()));
        (record.file, record.cgroup) = (Some("/srv/a,b".into()), Some("/user.slice".into()));
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..3].copy_from_slice(&[1, 2, 0xff]);
        record.blocks = vec![
            Block { name: ContentName::Zero, compressed: None },
            Block { name: ContentName::Of(bytes), compressed: Some(192) },
            Block { name: ContentName::Unknown, compressed: None },
        ];
        let records = vec![record, Record::new(8, Op::Flush, Bytes(0), Bytes(0))];
        let header = Header { width: 3, clock: "50 % off".to_owned(), ..Header::default() };
        let (mut lines, mut text) = (CsvLines::new(header.clone()), String::new());
        lines.begin(&mut text);
        records.iter().for_each(|record| lines.push(&mut text, record).expect("the form can represent it"));
        let (read, header_read) = read(&text);
        assert_eq!((read.expect("well-formed"), header_read), (records, header), "{text}");
        assert!(
            text.ends_with(concat!(
                "7,write,true,4096,12288,3,\"a, \"\"b\"\"\",,,,\"\",\"/srv/a,b\",/user.slice,0 0102ff ?,? 192 ?\n",
                "8,flush,false,0,0,,,,,,,,,,\n"
            )),
            "{text}"
        );
    }

    #[test]
    fn unknown_columns_are_ignored() {
        let (read, header) = read("length,latency,op,time_ns,offset,fingerprints\n512,3.5,write,1,0,abcd\n");
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..2].copy_from_slice(&[0xab, 0xcd]);
        let wanted = Record { blocks: vec![Block::named(ContentName::Of(bytes))], ..Record::new(1, Op::Write, Bytes(0), Bytes(512)) };
        assert_eq!((read.expect("well-formed"), header.width), (vec![wanted], 2));
    }

    #[test]
    fn a_line_is_split_at_its_commas() {
        let split = |line| split(line).map(|fields| fields.into_iter().map(|field| field.map(Cow::into_owned)).collect::<Vec<_>>());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(split(""), Ok(vec![None]));
        assert_eq!(split(","), Ok(vec![None, None]));
        assert_eq!(split("a,,\"\",b\r"), Ok(vec![some("a"), None, some(""), some("b\r")]));
        assert_eq!(split("\"a,\"\"é\"\"\",x\"y,"), Ok(vec![some("a,\"é\""), some("x\"y"), None]));
        for wrong in ["\"", "\"\"\"", "\"a", "\"a\"\"", "\"a\"b", "\"a\"b\"", "\"a\"b\"\"", "\"\"a\"\"", "\"a\" ,b"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn malformed_lines_are_refused_with_the_reason() {
        let head = "time_ns,op,offset,length,fingerprints";
        for wrong in [
            "1,write,0",
            "1,scrub,0,512,",
            "1,write,0,5,",
            "1,write,0,512,\"ab",
            "1,write,0,512,abc",
            "1,write,0,512,\"ab\"c",
            "x,write,0,512,",
        ] {
            assert!(matches!(read(&format!("{head}\n{wrong}\n")).0, Err(ReadError::Malformed(m)) if m.line == 2), "{wrong}");
        }
        assert!(read("time_ns,op,offset\n").0.is_err());
    }
}
