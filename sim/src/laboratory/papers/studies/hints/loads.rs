//! The loads of Figures 3, 4 and 5, made block by block: a stand-in for dd, and for Filebench's file server, of any size.
//!
//! 1. Requests are as Dmdedup gets them: writes of 4 KiB, one after the other, as fast as they are taken.
//! 2. Shares are exact: a content that occurs k times occurs k times, and metadata have the share, and the duplicates, of Table 1's Ext4.
//! 3. The order of contents and the places of the file server are drawn, always the same ones.

use super::cases::Load;
use super::published::EXT4;
use crate::laboratory::counts::names::mix;
use crate::laboratory::replay::streams::{JOURNAL, METADATA};
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
use std::collections::HashSet;
use std::sync::Arc;

/// The writes between two flushes of metadata, in the paper's setting that is not after each write.
pub const FLUSH_WRITES: u64 = 1000;
/// The blocks that dd reads at once, with read-ahead.
const READ_BLOCKS: u64 = 32;
/// The copies of the file.
const COPIES: u64 = 2;
/// The file that is copied, as a part of the dd's: 1 GB of 4.
const FILE_PART: u64 = 4;
/// The blocks of a file of the server, and of what is appended to one.
const FILE_BLOCKS: u64 = 32;
const APPEND_BLOCKS: u64 = 4;
/// The blocks of the journal, and of the places of other metadata.
const JOURNAL_BLOCKS: u64 = 4096;
const HOME_BLOCKS: u64 = 2048;
/// The metadata blocks of a transaction.
const TRANSACTION_BLOCKS: u64 = 64;
/// The first content of metadata: no data have it.
const METADATA_CONTENTS: u64 = 1 << 40;

/// A step of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Write {
        lbn: u64,
        content: u64,
        stream: &'static str,
    },
    Read {
        lbn: u64,
        blocks: u64,
    },
    Flush,
    /// The measured phase begins.
    Run,
}

impl Load {
    /// Makes the load for a dd of this number of block writes, with a flush after each [`FLUSH_WRITES`] if the client is to flush.
    #[must_use]
    pub fn made(self, writes: u64, flushes: bool) -> MadeLoad {
        let steps = match self {
            Self::Dd => dd(writes),
            Self::Copy(times) => copy((writes / FILE_PART).max(READ_BLOCKS) / READ_BLOCKS * READ_BLOCKS, times),
            Self::FileServer(times) => file_server(writes, times),
        };
        MadeLoad { steps: if flushes { with_flushes(steps) } else { steps } }
    }
}

/// A load of some size.
#[derive(Clone, Debug)]
pub struct MadeLoad {
    pub steps: Vec<Step>,
}

impl MadeLoad {
    /// Returns the blocks of a volume that has room for it.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        let end = |step: &Step| match step {
            Step::Write { lbn, .. } => lbn + 1,
            Step::Read { lbn, blocks } => lbn + blocks,
            Step::Flush | Step::Run => 0,
        };
        self.steps.iter().map(end).max().unwrap_or(0)
    }

    /// Returns an estimate of the bytes of Dmdedup's metadata: an entry of 16 bytes for each LBN and of 28 for each content, in tree nodes
    /// that are two thirds full.
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        let (mut lbns, mut contents) = (HashSet::new(), HashSet::new());
        for step in &self.steps {
            if let Step::Write { lbn, content, .. } = step {
                lbns.insert(lbn);
                contents.insert(content);
            }
        }
        (lbns.len() as u64 * 16 + contents.len() as u64 * 28) * 3 / 2
    }

    /// Returns the records of a trace.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let streams = ["D", JOURNAL, METADATA].map(Arc::<str>::from);
        self.steps.iter().map(move |step| match *step {
            Step::Write { lbn, content, stream } => Record {
                stream: streams.iter().find(|known| ***known == *stream).cloned(),
                blocks: vec![Block::named(name(content))],
                ..Record::new(0, Op::Write, Bytes(lbn * BLOCK_BYTES), Bytes(BLOCK_BYTES))
            },
            Step::Read { lbn, blocks } => Record::new(0, Op::Read, Bytes(lbn * BLOCK_BYTES), Bytes(blocks * BLOCK_BYTES)),
            Step::Flush => Record::new(0, Op::Flush, Bytes(0), Bytes(0)),
            Step::Run => Record { note: Some("run".into()), ..Record::new(0, Op::Mark, Bytes(0), Bytes(0)) },
        })
    }
}

