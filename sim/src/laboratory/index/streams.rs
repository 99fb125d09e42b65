//! The streams of a trace's writes: the applications that they come from, as far as a block device can know.

use onefold_trace::analyze::By;
use onefold_trace::record::Record;
use onefold_trace::synth::interleave::trace_at;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The number of a stream, in the order in which streams first appear.
pub type Stream = u8;

/// The largest number of streams; those that appear later are one together.
pub const STREAMS_MAX: usize = 64;
/// The name of the streams that are one together.
const OTHERS: &str = "(others)";
/// The name of the stream of requests that do not say where they come from.
const UNKNOWN: &str = "(unknown)";

/// Numbers streams.
#[derive(Debug, Default)]
pub struct Streams {
    by: By,
    /// The names of the traces, for their division.
    traces: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, Stream>,
    names: Vec<Arc<str>>,
}

impl Streams {
    /// Numbers the streams of traces with these names, which may be interleaved.
    #[must_use]
    pub fn new(by: By, traces: impl IntoIterator<Item = String>) -> Self {
        Self { by, traces: traces.into_iter().map(Arc::from).collect(), ..Self::default() }
    }

    /// Returns the number of the stream that a record belongs to.
    pub fn of(&mut self, record: &Record) -> Stream {
        let name = if self.by == By::Trace { self.traces.get(trace_at(record.offset)) } else { self.by.field(record) };
        let name = name.cloned().unwrap_or_else(|| UNKNOWN.into());
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        if self.names.len() < STREAMS_MAX {
            self.names.push(if self.names.len() == STREAMS_MAX - 1 { OTHERS.into() } else { Arc::clone(&name) });
        }
        let number = Stream::try_from(self.names.len() - 1).expect("at most 64 streams");
        self.numbers.insert(name, number);
        number
    }

    /// Returns the names of the streams so far, by number.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::Bytes;
    use onefold_trace::record::Op;
    use onefold_trace::synth::interleave::RANGE_BYTES;

    fn record(offset: u64, process: Option<&str>) -> Record {
        Record { process: process.map(Arc::from), ..Record::new(0, Op::Write, Bytes(offset), Bytes(4096)) }
    }

    #[test]
    fn streams_are_numbered_as_they_appear() {
        let mut streams = Streams::new(By::Process, []);
        let numbers: Vec<Stream> =
            [Some("mail"), None, Some("chat"), Some("mail"), None].map(|process| streams.of(&record(0, process))).into();
        assert_eq!((numbers, streams.names()), (vec![0, 1, 2, 0, 1], vec!["mail".into(), UNKNOWN.to_owned(), "chat".into()]));
        let mut streams = Streams::new(By::Trace, ["a".to_owned(), "b".to_owned()]);
        assert_eq!([RANGE_BYTES, 0, RANGE_BYTES + 4096].map(|offset| streams.of(&record(offset, None))), [0, 1, 0]);
        assert_eq!(streams.names(), ["b", "a"]);
    }

    #[test]
    fn streams_beyond_the_most_are_one() {
        let mut streams = Streams::new(By::Process, []);
        let numbers: Vec<Stream> = (0..100).map(|n| streams.of(&record(0, Some(&n.to_string())))).collect();
        assert_eq!((numbers[62], numbers[63], numbers[99], streams.of(&record(0, Some("62")))), (62, 63, 63, 62));
        assert_eq!((streams.names().len(), streams.names()[63].as_str()), (STREAMS_MAX, OTHERS));
    }
}
