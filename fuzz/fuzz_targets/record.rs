//! Records of the log: any bytes as the records of a unit. An accepted record encodes to the same bytes; and when it is pushed into units
//! with little room and split where necessary, its meaning stays the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::unit::{at, parse};
use onefold_engine::format::{EXTENT_PART_BLOCKS_MAX, OldRun, RECORD_BYTES_MAX, Record, UNIT_ROOM_BYTES, UnitWriter};
use onefold_engine::units::BLOCK_SIZE;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let data = &data[..data.len().min(UNIT_ROOM_BYTES)];
    let mut page = onefold_fuzz::sealed(UnitWriter::new(Vec::new()), &onefold_fuzz::unit_header());
    let length = u16::try_from(data.len()).expect("it fits a unit");
    page[at::RECORD_BYTES.offset..][..2].copy_from_slice(&length.to_le_bytes());
    page[at::LAYOUT.bytes..][..data.len()].copy_from_slice(data);
    let Some(unit) = parse(&page) else { return };
    let again = onefold_fuzz::again(&unit, &page);
    assert!(again[at::LAYOUT.bytes..] == page[at::LAYOUT.bytes..], "one record has one encoding");

    let mut waiting: Vec<Record> = unit.records.iter().rev().cloned().collect();
    let mut read = Vec::new();
    while !waiting.is_empty() {
        let mut writer = UnitWriter::new(Vec::new());
        let filler = UNIT_ROOM_BYTES - RECORD_BYTES_MAX - 4 * EXTENT_PART_BLOCKS_MAX as usize - usize::from(mode) - 24;
        assert_eq!(writer.push_slot(Fingerprint([0; 20]), &[1; BLOCK_SIZE][..filler]), Some(1));
        while let Some(record) = waiting.pop() {
            if let Some(rest) = writer.push(record) {
                waiting.push(rest);
                break;
            }
        }
        assert!(writer.record_count() > 0, "an empty unit has room for one");
        read.extend(parse(&onefold_fuzz::sealed(writer, &onefold_fuzz::unit_header())).expect("a unit").records);
    }
    let parts = |records: &[Record]| -> Vec<Record> { records.iter().flat_map(parts).collect() };
    assert_eq!(parts(&read), parts(&unit.records), "what was pushed is what is read");
});

/// Splits the record into records of one part each.
fn parts(record: &Record) -> Vec<Record> {
    let runs = |olds: &[OldRun], make: &dyn Fn(u64, OldRun) -> Record| -> Vec<Record> {
        let before = |i: usize| olds[..i].iter().map(|run| run.blocks).sum();
        olds.iter().enumerate().map(|(i, run)| make(before(i), *run)).collect()
    };
    match record {
        Record::Extent { lbn, pbn, olds, shorts, is_apart } => runs(olds, &|n, run| {
            let shorts = shorts[n as usize..(n + run.blocks) as usize].to_vec();
            Record::Extent { lbn: *lbn + n, pbn: *pbn + n, olds: vec![run], shorts, is_apart: *is_apart }
        }),
        Record::Clear { lbn, to, olds } => runs(olds, &|n, run| Record::Clear { lbn: *lbn + n, to: *to, olds: vec![run] }),
        Record::Closing { first, lost } if !lost.is_empty() => {
            lost.iter().map(|&pbn| Record::Closing { first: *first, lost: vec![pbn] }).collect()
        }
        _ => vec![record.clone()],
    }
}
