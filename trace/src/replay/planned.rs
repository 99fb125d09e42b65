//! The requests of a trace, one by one, as a front-end would pass them to a volume.
//!
//! 1. A write marked FUA and the flush right after it are one FUA write.
//! 2. No request with data is larger than the volume accepts; a larger one becomes several requests.
//! 3. Content is represented by words (`names.rs`). A block that the trace names has that name. If the trace names sectors, or a request
//!    begins inside a block, each sector has a word of its own. Content that was not recorded equals nothing else.

use crate::record::{ContentName, Op as Recorded, Record};
use crate::replay::names::{SECTORS, Words, mix};
use onefold_engine::interface::Op;
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES, index};
use std::iter::Peekable;
use std::sync::Arc;

/// The content of one block of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub words: Words,
    /// The compressed size that the trace gives.
    pub compressed: Option<u16>,
}

/// A request that a replay will send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    pub op: Op,
    pub fua: bool,
    pub offset: u64,
    pub length: u64,
    /// One entry for each block that a write touches; the words of sectors that it does not touch mean nothing.
    pub contents: Vec<Content>,
    /// The recorder's classification of the data.
    pub stream: Option<Arc<str>>,
    /// The time at which it was recorded, and the time since the record before it.
    pub recorded_ns: u64,
    pub think_ns: u64,
}

impl PlannedRequest {
    /// Plans a read that was not recorded.
    #[must_use]
    pub const fn read(offset: u64, length: u64) -> Self {
        Self { op: Op::Read, fua: false, offset, length, contents: Vec::new(), stream: None, recorded_ns: 0, think_ns: 0 }
    }

    /// Returns whether it changes what the volume holds.
    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self.op, Op::Write | Op::Discard | Op::WriteZeroes)
    }

    /// Returns the block that it begins in.
    #[must_use]
    pub fn first_block(&self) -> u64 {
        self.offset / BLOCK_BYTES
    }
}

/// The next item of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    PlannedRequest(PlannedRequest),
    /// The beginning of a phase.
    Mark(String),
}

/// Turns records into requests.
pub struct PlannedRequests<I: Iterator> {
    records: Peekable<I>,
    request_bytes_max: u64,
    /// The rest of a request that was too large.
    rest: Option<PlannedRequest>,
    last_ns: u64,
    unknown: u64,
}

impl<E, I: Iterator<Item = Result<Record, E>>> PlannedRequests<I> {
    /// Turns these records into requests of at most `request_bytes_max` bytes, a multiple of 4096.
    #[must_use]
    pub fn new(records: I, request_bytes_max: u64) -> Self {
        Self { records: records.peekable(), request_bytes_max, rest: None, last_ns: 0, unknown: 0 }
    }

    fn ask(&mut self, record: &Record) -> PlannedRequest {
        let op = match record.op {
            Recorded::Read => Op::Read,
            Recorded::Write => Op::Write,
            Recorded::Flush => Op::Flush,
            Recorded::Discard => Op::Discard,
            Recorded::WriteZeroes => Op::WriteZeroes,
            Recorded::Mark => unreachable!("a mark is no request"),
        };
        let fua = record.fua;
        if fua && op == Op::Write && matches!(self.records.peek(), Some(Ok(next)) if next.op == Recorded::Flush) {
            if let Some(Ok(flush)) = self.records.next() {
                self.last_ns = self.last_ns.max(flush.time_ns);
            }
        }
        let contents = if op == Op::Write { self.contents(record) } else { Vec::new() };
        let (offset, length) = (record.offset.get(), record.length.get());
        PlannedRequest { op, fua, offset, length, contents, stream: record.stream.clone(), recorded_ns: record.time_ns, think_ns: 0 }
    }

    fn contents(&mut self, record: &Record) -> Vec<Content> {
        let (offset, length) = (record.offset.get(), record.length.get());
        let aligned = offset % BLOCK_BYTES == 0 && length % BLOCK_BYTES == 0;
        if aligned && record.blocks.len() as u64 * BLOCK_BYTES == length {
            return record.blocks.iter().map(|b| Content { words: [self.word(b.name); SECTORS], compressed: b.compressed }).collect();
        }
        let first_sector = offset % BLOCK_BYTES / SECTOR_BYTES;
        let named_by_sector = record.blocks.len() as u64 * SECTOR_BYTES == length;
        let mut contents = vec![Content { words: [0; SECTORS], compressed: None }; index(record.blocks_touched())];
        let mut unknown = None;
        for i in 0..length / SECTOR_BYTES {
            let at = index(first_sector + i);
            let within = if named_by_sector { i } else { i / SECTORS as u64 };
            let name = record.blocks.get(index(within)).map_or(ContentName::Unknown, |b| b.name);
            let word = match name {
                ContentName::Zero => 0,
                ContentName::Of(_) if named_by_sector => self.word(name),
                ContentName::Of(_) => mix(self.word(name), i % SECTORS as u64),
                // All unknown sectors of one block share one word.
                ContentName::Unknown if at % SECTORS == 0 => *unknown.insert(self.word(name)),
                ContentName::Unknown => *unknown.get_or_insert_with(|| self.word(name)),
            };
            contents[at / SECTORS].words[at % SECTORS] = word;
        }
        contents
    }

    fn word(&mut self, name: ContentName) -> u64 {
        match name {
            ContentName::Zero => 0,
            ContentName::Of(bytes) => u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")).max(1),
            ContentName::Unknown => {
                self.unknown += 1;
                mix(self.unknown, 0x756e_6b6e_6f77_6e00)
            }
        }
    }

