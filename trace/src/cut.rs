//! Cutting a part out of a trace.
//!
//! 1. The part has the requests whose time, stream and blocks are selected. Of a request that lies partly in the range of blocks, only that
//!    part is taken.
//! 2. Flushes and marks belong to all streams and to the whole device: only the time selects among them.
//! 3. The part begins at time 0; its header keeps what the clock showed then.

use crate::header::{Header, Unit};
use crate::record::{Op, Record};
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use std::ops::Range;
use std::sync::Arc;

/// The part of a trace that is selected; by default the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The first nanosecond of the part, and the first one after it.
    pub time_ns: Option<Range<u64>>,
    pub stream: Option<String>,
    /// The first block of 4 KiB of the part, and the first one after it.
    pub lbns: Option<Range<u64>>,
    /// The name of the mark that the part begins with; it ends at the next mark.
    pub phase: Option<String>,
}

/// Cuts a trace record by record.
#[derive(Debug)]
pub struct Cutter {
    cut: Cut,
    unit: Option<Unit>,
    phase: Option<Arc<str>>,
    /// The time of the first record of the selected phase.
    began_ns: Option<u64>,
}

impl Cutter {
    /// Begins to cut.
    #[must_use]
    pub fn new(cut: Cut) -> Self {
        Self { cut, unit: None, phase: None, began_ns: None }
    }

    /// Returns the header of the part.
    #[must_use]
    pub fn header(&self, mut header: Header) -> Header {
        let begin = self.begin_ns();
        header.origin_ns = header.origin_ns.saturating_add(begin);
        let within = |time_ns| self.cut.time_ns.as_ref().is_none_or(|range| range.contains(&time_ns));
        header.gaps.retain(|gap| within(gap.time_ns) && gap.time_ns >= begin);
        header.gaps.iter_mut().for_each(|gap| gap.time_ns -= begin);
        header
    }

    fn begin_ns(&self) -> u64 {
        let by_time = self.cut.time_ns.as_ref().map_or(0, |range| range.start);
        self.began_ns.unwrap_or(0).max(by_time)
    }

    /// Returns the selected part of a record, whose fingerprints are of this unit.
    pub fn piece(&mut self, mut record: Record, unit: Unit) -> Option<Record> {
        let unit = *self.unit.get_or_insert(unit);
        if record.op == Op::Mark {
            self.phase.clone_from(&record.note);
        }
        if self.cut.time_ns.as_ref().is_some_and(|range| !range.contains(&record.time_ns)) {
            return None;
        }
        if let Some(phase) = &self.cut.phase {
            if self.phase.as_deref() != Some(phase) {
                return None;
            }
            self.began_ns.get_or_insert(record.time_ns);
        }
        if !matches!(record.op, Op::Flush | Op::Mark) {
            if self.cut.stream.is_some() && self.cut.stream.as_deref() != record.stream.as_deref() {
                return None;
            }
            if let Some(range) = &self.cut.lbns {
                clip(&mut record, range, unit)?;
            }
        }
        // Times may go back a little in a trace that was merged from those of several processors.
        record.time_ns = record.time_ns.saturating_sub(self.begin_ns());
        Some(record)
    }
}

/// Reduces a request to what lies in the range; returns none if nothing does.
fn clip(record: &mut Record, range: &Range<u64>, unit: Unit) -> Option<()> {
    let (begin, end) = (record.offset.get(), record.offset.get() + record.length.get());
    let from = begin.max(range.start.saturating_mul(BLOCK_BYTES));
    let to = end.min(range.end.saturating_mul(BLOCK_BYTES));
    if from >= to {
        return None;
    }
    if (from, to) != (begin, end) {
        let skipped = (from - begin) / unit.bytes();
        let kept = (to - begin).div_ceil(unit.bytes()) - skipped;
        // Fingerprints that do not begin where the part begins say nothing about its blocks.
        let is_even = (from - begin) % unit.bytes() == 0 && ((to - begin) % unit.bytes() == 0 || to == end);
        let indices = usize::try_from(skipped).ok().zip(usize::try_from(kept).ok());
        let slice = indices.filter(|_| is_even).and_then(|(skipped, kept)| record.blocks.get(skipped..skipped.checked_add(kept)?));
        record.blocks = slice.map(<[_]>::to_vec).unwrap_or_default();
        record.offset = Bytes(from);
        record.length = Bytes(to - from);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Block, ContentName, NAME_BYTES_MAX};

    fn write(time_ns: u64, first: u64, names: &[u8]) -> Record {
        let blocks: Vec<Block> = names.iter().map(|byte| Block::named(ContentName::Of([*byte; NAME_BYTES_MAX]))).collect();
        let length = Bytes(blocks.len() as u64 * BLOCK_BYTES);
        Record { blocks, stream: Some("D".into()), ..Record::new(time_ns, Op::Write, Bytes(first * BLOCK_BYTES), length) }
    }

    fn flush(time_ns: u64) -> Record {
        Record::new(time_ns, Op::Flush, Bytes(0), Bytes(0))
    }

    fn cut(cut: Cut, records: &[Record]) -> Vec<Record> {
        let mut cutter = Cutter::new(cut);
        records.iter().filter_map(|record| cutter.piece(record.clone(), Unit::Block)).collect()
    }

    #[test]
    fn a_request_is_clipped_with_its_fingerprints() {
        let lbns = |range: Range<u64>| Cut { lbns: Some(range), ..Cut::default() };
        let records = [write(1, 10, &[1, 2, 3, 4]), flush(2)];
        assert_eq!(cut(lbns(11..13), &records), [write(1, 11, &[2, 3]), flush(2)]);
        assert_eq!(cut(lbns(0..11), &records), [write(1, 10, &[1]), flush(2)]);
        assert_eq!(cut(lbns(14..99), &records), [flush(2)]);
        assert_eq!(cut(lbns(0..99), &records), records);
    }

    #[test]
    fn the_part_begins_at_time_zero() {
        let range = Cut { time_ns: Some(5..8), ..Cut::default() };
        assert_eq!(cut(range.clone(), &[flush(4), write(5, 0, &[1]), flush(7), flush(8)]), [write(0, 0, &[1]), flush(2)]);
        let header = Header { origin_ns: 100, gaps: vec![crate::header::Gap { time_ns: 6, requests: 1 }], ..Header::default() };
        let part = Cutter::new(range).header(header);
        assert_eq!((part.origin_ns, part.gaps[0].time_ns), (105, 1));
    }

    #[test]
    fn streams_and_phases() {
        let mut mark = Record::new(3, Op::Mark, Bytes(0), Bytes(0));
        mark.note = Some("run".into());
        let records = [write(1, 0, &[1]), mark.clone(), write(4, 1, &[2]), flush(5)];
        mark.time_ns = 0;
        let run = Cut { phase: Some("run".to_owned()), ..Cut::default() };
        assert_eq!(cut(run, &records), [mark, write(1, 1, &[2]), flush(2)]);
        let other = Cut { stream: Some("J".to_owned()), ..Cut::default() };
        assert_eq!(cut(other, &records).len(), 2, "the mark and the flush");
    }
}
