//! The thread that fingerprints content and writes the trace.
//!
//! 1. It has idle priority: it runs when nobody else wants the processor, and holds no lock that a client could want (`line.rs`, invariant
//!    2).
//! 2. Records are in the trace in the order in which they were reported, and a gap comes before the record that was reported after it.
//! 3. Its waiting costs clients nothing: while requests come it looks for them each millisecond; only after a quiet second does it need to
//!    be woken.

use super::entry::{Asked, Content, Entry, LastGap, NAME_BYTES, What};
use super::idle::{let_others_in, yield_to_all};
use crate::runtime::digests::{self, Written};
use onefold_engine::fingerprint::{Digest, Fingerprinter};
use onefold_engine::interface::Op;
use onefold_engine::policy::{Policies, Policy};
use onefold_engine::units::{BLOCK_SIZE, Bytes, index};
use onefold_trace::header::Gap;
use onefold_trace::record::{self, Block, ContentName, NAME_BYTES_MAX, Record};
use onefold_trace::recording::{RecordingError, Writer};
use onefold_trace::size::size_of;
use rtrb::{Consumer, Producer};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The number of requests that are processed together: fingerprints are cheaper in numbers.
const TOGETHER: usize = 32;
/// The number of blocks that are processed together, so that content does not wait for more of it.
const TOGETHER_BLOCKS: usize = 256;
/// The time between two looks while requests come.
const LOOK: Duration = Duration::from_millis(1);
/// The time without any request after which it sleeps until it is woken.
const QUIET: Duration = Duration::from_secs(1);
/// The longest sleep: blocks have to be written in time.
const SLEEP: Duration = Duration::from_millis(100);

/// The summary of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub records: u64,
    /// The number of blocks of 4 KiB that the recorded writes touched.
    pub blocks: u64,
    /// The number of requests that are missing.
    pub gaps: u64,
    /// The number of gaps that they form.
    pub gap_stretches: u64,
    /// The size of the trace.
    pub bytes: u64,
}

/// The state of the recorder's thread.
pub struct Recorder {
    entries: Consumer<Entry>,
    spent: Producer<Content>,
    writer: Writer,
    namer: Namer,
    is_asleep: Arc<AtomicBool>,
    last_gap: LastGap,
    last_report: Instant,
    tally: Tally,
}

impl Recorder {
    pub fn new(
        entries: Consumer<Entry>,
        spent: Producer<Content>,
        writer: Writer,
        fingerprinter: Fingerprinter,
        is_asleep: Arc<AtomicBool>,
        last_gap: LastGap,
    ) -> Self {
        let (namer, last_report, tally) = (Namer::new(fingerprinter), Instant::now(), Tally::default());
        Self { entries, spent, writer, namer, is_asleep, last_gap, last_report, tally }
    }

    /// Records until the reporting threads are done.
    pub fn run(mut self) -> Result<Tally, RecordingError> {
        yield_to_all();
        let mut together = Vec::with_capacity(TOGETHER);
        loop {
            // This comes before the look into the ring: everything that was reported before the end is in it.
            let is_over = self.entries.is_abandoned();
            let mut blocks = 0;
            while together.len() < TOGETHER && blocks < TOGETHER_BLOCKS {
                let Ok(entry) = self.entries.pop() else { break };
                blocks += if let Content::Bytes(buffer) = &entry.content { buffer.blocks() } else { 0 };
                together.push(entry);
            }
            if !together.is_empty() {
                self.record(&mut together)?;
                let_others_in();
                self.writer.write_if_due()?;
            } else if is_over {
                break;
            } else {
                self.writer.write_if_due()?;
                self.rest();
            }
        }
        let last_gap = self.last_gap.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.missed(last_gap)?;
        let bytes = self.writer.finish()?;
        Ok(Tally { bytes, ..self.tally })
    }

