//! The totals of a trace: of all of it, by phase, by stream and by process.
//!
//! 1. *Duplication* is the share of written blocks whose content was known at that moment: *live* if some block held it, *ever* if it had
//!    been written before. Zeros are counted separately, and blocks of unknown content are never known.
//! 2. Contents are known from the beginning of the trace on, also in a later phase.
//! 3. A block counts as written once for each request that touches any byte of it.

mod known;
mod median;
mod shape;

pub use shape::Shape;

use crate::content::blocks;
use crate::header::{Header, Unit};
use crate::record::{ContentName, Op, Record};
use known::Known;
use median::Histogram;
use serde::{Deserialize, Serialize};
use shape::Shaper;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest number of streams or processes that are counted by name; later ones are counted together as "(others)".
const GROUPS_MAX: usize = 10_000;
/// The name of the phase before the first mark.
const FIRST_PHASE: &str = "(start)";
/// The name of an unknown stream or process.
const UNKNOWN: &str = "(unknown)";
const OTHERS: &str = "(others)";

/// Counts of requests and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    /// The writes that are FUA.
    pub fua: u64,
    pub flushes: u64,
    pub discards: u64,
    pub write_zeroes: u64,
    pub blocks_read: u64,
    pub blocks_written: u64,
    pub blocks_discarded: u64,
    pub blocks_zeroed: u64,
    /// The written blocks that are all zero; `zeros_again` are those after another all-zero block had been written.
    pub zeros: u64,
    pub zeros_again: u64,
    /// The written blocks of unknown content.
    pub unknown: u64,
    /// The written blocks, zeros excluded, whose content some block held.
    pub duplicates_live: u64,
    /// The written blocks, zeros excluded, whose content had been written before.
    pub duplicates_ever: u64,
}

/// Shares of the written blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Duplication {
    pub live: f64,
    pub ever: f64,
    pub zero: f64,
}

impl Duplication {
    /// Computes the shares of `blocks` written; none if there are none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts of one trace are far below 2^52
    pub fn of(blocks: u64, live: u64, ever: u64, zero: u64) -> Option<Self> {
        let share = |part: u64| part as f64 / blocks as f64;
        (blocks > 0).then(|| Self { live: share(live), ever: share(ever), zero: share(zero) })
    }
}

impl Counts {
    /// Returns the shares; none if nothing was written.
    #[must_use]
    pub fn duplication(&self) -> Option<Duplication> {
        Duplication::of(self.blocks_written, self.duplicates_live, self.duplicates_ever, self.zeros)
    }
}

/// A part of the trace that has a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    pub name: Arc<str>,
    #[serde(flatten)]
    pub counts: Counts,
    pub duplication: Option<Duplication>,
}

/// A phase: from one mark to the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    #[serde(flatten)]
    pub part: Part,
    pub begin_ns: u64,
    /// The median number of blocks written before each flush, and after the last one if there were any.
    pub blocks_between_flushes_median: Option<u64>,
    /// The streams of the phase, those with the most written blocks first.
    pub streams: Vec<Part>,
}

/// All totals of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    pub records: u64,
    pub duration_ns: u64,
    pub algorithm: Option<&'static str>,
    pub fingerprint_bytes: usize,
    pub fingerprint_unit_bytes: u64,
    pub key_id: Option<String>,
    pub clock: String,
    pub form: Option<String>,
    pub gaps: u64,
    pub requests_missing: u64,
    /// The number after the last block that a request touched.
    pub blocks_end: u64,
    /// The number of distinct contents written, zeros excluded.
    pub contents: u64,
    pub total: Counts,
    pub duplication: Option<Duplication>,
    pub blocks_between_flushes_median: Option<u64>,
    pub shape: Shape,
    pub phases: Vec<Phase>,
    /// The streams, those with the most written blocks first.
    pub streams: Vec<Part>,
    /// The processes, those with the most written blocks first.
    pub processes: Vec<Part>,
}

struct OpenPhase {
    name: Arc<str>,
    counts: Counts,
    begin_ns: u64,
    since_flush: u64,
    between: Histogram,
    streams: Groups,
}

impl OpenPhase {
    fn new(name: Arc<str>, begin_ns: u64) -> Self {
        let (counts, between, streams) = (Counts::default(), Histogram::default(), Groups::default());
        Self { name, counts, begin_ns, since_flush: 0, between, streams }
    }

    fn closed(mut self) -> Phase {
        self.between.add_if_any(self.since_flush);
        let part = Part { name: self.name, counts: self.counts, duplication: self.counts.duplication() };
        let blocks_between_flushes_median = self.between.median();
        Phase { part, begin_ns: self.begin_ns, blocks_between_flushes_median, streams: self.streams.sorted() }
    }
}

/// Counts record by record.
pub struct Counter {
    known: Known,
    shaper: Shaper,
    has_zeros: bool,
    records: u64,
    times: Option<(u64, u64)>,
    blocks_end: u64,
    total: Counts,
    between: Histogram,
    since_flush: u64,
    phase: Option<OpenPhase>,
    phases: Vec<Phase>,
    streams: Groups,
    processes: Groups,
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    /// Begins to count, on a blank volume.
    #[must_use]
    pub fn new() -> Self {
        Self {
            known: Known::default(),
            shaper: Shaper::default(),
            has_zeros: false,
            records: 0,
            times: None,
            blocks_end: 0,
            total: Counts::default(),
            between: Histogram::default(),
            since_flush: 0,
            phase: None,
            phases: Vec::new(),
            streams: Groups::default(),
            processes: Groups::default(),
        }
    }

