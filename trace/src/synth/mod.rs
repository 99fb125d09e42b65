//! Synthetic traces, made from parameters.
//!
//! 1. The same plan and seed give the same records.
//! 2. The result has the properties that were asked for: shares are dealt from exact counts, and only sizes, times and places are random.
//! 3. Fingerprints stand for no real content: each is the MD5 of the seed and the content's number.
//! 4. A volume is blank at the beginning, and all requests consist of whole blocks.

mod choice;
mod content;
mod distribution;
pub mod interleave;
mod order;
pub mod phone;
mod place;
mod plan;
mod random;
mod volume;

pub use choice::Choice;
pub use distribution::{Compressing, DISTRIBUTION_NAME, DISTRIBUTION_VERSION, Distribution, Occurring};
pub use plan::{Access, BLOCKS_MAX, Contents, Flushes, Length, Plan, Wrong};

use crate::header::Header;
use crate::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
use content::{Kind, Source};
use md5::{Digest, Md5};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use place::Places;
use plan::Totals;
use rand::RngExt;
use rand_distr::{Distribution as _, Exp1};
use random::{Purpose, Random, mix, part, rounded, stream};
use std::sync::Arc;
use volume::{Candidates, Content};

/// The number of bytes of a fingerprint.
const WIDTH: usize = 16;
/// The compressed size of a block of zeros, rounded up to 64.
const ZERO_COMPRESSED: u16 = 64;
/// The share of block writes that may be of another kind than was asked for before it is reported.
const MISSING_MAX: f64 = 0.005;

/// Makes the records of a plan.
pub struct Synth {
    plan: Plan,
    totals: Totals,
    sizes: Random,
    requests: Random,
    arrivals: Random,
    places: Places,
    source: Source,
    compressed: Option<Choice>,
    process: Arc<str>,
    writes_left: u64,
    reads_left: u64,
    fua_left: u64,
    blocks_left: u64,
    /// The time of the next read or write, in nanoseconds.
    time: f64,
    /// The time of the next periodic flush.
    tick_ns: u64,
    /// The number of writes since the last flush by count, and whether there was a write since the last flush of any kind.
    since_flush: u64,
    is_dirty: bool,
    /// A record that is returned before anything else.
    due: Option<Record>,
}

impl Synth {
    /// Begins a trace.
    ///
    /// # Errors
    /// Fails if the plan contradicts itself.
    pub fn new(plan: Plan) -> Result<Self, Wrong> {
        plan.check()?;
        let mut sizes = stream(plan.seed, Purpose::Sizes);
        let totals = plan.totals(std::iter::repeat_with(|| plan.sizes.pick(&mut sizes)))?;
        let compressed = match &plan.contents {
            Contents::Distribution(distribution) => plan.compressed.clone().or_else(|| distribution.sizes()),
            Contents::Shares { .. } => plan.compressed.clone(),
        };
        Ok(Self {
            sizes: stream(plan.seed, Purpose::Sizes),
            requests: stream(plan.seed, Purpose::Requests),
            arrivals: stream(plan.seed, Purpose::Arrivals),
            places: Places::new(plan.seed, plan.access, totals.end, plan.overwrites.map(|_| totals.blocks)),
            source: Source::new(&plan, totals.blocks),
            compressed,
            process: "synth".into(),
            writes_left: totals.writes,
            reads_left: totals.reads,
            fua_left: part(totals.writes, plan.flushes.fua),
            blocks_left: totals.blocks,
            time: 0.0,
            tick_ns: plan.flushes.every_ns.unwrap_or(u64::MAX),
            since_flush: 0,
            is_dirty: false,
            due: None,
            totals,
            plan,
        })
    }

    /// Returns the header of the trace; `form` says what the trace was made from.
    #[must_use]
    pub fn header(&self, form: &str) -> Header {
        Header {
            algorithm: Some(Algorithm::Md5),
            width: WIDTH,
            clock: "invented".to_owned(),
            device_bytes: Some(Bytes(self.totals.end * BLOCK_BYTES)),
            form: Some(form.to_owned()),
            ..Header::default()
        }
    }