    fn record(&mut self, together: &mut Vec<Entry>) -> Result<(), RecordingError> {
        self.last_report = Instant::now();
        let mut names = self.namer.names(together).into_iter();
        for Entry { time_ns, what, content, gap } in together.drain(..) {
            let blocks = names.next().unwrap_or_default();
            if !matches!(content, Content::None) {
                // There is room: no more are out than the ring takes.
                let _ = self.spent.push(content);
            }
            self.missed(gap)?;
            let record = match what {
                What::Asked(asked) => record_of(time_ns, &asked, blocks),
                What::Mark(phase) => Record { note: Some(phase.into()), ..Record::new(time_ns, record::Op::Mark, Bytes(0), Bytes(0)) },
            };
            self.tally.records += u64::from(record.op != record::Op::Mark);
            self.tally.blocks += if record.op == record::Op::Write { record.blocks_touched() } else { 0 };
            self.writer.push(&record)?;
        }
        Ok(())
    }

    fn missed(&mut self, gap: Option<Gap>) -> Result<(), RecordingError> {
        let Some(gap) = gap else { return Ok(()) };
        self.tally.gap_stretches += 1;
        self.tally.gaps += gap.requests;
        self.writer.push_gap(gap)
    }

    fn rest(&self) {
        if self.last_report.elapsed() < QUIET {
            std::thread::sleep(LOOK);
            return;
        }
        self.is_asleep.store(true, Ordering::SeqCst);
        if self.entries.is_empty() && !self.entries.is_abandoned() {
            std::thread::park_timeout(SLEEP);
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

fn record_of(time_ns: u64, asked: &Asked, blocks: Vec<Block>) -> Record {
    let op = match asked.op {
        Op::Read => record::Op::Read,
        Op::Write => record::Op::Write,
        Op::Flush => record::Op::Flush,
        Op::Discard => record::Op::Discard,
        Op::WriteZeroes => record::Op::WriteZeroes,
        Op::Extents => unreachable!("not reported"),
    };
    let is_flush = asked.op == Op::Flush;
    let place = |bytes: u64| Bytes(if is_flush { 0 } else { bytes });
    let fua = asked.fua && !matches!(asked.op, Op::Read | Op::Flush);
    Record { fua, blocks, ..Record::new(time_ns, op, place(asked.offset), place(asked.length)) }
}

/// Fingerprints content, and measures its compressed size.
struct Namer {
    fingerprinter: Fingerprinter,
}

impl Namer {
    fn new(fingerprinter: Fingerprinter) -> Self {
        Self { fingerprinter }
    }

    /// Returns the blocks of each request.
    fn names<'a>(&mut self, together: &'a [Entry]) -> Vec<Vec<Block>> {
        static NONE: Policies = Policies::Same(Policy::DEFAULT);
        let written = |entry: &'a Entry| match (&entry.content, &entry.what) {
            (Content::Bytes(buffer), What::Asked(asked)) => {
                Some(Written { buffer, offset: asked.offset, length: asked.length, is_deferred: false, policies: &NONE })
            }
            _ => None,
        };
        let writes: Vec<Written<'a>> = together.iter().filter_map(written).collect();
        let mut digests = digests::of_writes(&self.fingerprinter, &writes).into_iter();
        let mut blocks_of = |entry: &Entry| match (&entry.content, &entry.what) {
            (Content::Named(digests), What::Asked(asked)) => blocks(asked, digests, |_| None),
            (Content::Bytes(buffer), What::Asked(asked)) => {
                let digests = digests.next().unwrap_or_default();
                blocks(asked, &digests, |i| Some(size_of(buffer.block(i))))
            }
            _ => Vec::new(),
        };
        together.iter().map(&mut blocks_of).collect()
    }
}

/// Returns the blocks that a request touches. A block that it does not cover is of unknown content.
fn blocks(asked: &Asked, digests: &[Digest], mut size: impl FnMut(usize) -> Option<u16>) -> Vec<Block> {
    let touched = index(asked.length).div_ceil(BLOCK_SIZE);
    let of = |(i, digest): (usize, &Digest)| match digest {
        // A write may have been deferred just before the recording began.
        Digest::Partial | Digest::Checksum(_) => Block::named(ContentName::Unknown),
        Digest::Zero => Block { name: ContentName::Zero, compressed: size(i) },
        Digest::Of(fingerprint) => {
            let mut bytes = [0; NAME_BYTES_MAX];
            bytes[..NAME_BYTES].copy_from_slice(&fingerprint.0[..NAME_BYTES]);
            Block { name: ContentName::Of(bytes), compressed: size(i) }
        }
    };
    digests.iter().take(touched).enumerate().map(of).collect()
}