    /// Cuts a request down to what the volume accepts at once, and keeps the rest.
    fn cut(&mut self, mut ask: PlannedRequest) -> PlannedRequest {
        let end = (ask.offset / BLOCK_BYTES * BLOCK_BYTES).saturating_add(self.request_bytes_max);
        if ask.offset + ask.length <= end || !matches!(ask.op, Op::Read | Op::Write) {
            return ask;
        }
        let here = end - ask.offset;
        let blocks = index(self.request_bytes_max / BLOCK_BYTES);
        let contents = if ask.op == Op::Write { ask.contents.split_off(blocks) } else { Vec::new() };
        self.rest =
            Some(PlannedRequest { offset: end, length: ask.length - here, contents, stream: ask.stream.clone(), think_ns: 0, ..ask });
        ask.length = here;
        ask
    }
}

impl<E, I: Iterator<Item = Result<Record, E>>> Iterator for PlannedRequests<I> {
    type Item = Result<Next, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(rest) = self.rest.take() {
            return Some(Ok(Next::PlannedRequest(self.cut(rest))));
        }
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let think_ns = record.time_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(record.time_ns);
        if record.op == Recorded::Mark {
            return Some(Ok(Next::Mark(record.note.as_deref().unwrap_or_default().to_owned())));
        }
        let ask = PlannedRequest { think_ns, ..self.ask(&record) };
        Some(Ok(Next::PlannedRequest(self.cut(ask))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Block;
    use onefold_engine::units::Bytes;

    fn write(time_ns: u64, offset: u64, length: u64, names: &[u8]) -> Record {
        let blocks = names.iter().map(|&n| Block::named(if n == 0 { ContentName::Zero } else { ContentName::Of([n; 20]) })).collect();
        Record { blocks, ..Record::new(time_ns, Recorded::Write, Bytes(offset), Bytes(length)) }
    }

    fn asks(records: Vec<Record>, bytes_max: u64) -> Vec<PlannedRequest> {
        PlannedRequests::new(records.into_iter().map(Ok::<_, ()>), bytes_max)
            .map(|next| match next.expect("every record can be read") {
                Next::PlannedRequest(ask) => ask,
                Next::Mark(name) => panic!("a mark: {name}"),
            })
            .collect()
    }

    fn word(n: u8) -> u64 {
        u64::from_le_bytes([n; 8])
    }

    #[test]
    fn a_fua_write_takes_the_flush_right_after_it_and_no_other() {
        let fua = Record { fua: true, ..write(10, 0, 4096, &[1]) };
        let flush = |time_ns| Record::new(time_ns, Recorded::Flush, Bytes(0), Bytes(0));
        let some = asks(vec![fua.clone(), flush(14), flush(20), fua, write(30, 4096, 4096, &[2]), flush(31)], 1 << 20);
        let made: Vec<_> = some.iter().map(|a| (a.op, a.fua, a.think_ns)).collect();
        // The think time of the next request counts from the flush that was taken.
        assert_eq!(
            made,
            [(Op::Write, true, 10), (Op::Flush, false, 6), (Op::Write, true, 0), (Op::Write, false, 10), (Op::Flush, false, 1)]
        );
    }

    #[test]
    fn a_large_request_is_split_at_block_boundaries() {
        let some =
            asks(vec![write(5, 8192, 5 * 4096, &[1, 2, 3, 4, 5]), Record::new(7, Recorded::Read, Bytes(512), Bytes(3 * 4096))], 8192);
        let made: Vec<_> = some.iter().map(|a| (a.op, a.offset, a.length, a.contents.len(), a.think_ns)).collect();
        assert_eq!(
            made,
            [
                (Op::Write, 8192, 8192, 2, 5),
                (Op::Write, 16_384, 8192, 2, 0),
                (Op::Write, 24_576, 4096, 1, 0),
                (Op::Read, 512, 7680, 0, 2),
                (Op::Read, 8192, 4608, 0, 0),
            ]
        );
        assert_eq!(some[2].contents[0].words, [word(5); SECTORS]);
    }

    #[test]
    fn sectors_have_words_of_their_own() {
        // A write by sectors: two before the end of a block, one after it.
        let by_sector = &asks(vec![write(0, 3072, 1536, &[7, 0, 9])], 1 << 20)[0].contents;
        assert_eq!((by_sector[0].words[6], by_sector[0].words[7], by_sector[1].words[0]), (word(7), 0, word(9)));
        // A name of 4096 bytes that lie across two blocks: it is the same in both writes, but differs from the name of a whole block.
        let across = &asks(vec![write(0, 512, 4096, &[7]), write(1, 1024, 4096, &[7])], 1 << 20);
        assert_eq!(
            (across[0].contents[0].words[1], across[0].contents[1].words[0]),
            (across[1].contents[0].words[2], across[1].contents[1].words[1])
        );
        assert_ne!(across[0].contents[0].words[1], word(7));
        // Unknown content equals nothing else, except within its block.
        let unknown = asks(vec![write(0, 0, 8192, &[]), write(1, 0, 4096, &[])], 1 << 20);
        let words = [unknown[0].contents[0].words, unknown[0].contents[1].words, unknown[1].contents[0].words];
        assert!(words.iter().all(|w| *w == [w[0]; SECTORS]) && words[0] != words[1] && words[0] != words[2] && words[1] != words[2]);
    }
}