    /// Counts a record, whose fingerprints are of this unit.
    pub fn count(&mut self, record: &Record, unit: Unit) {
        self.records += 1;
        let (first, last) = self.times.unwrap_or((record.time_ns, record.time_ns));
        self.times = Some((first.min(record.time_ns), last.max(record.time_ns)));
        if record.op == Op::Mark {
            self.phases.extend(self.phase.take().map(OpenPhase::closed));
            self.phase = Some(OpenPhase::new(record.note.clone().unwrap_or_else(|| UNKNOWN.into()), record.time_ns));
            return;
        }
        let counts = self.counts_of(record, unit);
        let phase = self.phase.get_or_insert_with(|| OpenPhase::new(FIRST_PHASE.into(), record.time_ns));
        if record.op == Op::Flush {
            self.between.add(std::mem::take(&mut self.since_flush));
            phase.between.add(std::mem::take(&mut phase.since_flush));
        }
        self.since_flush += counts.blocks_written;
        phase.since_flush += counts.blocks_written;
        phase.counts.add(&counts);
        self.total.add(&counts);
        if record.op != Op::Flush {
            phase.streams.of(record.stream.as_ref()).add(&counts);
            self.streams.of(record.stream.as_ref()).add(&counts);
            self.processes.of(record.process.as_ref()).add(&counts);
        }
    }

    fn counts_of(&mut self, record: &Record, unit: Unit) -> Counts {
        let mut counts = Counts::default();
        let touched = if record.length.get() == 0 { 0 } else { record.blocks_touched() };
        let first = record.offset.get() / onefold_engine::units::BLOCK_BYTES;
        self.blocks_end = self.blocks_end.max(first + touched);
        match record.op {
            Op::Read => (counts.reads, counts.blocks_read) = (1, touched),
            Op::Flush => counts.flushes = 1,
            Op::Discard => {
                (counts.discards, counts.blocks_discarded) = (1, touched);
                self.known.clear_range(first, touched);
            }
            Op::WriteZeroes => {
                (counts.write_zeroes, counts.blocks_zeroed) = (1, touched);
                self.known.clear_range(first, touched);
            }
            Op::Write => {
                (counts.writes, counts.blocks_written, counts.fua) = (1, touched, u64::from(record.fua));
                // At most as many blocks have names as there are fingerprints: blocks beyond them are not examined one by one.
                let named = touched.min(record.blocks.len() as u64);
                self.known.write_unknown(first + named, touched - named);
                self.shaper.write(record);
                counts.unknown += touched - named;
                for (block, name) in blocks(record, unit).take(record.blocks.len()) {
                    let before = self.known.write(block, &name);
                    counts.duplicates_live += u64::from(before.live);
                    counts.duplicates_ever += u64::from(before.ever);
                    if before.ever {
                        self.shaper.duplicate(before.back);
                    }
                    counts.unknown += u64::from(name == ContentName::Unknown);
                    if name == ContentName::Zero {
                        counts.zeros += 1;
                        counts.zeros_again += u64::from(std::mem::replace(&mut self.has_zeros, true));
                    }
                }
            }
            Op::Mark => {}
        }
        counts
    }

    /// Returns all totals, with the facts about the whole trace.
    #[must_use]
    pub fn info(mut self, header: &Header) -> Info {
        self.phases.extend(self.phase.take().map(OpenPhase::closed));
        self.between.add_if_any(self.since_flush);
        Info {
            records: self.records,
            duration_ns: self.times.map_or(0, |(first, last)| last - first),
            algorithm: header.algorithm.map(onefold_engine::fingerprint::Algorithm::name),
            fingerprint_bytes: header.width,
            fingerprint_unit_bytes: header.unit.bytes(),
            key_id: header.key_id.clone(),
            clock: header.clock.clone(),
            form: header.form.clone(),
            gaps: header.gaps.len() as u64,
            requests_missing: header.gaps.iter().map(|gap| gap.requests).sum(),
            blocks_end: self.blocks_end,
            contents: self.known.contents(),
            total: self.total,
            duplication: self.total.duplication(),
            blocks_between_flushes_median: self.between.median(),
            shape: self.shaper.shape(self.total.writes, self.total.reads, self.total.blocks_written),
            phases: self.phases,
            streams: self.streams.sorted(),
            processes: self.processes.sorted(),
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.fua += other.fua;
        self.flushes += other.flushes;
        self.discards += other.discards;
        self.write_zeroes += other.write_zeroes;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
        self.blocks_discarded += other.blocks_discarded;
        self.blocks_zeroed += other.blocks_zeroed;
        self.zeros += other.zeros;
        self.zeros_again += other.zeros_again;
        self.unknown += other.unknown;
        self.duplicates_live += other.duplicates_live;
        self.duplicates_ever += other.duplicates_ever;
    }
}

/// Counts by name.
#[derive(Debug, Default)]
struct Groups(HashMap<Arc<str>, Counts>);

impl Groups {
    fn of(&mut self, name: Option<&Arc<str>>) -> &mut Counts {
        let name = name.map_or_else(|| UNKNOWN.into(), Arc::clone);
        let name = if self.0.len() < GROUPS_MAX || self.0.contains_key(&name) { name } else { OTHERS.into() };
        self.0.entry(name).or_default()
    }

    fn sorted(self) -> Vec<Part> {
        let mut parts: Vec<Part> =
            self.0.into_iter().map(|(name, counts)| Part { name, counts, duplication: counts.duplication() }).collect();
        parts.sort_by(|a, b| b.counts.blocks_written.cmp(&a.counts.blocks_written).then_with(|| a.name.cmp(&b.name)));
        parts
    }
}