fn name(content: u64) -> ContentName {
    let mut bytes = [0; NAME_BYTES_MAX];
    bytes[..8].copy_from_slice(&mix(content, 0x6869_6e74).to_le_bytes());
    ContentName::Of(bytes)
}

/// Draws numbers, always the same ones.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 += 1;
        mix(self.0, 0x6c6f_6164) % end
    }

    /// The contents of this number of blocks, each this number of times, in a drawn order. The last one may occur less often.
    fn contents(&mut self, blocks: u64, times: u64) -> Vec<u64> {
        let mut contents: Vec<u64> = (0..blocks).map(|i| i / times).collect();
        if times > 1 {
            for i in (1..blocks).rev() {
                let (i, j) = (i as usize, self.below(i + 1) as usize);
                contents.swap(i, j);
            }
        }
        contents
    }
}

fn data(lbn: u64, content: u64) -> Step {
    Step::Write { lbn, content, stream: "D" }
}

fn dd(writes: u64) -> Vec<Step> {
    std::iter::once(Step::Run).chain((0..writes).map(|i| data(i, i))).collect()
}

fn copy(file: u64, times: u64) -> Vec<Step> {
    let contents = Draw(0).contents(file, times);
    let write = |at: u64, i: u64| data(at + i, contents[i as usize]);
    let mut steps: Vec<Step> = (0..file).map(|i| write(0, i)).collect();
    steps.push(Step::Run);
    for copy in 1..=COPIES {
        for first in (0..file).step_by(READ_BLOCKS as usize) {
            steps.push(Step::Read { lbn: first, blocks: READ_BLOCKS });
            steps.extend((first..first + READ_BLOCKS).map(|i| write(copy * file, i)));
        }
    }
    steps
}

/// Returns the share of a number, rounded down, in per mille.
const fn part(of: u64, per_mille: u64) -> u64 {
    of * per_mille / 1000
}

/// The metadata of the file server: a journal, and the places where its blocks are written home.
struct Metadata {
    journal: u64,
    written: u64,
    homes: u64,
}

impl Metadata {
    /// Writes a transaction into the journal, and the same content home.
    fn transact(&mut self, blocks: u64, draw: &mut Draw, steps: &mut Vec<Step>) {
        self.written += blocks;
        let homes = part(self.written, 1000 - EXT4.unique_per_mille) - self.homes;
        let first = self.journal;
        for at in first..first + blocks - homes {
            steps.push(Step::Write { lbn: at % JOURNAL_BLOCKS, content: METADATA_CONTENTS + at, stream: JOURNAL });
        }
        for at in first..first + homes {
            let lbn = JOURNAL_BLOCKS + draw.below(HOME_BLOCKS);
            steps.push(Step::Write { lbn, content: METADATA_CONTENTS + at, stream: METADATA });
        }
        (self.journal, self.homes) = (first + blocks - homes, self.homes + homes);
    }
}

