//! The size of each stream's part beside a whole index, by count: contents that the stream's blocks hold, and contents stored at all.

use super::streams::Stream;
use super::writes::{Content, Writes, ZEROS};
use rustc_hash::FxHashSet;

/// The contents that blocks hold in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The contents of each stream's blocks: those that it wrote last.
    pub parts: Vec<u64>,
    /// All contents, each once.
    pub whole: u64,
}

/// Counts the contents in the end of all writes.
#[must_use]
pub fn shares(writes: &Writes) -> Shares {
    let mut last: Vec<(Stream, Content)> = vec![(0, ZEROS); writes.lbns as usize];
    for (write, &stream) in writes.list.iter().zip(&writes.streams) {
        last[write.lbn as usize] = (stream, write.content());
    }
    let held: FxHashSet<(Stream, Content)> = last.into_iter().filter(|&(_, content)| content != ZEROS).collect();
    let mut parts = vec![0; writes.names.len()];
    held.iter().for_each(|&(stream, _)| parts[usize::from(stream)] += 1);
    let contents: FxHashSet<Content> = held.into_iter().map(|(_, content)| content).collect();
    Shares { parts, whole: contents.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::index::streams::Streams;
    use onefold_engine::units::{BLOCK_BYTES, Bytes};
    use onefold_trace::analyze::By;
    use onefold_trace::header::Unit;
    use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};

    #[test]
    fn contents_that_are_held_in_the_end_are_counted_once_for_each_stream() {
        let record = |(process, lbn, content): (&str, u64, u8)| {
            let mut record = Record::new(0, Op::Write, Bytes(lbn * BLOCK_BYTES), Bytes(BLOCK_BYTES));
            record.process = Some(process.into());
            record.blocks = vec![Block::named(if content == 0 { ContentName::Zero } else { ContentName::Of([content; NAME_BYTES_MAX]) })];
            record
        };
        let list = [("a", 0, 1), ("a", 1, 1), ("a", 2, 2), ("b", 3, 1), ("b", 4, 3), ("b", 2, 4), ("a", 5, 0), ("a", 4, 0)];
        let writes = Writes::divided(list.into_iter().map(record), Unit::Block, Streams::new(By::Process, [])).expect("sound");
        assert_eq!(shares(&writes), Shares { parts: vec![1, 2], whole: 2 }, "content 1 is in both parts; 2 and 3 are overwritten");
    }
}
