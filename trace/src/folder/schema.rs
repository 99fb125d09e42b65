//! The columns of a file, and the conversion of records to and from rows. docs/tracing.md describes the columns.

use crate::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record, kept};
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, ListBuilder, StringBuilder, UInt16Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, ListArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use onefold_engine::units::Bytes;
use std::sync::Arc;

/// The name of the column of fingerprints.
pub const FINGERPRINTS: &str = "fingerprints";

fn element(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("element", data_type, true))
}

pub fn schema() -> SchemaRef {
    let required = |name, data_type| Field::new(name, data_type, false);
    let optional = |name, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        required("time_ns", DataType::UInt64),
        required("op", DataType::Utf8),
        required("fua", DataType::Boolean),
        required("offset", DataType::UInt64),
        required("length", DataType::UInt64),
        optional("pid", DataType::UInt32),
        optional("process", DataType::Utf8),
        optional("stream", DataType::Utf8),
        optional("flags", DataType::Utf8),
        optional("device", DataType::Utf8),
        optional("note", DataType::Utf8),
        optional("file", DataType::Utf8),
        optional("cgroup", DataType::Utf8),
        optional(FINGERPRINTS, DataType::List(element(DataType::Binary))),
        optional("compressed", DataType::List(element(DataType::UInt16))),
    ]))
}

/// Converts records to rows, with the first `width` bytes of each fingerprint.
pub fn encode(records: &[Record], width: usize) -> RecordBatch {
    let numbers = |of: fn(&Record) -> u64| UInt64Array::from_iter_values(records.iter().map(of));
    let texts = |of: fn(&Record) -> Option<&str>| StringArray::from_iter(records.iter().map(of));
    let mut ops = StringBuilder::new();
    let mut fua = BooleanBuilder::with_capacity(records.len());
    let mut names = ListBuilder::new(BinaryBuilder::new()).with_field(element(DataType::Binary));
    let mut sizes = ListBuilder::new(UInt16Builder::new()).with_field(element(DataType::UInt16));
    for record in records {
        ops.append_value(record.op.name());
        fua.append_value(record.fua);
        for block in &record.blocks {
            match block.name {
                ContentName::Zero => names.values().append_value([]),
                ContentName::Of(bytes) => names.values().append_value(&bytes[..kept(width)]),
                ContentName::Unknown => names.values().append_null(),
            }
        }
        names.append(!record.blocks.is_empty());
        let has_sizes = record.blocks.iter().any(|block| block.compressed.is_some());
        if has_sizes {
            record.blocks.iter().for_each(|block| sizes.values().append_option(block.compressed));
        }
        sizes.append(has_sizes);
    }
    let columns: Vec<Arc<dyn Array>> = vec![
        Arc::new(numbers(|r| r.time_ns)),
        Arc::new(ops.finish()),
        Arc::new(fua.finish()),
        Arc::new(numbers(|r| r.offset.get())),
        Arc::new(numbers(|r| r.length.get())),
        Arc::new(UInt32Array::from_iter(records.iter().map(|r| r.pid))),
        Arc::new(texts(|r| r.process.as_deref())),
        Arc::new(texts(|r| r.stream.as_deref())),
        Arc::new(texts(|r| r.flags.as_deref())),
        Arc::new(texts(|r| r.device.as_deref())),
        Arc::new(texts(|r| r.note.as_deref())),
        Arc::new(texts(|r| r.file.as_deref())),
        Arc::new(texts(|r| r.cgroup.as_deref())),
        Arc::new(names.finish()),
        Arc::new(sizes.finish()),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema")
}

/// The columns of a batch of rows, found by name, so that other columns may lie between them.
pub struct Rows<'a> {
    time: &'a UInt64Array,
    op: &'a StringArray,
    fua: &'a BooleanArray,
    offset: &'a UInt64Array,
    length: &'a UInt64Array,
    pid: &'a UInt32Array,
    process: &'a StringArray,
    stream: &'a StringArray,
    flags: &'a StringArray,
    device: &'a StringArray,
    note: &'a StringArray,
    /// None in a trace that was made before there was such a column; the same holds for `cgroup`.
    file: Option<&'a StringArray>,
    cgroup: Option<&'a StringArray>,
    names: &'a ListArray,
    sizes: &'a ListArray,
}