fn file_server(writes: u64, times: u64) -> Vec<Step> {
    let (mut draw, mut steps) = (Draw(0), vec![Step::Run]);
    let all_metadata = part(writes, EXT4.metadata_per_mille);
    let data_blocks = writes - all_metadata;
    let contents = draw.contents(data_blocks, times);
    let files = (writes / 2 / FILE_BLOCKS).max(1);
    let mut metadata = Metadata { journal: 0, written: 0, homes: 0 };
    let mut done = 0;
    while done < data_blocks {
        // One of two files that are written is appended to.
        let length = if draw.below(2) == 0 { FILE_BLOCKS } else { APPEND_BLOCKS }.min(data_blocks - done);
        let first = JOURNAL_BLOCKS + HOME_BLOCKS + draw.below(files) * FILE_BLOCKS;
        steps.extend((0..length).map(|i| data(first + i, contents[(done + i) as usize])));
        done += length;
        let due = if done == data_blocks { all_metadata } else { all_metadata * done / data_blocks } - metadata.written;
        if due >= TRANSACTION_BLOCKS || done == data_blocks {
            metadata.transact(due, &mut draw, &mut steps);
        }
    }
    steps
}

fn with_flushes(steps: Vec<Step>) -> Vec<Step> {
    let mut writes = 0;
    let flushed = steps.into_iter().flat_map(|step| {
        let is_write = matches!(step, Step::Write { .. });
        writes += u64::from(is_write);
        let flush = (is_write && writes % FLUSH_WRITES == 0).then_some(Step::Flush);
        std::iter::once(step).chain(flush)
    });
    flushed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The contents of the writes of a stream, each with the number of its writes, in the measured phase or before it.
    fn written(load: &MadeLoad, is_of: impl Fn(&str) -> bool) -> HashMap<u64, u64> {
        let mut found = HashMap::new();
        for step in &load.steps {
            if let Step::Write { content, stream, .. } = step {
                if is_of(stream) {
                    *found.entry(*content).or_default() += 1;
                }
            }
        }
        found
    }

    #[test]
    fn each_content_occurs_as_often_as_it_has_to() {
        for (load, contents, times) in [(Load::Dd, 8192, 1), (Load::Copy(1), 2048, 3), (Load::Copy(8), 256, 24)] {
            let made = written(&load.made(8192, true), |_| true);
            // The file, and two copies of it.
            assert_eq!((made.len(), made.values().all(|&n| n == times)), (contents, true), "{load:?}");
        }
    }

    #[test]
    fn metadata_of_the_file_server_have_their_shares() {
        for times in [1, 4] {
            let load = Load::FileServer(times).made(20_000, false);
            let (data, metadata) = (written(&load, |s| s == "D"), written(&load, |s| s != "D"));
            let all = |of: &HashMap<u64, u64>| of.values().sum::<u64>();
            assert_eq!((all(&data), all(&metadata)), (20_000 - 3780, 3780), "18.9 % of the writes");
            assert_eq!(metadata.len(), 3780 - 1466, "61.2 % of them are unique");
            assert_eq!(data.len() as u64, (20_000u64 - 3780).div_ceil(times));
            assert!(data.values().all(|&n| n == times));
            assert!(data.keys().all(|content| !metadata.contains_key(content)));
        }
    }

    #[test]
    fn a_client_flushes_after_each_thousand_writes_and_reads_what_it_copies() {
        let load = Load::Copy(1).made(8192, true);
        let flushes = load.steps.iter().filter(|step| **step == Step::Flush).count();
        assert_eq!(flushes, 3 * 2048 / 1000);
        let mut read = HashSet::new();
        let run = load.steps.iter().skip_while(|step| **step != Step::Run);
        for step in run {
            match *step {
                Step::Read { lbn, blocks } => read.extend(lbn..lbn + blocks),
                Step::Write { lbn, .. } => assert!(read.contains(&(lbn % 2048)), "block {lbn} was not read"),
                _ => {}
            }
        }
        assert_eq!((load.blocks(), load.metadata_bytes()), (3 * 2048, (3 * 2048 * 16 + 2048 * 28) * 3 / 2));
        let writes = load.records().filter(|record| record.op == Op::Write).count();
        assert_eq!(writes, 3 * 2048);
    }
}