    /// Returns the number of block writes of the whole trace.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.totals.blocks
    }

    /// Returns, after the last record, the reason why the trace does not have the properties that were asked for; none if it does.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let bearable = part(self.totals.blocks, MISSING_MAX).max(3);
        let missing: Vec<(Kind, u64)> = self.source.missing().into_iter().filter(|(_, missing)| *missing > bearable).collect();
        let (kind, missing) = *missing.first()?;
        let what = match kind {
            Kind::Again(Candidates::Gone) => {
                "should hold a content that no block holds any more: contents go only where blocks are overwritten. PlannedRequest for a \
                 lower --duplication-ever, a smaller --working-set or more --overwrites"
            }
            Kind::Again(_) => "should hold a known content, but none is known. Ask for less --zero or a larger --working-set",
            Kind::New | Kind::Zero => "should hold a new content. Ask for less duplication",
        };
        Some(format!("{missing} of {} block writes {what}", self.totals.blocks))
    }

    fn write(&mut self, time_ns: u64) -> Record {
        let length = self.plan.sizes.pick(&mut self.sizes).min(self.blocks_left);
        let first = self.places.write(length);
        let mut record = self.request(time_ns, Op::Write, first, length);
        record.blocks = (first..first + length).map(|block| self.block(block)).collect();
        record.fua = self.requests.random_range(0..self.writes_left) < self.fua_left;
        self.fua_left -= u64::from(record.fua);
        self.writes_left -= 1;
        self.blocks_left -= length;
        self.is_dirty = true;
        self.since_flush += 1;
        if self.plan.flushes.every_writes == Some(self.since_flush) {
            self.since_flush = 0;
            self.is_dirty = false;
            self.due = Some(Record::new(time_ns, Op::Flush, Bytes(0), Bytes(0)));
        }
        record
    }

    fn request(&self, time_ns: u64, op: Op, first: u64, length: u64) -> Record {
        let mut record = Record::new(time_ns, op, Bytes(first * BLOCK_BYTES), Bytes(length * BLOCK_BYTES));
        record.pid = Some(1);
        record.process = Some(Arc::clone(&self.process));
        record
    }

    fn block(&mut self, block: u64) -> Block {
        match self.source.next(block) {
            None => Block { name: ContentName::Zero, compressed: self.compressed.is_some().then_some(ZERO_COMPRESSED) },
            Some(content) => Block { name: self.name(content), compressed: self.size(content) },
        }
    }

    fn name(&self, content: Content) -> ContentName {
        let digest = Md5::new().chain_update(self.plan.seed.to_le_bytes()).chain_update(content.to_le_bytes()).finalize();
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..WIDTH].copy_from_slice(&digest);
        ContentName::Of(bytes)
    }

    /// Returns the compressed size of a content, which is the same each time.
    fn size(&self, content: Content) -> Option<u16> {
        let choice = self.compressed.as_ref()?;
        let mut random = stream(mix(self.plan.seed, u64::from(content)), Purpose::Compressed);
        u16::try_from(choice.pick(&mut random).next_multiple_of(64)).ok()
    }

    /// Returns the arrival time of the next read or write.
    fn arrival(&mut self) -> u64 {
        let now = rounded(self.time);
        let gap: f64 = if self.plan.even { 1.0 } else { Exp1.sample(&mut self.arrivals) };
        self.time += gap * 1e9 / self.plan.rate;
        now
    }
}

impl Iterator for Synth {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if let Some(record) = self.due.take() {
            return Some(record);
        }
        let left = self.writes_left + self.reads_left;
        if left == 0 {
            return None;
        }
        let next_ns = rounded(self.time);
        if let Some(every_ns) = self.plan.flushes.every_ns.filter(|_| next_ns >= self.tick_ns) {
            let time_ns = std::mem::replace(&mut self.tick_ns, (next_ns / every_ns + 1).saturating_mul(every_ns));
            if std::mem::take(&mut self.is_dirty) {
                return Some(Record::new(time_ns, Op::Flush, Bytes(0), Bytes(0)));
            }
        }
        let time_ns = self.arrival();
        if self.requests.random_range(0..left) < self.writes_left {
            return Some(self.write(time_ns));
        }
        self.reads_left -= 1;
        let length = self.plan.sizes.pick(&mut self.requests);
        let (first, length) = self.places.read(length);
        Some(self.request(time_ns, Op::Read, first, length))
    }
}