impl<'a> Rows<'a> {
    pub fn of(batch: &'a RecordBatch) -> Result<Self, String> {
        let column = |name: &str| -> Result<&'a Arc<dyn Array>, String> {
            let schema = schema();
            let wanted = schema.field_with_name(name).expect("it is of the schema").data_type();
            let column = batch.column_by_name(name).ok_or_else(|| format!("it has no column {name}"))?;
            if column.data_type().equals_datatype(wanted) {
                Ok(column)
            } else {
                Err(format!("its column {name} has the type {} instead of {wanted}", column.data_type()))
            }
        };
        let texts = |name| column(name).map(|column| column.as_string::<i32>());
        let later = |name| batch.column_by_name(name).is_some().then(|| texts(name)).transpose();
        Ok(Self {
            time: column("time_ns")?.as_primitive::<UInt64Type>(),
            op: texts("op")?,
            fua: column("fua")?.as_boolean(),
            offset: column("offset")?.as_primitive::<UInt64Type>(),
            length: column("length")?.as_primitive::<UInt64Type>(),
            pid: column("pid")?.as_primitive::<UInt32Type>(),
            process: texts("process")?,
            stream: texts("stream")?,
            flags: texts("flags")?,
            device: texts("device")?,
            note: texts("note")?,
            file: later("file")?,
            cgroup: later("cgroup")?,
            names: column(FINGERPRINTS)?.as_list::<i32>(),
            sizes: column("compressed")?.as_list::<i32>(),
        })
    }

    /// Converts a row to a record.
    pub fn record(&self, row: usize, names: &mut crate::text::names::Names) -> Result<Record, String> {
        let op = Op::named(self.op.value(row)).ok_or_else(|| format!("unknown op {:?}", self.op.value(row)))?;
        let mut text = |column: &StringArray| column.is_valid(row).then(|| names.get(column.value(row)));
        Ok(Record {
            time_ns: self.time.value(row),
            op,
            fua: self.fua.value(row),
            offset: Bytes(self.offset.value(row)),
            length: Bytes(self.length.value(row)),
            pid: self.pid.is_valid(row).then(|| self.pid.value(row)),
            process: text(self.process),
            stream: text(self.stream),
            flags: text(self.flags),
            device: text(self.device),
            note: text(self.note),
            file: self.file.and_then(&mut text),
            cgroup: self.cgroup.and_then(&mut text),
            blocks: self.blocks(row)?,
        })
    }

    fn blocks(&self, row: usize) -> Result<Vec<Block>, String> {
        if self.names.is_null(row) {
            return Ok(Vec::new());
        }
        let listed = self.names.value(row);
        let listed = listed.as_binary::<i32>();
        let mut blocks = Vec::with_capacity(listed.len());
        for name in listed {
            blocks.push(Block::named(match name {
                None => ContentName::Unknown,
                Some([]) => ContentName::Zero,
                Some(kept) => {
                    let mut bytes = [0; NAME_BYTES_MAX];
                    bytes.get_mut(..kept.len()).ok_or_else(|| format!("a fingerprint has {} bytes", kept.len()))?.copy_from_slice(kept);
                    ContentName::Of(bytes)
                }
            }));
        }
        if self.sizes.is_valid(row) {
            let sizes = self.sizes.value(row);
            let sizes = sizes.as_primitive::<UInt16Type>();
            if sizes.len() != blocks.len() {
                return Err(format!("there are {} sizes for {} fingerprints", sizes.len(), blocks.len()));
            }
            for (block, size) in blocks.iter_mut().zip(sizes) {
                block.compressed = size;
            }
        }
        Ok(blocks)
    }
}
