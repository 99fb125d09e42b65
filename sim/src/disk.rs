//! A device that follows A1 to A5 of `ordering.md`, and nothing more: what it may do, a choice decides.
//!
//! 1. A block keeps its durable content and every version since, in the order of completion; each may survive a cut, sector by sector (A1, A2).
//! 2. A flush makes durable what had completed when the flush was *issued*, and nothing else (A1).
//! 3. At most one write or discard is in flight for a block; a second one is the engine's violation of R6, not a matter of chance (A3).
//! 4. What was in flight or uncovered when a write or flush failed never becomes durable by a later flush (A5).
//! 5. A discarded block holds its old content or zeros, each sector as it likes, until a later write to it is durable.
//! 6. A write with FUA is durable when it completes, over whatever its blocks held; nothing else becomes so by it.
//!
//! Cloning is cheap: contents are shared, and blocks lie in chunks that are copied when they are written.

use crate::content::{Content, SECTORS, Shared};
use crate::violation::{Violation, violation};
use onefold_engine::interface::IoId;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of a chunk: what a write copies after a clone.
const CHUNK: usize = 16;

/// One state that a block could be in after a cut.
#[derive(Clone, Debug)]
pub struct Version {
    pub content: Shared,
    /// Zeros that a discard may leave.
    pub discard: bool,
    /// Rank among the device's completions; none while in flight.
    done: Option<u64>,
    /// Never durable by a flush (invariant 4).
    stuck: bool,
    io: IoId,
}

impl Version {
    /// The operation that made it; later ones have higher numbers.
    #[must_use]
    pub fn io(&self) -> IoId {
        self.io
    }

    /// Whether its write or discard has not completed.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.done.is_none()
    }
}

/// One block of the device.
#[derive(Clone, Debug)]
pub struct Cell {
    durable: Shared,
    /// A discard has become durable, or as durable as a discard can be (invariant 5).
    trimmed: bool,
    since: Vec<Version>,
}

impl Cell {
    /// The content that survives for sure, unless [`Cell::trimmed`] or something newer does.
    #[must_use]
    pub fn durable(&self) -> &Shared {
        &self.durable
    }

    /// Whether the durable content may have become zeros (invariant 5).
    #[must_use]
    pub fn trimmed(&self) -> bool {
        self.trimmed
    }

    /// What was written since.
    #[must_use]
    pub fn since(&self) -> &[Version] {
        &self.since
    }

    /// Every content that a cut could leave, apart from mixtures of their sectors. May repeat.
    pub fn possible(&self) -> impl Iterator<Item = &Shared> {
        std::iter::once(&self.durable).chain(self.trimmed.then(zero_ref)).chain(self.since.iter().map(|v| &v.content))
    }

    /// The one content that it holds whatever happens, if there is one.
    #[must_use]
    pub fn settled(&self) -> Option<&Shared> {
        self.possible().all(|c| c.id() == self.durable.id()).then_some(&self.durable)
    }

    /// How many sources [`SimDisk::cut`] may take a sector from: the durable content, the zeros of a past discard, the versions since.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.possible().count()
    }

    /// A mixture: sector `i` from source `sources[i]`.
    fn mix(&self, sources: &[u8; SECTORS]) -> Shared {
        let all: Vec<&Shared> = self.possible().collect();
        let of = |i: usize| all[usize::from(sources[i])];
        if (1..SECTORS).all(|i| of(i).id() == of(0).id()) {
            return of(0).clone();
        }
        let mut bytes = *of(0).bytes();
        for i in 1..SECTORS {
            bytes[i * 512..][..512].copy_from_slice(of(i).sector(i));
        }
        Content::of(&bytes)
    }

    /// What was written last, or is being written.
    #[must_use]
    pub fn newest(&self) -> &Shared {
        self.since.last().map_or(&self.durable, |v| &v.content)
    }
}

fn zero_ref() -> &'static Shared {
    static ZERO: std::sync::LazyLock<Shared> = std::sync::LazyLock::new(Content::zero);
    &ZERO
}

#[derive(Clone, Debug)]
enum Flight {
    /// Writes and discards of this stretch of blocks; with FUA or without.
    Change { first: u64, blocks: u64, fua: bool },
    /// Covers completions up to this rank.
    Flush { covers: u64 },
}

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    /// It failed; what it did is unknown (A5).
    Failed,
    /// A flush says that it is done, and did nothing: against A1.
    Forgotten,
}

/// Which source each sector of some blocks comes from after a cut; blocks that are not named keep their durable content.
pub type Choice = Vec<(u64, [u8; SECTORS])>;

/// The simulated device.
#[derive(Clone, Debug)]
pub struct SimDisk {
    chunks: Vec<Arc<[Cell; CHUNK]>>,
    blocks: u64,
    completions: u64,
    flights: Vec<(IoId, Flight)>,
    /// Writes that went elsewhere than they were sent to.
    strays: Vec<IoId>,
    /// Blocks with versions since their durable one.
    open: BTreeSet<u64>,
    /// Hash of the durable contents of the blocks in `named`.
    media: u64,
    named: Range<u64>,
}

fn place_hash(block: u64, content: u64) -> u64 {
    let mut x = (block.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ content;
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

impl SimDisk {
    /// A device of `blocks` blocks of zeros.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        let empty: [Cell; CHUNK] = std::array::from_fn(|_| Cell { durable: Content::zero(), trimmed: false, since: Vec::new() });
        let empty = Arc::new(empty);
        let chunks = (0..to_index(blocks).div_ceil(CHUNK)).map(|_| empty.clone()).collect();
        let mut disk =
            Self { chunks, blocks, completions: 0, flights: Vec::new(), strays: Vec::new(), open: BTreeSet::new(), media: 0, named: 0..0 };
        disk.name_metadata(0..blocks);
        disk
    }

    /// From here on, [`SimDisk::media`] covers these blocks.
    pub fn name_metadata(&mut self, named: Range<u64>) {
        self.named = named.clone();
        self.media = named.fold(0, |h, b| h ^ place_hash(b, self.cell(b).durable.id()));
    }

    /// A name for the durable contents of the metadata.
    #[must_use]
    pub fn media(&self) -> u64 {
        self.media
    }

    /// Its length.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// One block.
    ///
    /// # Panics
    /// When the device is shorter.
    #[must_use]
    pub fn cell(&self, block: u64) -> &Cell {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        &self.chunks[to_index(block) / CHUNK][to_index(block) % CHUNK]
    }

    fn cell_mut(&mut self, block: u64) -> &mut Cell {
        &mut Arc::make_mut(&mut self.chunks[to_index(block) / CHUNK])[to_index(block) % CHUNK]
    }

    /// The blocks that a cut could leave in more than one state (trimmed ones aside).
    #[must_use]
    pub fn undecided(&self) -> &BTreeSet<u64> {
        &self.open
    }

    /// Whether anything is in flight.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.flights.is_empty()
    }

    fn begin(&mut self, io: IoId, first: u64, blocks: u64, fua: bool) -> Result<(), Violation> {
        if first + blocks > self.blocks || blocks == 0 {
            return Err(violation!("operation {} reaches from block {first} over {blocks} of a device of {}", io.0, self.blocks));
        }
        for block in first..first + blocks {
            let stray = |v: &&Version| self.strays.contains(&v.io);
            if let Some(other) = self.cell(block).since.iter().filter(|v| v.in_flight()).find(|v| !stray(v) && !self.strays.contains(&io)) {
                return Err(violation!("R6: {} on block {block} while {} is in flight for it", io.0, other.io.0));
            }
        }
        self.flights.push((io, Flight::Change { first, blocks, fua }));
        Ok(())
    }

    /// A write is issued: from here on its contents are possible.
    ///
    /// # Errors
    /// R6, or a stretch beyond the end.
    pub fn write(&mut self, io: IoId, first: u64, contents: &[Shared]) -> Result<(), Violation> {
        self.begin_write(io, first, contents, false)
    }

    /// The same with FUA.
    ///
    /// # Errors
    /// As [`SimDisk::write`].
    pub fn write_fua(&mut self, io: IoId, first: u64, contents: &[Shared]) -> Result<(), Violation> {
        self.begin_write(io, first, contents, true)
    }

    fn begin_write(&mut self, io: IoId, first: u64, contents: &[Shared], fua: bool) -> Result<(), Violation> {
        self.begin(io, first, contents.len() as u64, fua)?;
        for (block, content) in (first..).zip(contents) {
            self.cell_mut(block).since.push(Version { content: content.clone(), discard: false, done: None, stuck: false, io });
            self.open.insert(block);
        }
        Ok(())
    }

    /// A write is issued that the device puts somewhere else: what is in flight there does not break R6.
    ///
    /// # Errors
    /// A stretch beyond the end.
    pub fn write_astray(&mut self, io: IoId, first: u64, contents: &[Shared]) -> Result<(), Violation> {
        self.strays.push(io);
        self.write(io, first, contents)
    }

    /// A discard is issued: from here on zeros are possible.
    ///
    /// # Errors
    /// R6, or a stretch beyond the end.
    pub fn discard(&mut self, io: IoId, first: u64, blocks: u64) -> Result<(), Violation> {
        self.begin(io, first, blocks, false)?;
        for block in first..first + blocks {
            self.cell_mut(block).since.push(Version { content: Content::zero(), discard: true, done: None, stuck: false, io });
            self.open.insert(block);
        }
        Ok(())
    }

    /// A flush is issued: it will cover what has completed by now.
    pub fn flush(&mut self, io: IoId) {
        self.flights.push((io, Flight::Flush { covers: self.completions }));
    }

    /// A write, discard or flush ends. Returns the blocks whose durable content it decided.
    ///
    /// # Panics
    /// When it is not in flight.
    pub fn finish(&mut self, io: IoId, end: End) -> Vec<u64> {
        let at = self.flights.iter().position(|(id, _)| *id == io).expect("an operation in flight");
        match self.flights.swap_remove(at).1 {
            Flight::Change { first, blocks, fua } => {
                self.completions += 1;
                let rank = self.completions;
                for block in first..first + blocks {
                    let version = self.cell_mut(block).since.iter_mut().rfind(|v| v.io == io && v.in_flight());
                    // A stray write may have been overtaken by one that was sent there, and is durable.
                    let Some(version) = version else { continue };
                    version.done = Some(rank);
                    version.stuck = end == End::Failed;
                }
                if fua && end == End::Done { self.settle(first..first + blocks, &|v| v.io == io) } else { Vec::new() }
            }
            Flight::Flush { covers } if end == End::Failed => {
                for block in self.open.clone() {
                    self.cell_mut(block).since.iter_mut().filter(|v| v.done.is_some_and(|d| d <= covers)).for_each(|v| v.stuck = true);
                }
                Vec::new()
            }
            Flight::Flush { .. } if end == End::Forgotten => Vec::new(),
            Flight::Flush { covers } => self.settle(0..self.blocks, &|v| !v.stuck && v.done.is_some_and(|d| d <= covers)),
        }
    }

    /// Makes durable what is covered in some blocks. Those that it decided.
    fn settle(&mut self, blocks: Range<u64>, covered: &dyn Fn(&Version) -> bool) -> Vec<u64> {
        let decided: Vec<u64> = self.open.range(blocks).copied().filter(|&b| self.cell(b).since.iter().any(covered)).collect();
        for &block in &decided {
            let cell = self.cell_mut(block);
            let last = cell.since.iter().rposition(covered).expect("a covered version");
            let before = cell.durable.id();
            for version in cell.since.drain(..=last).filter(|v| covered(v)) {
                if !version.discard {
                    cell.durable = version.content;
                }
                cell.trimmed = version.discard;
            }
            let (after, empty) = (cell.durable.id(), cell.since.is_empty());
            if self.named.contains(&block) {
                self.media ^= place_hash(block, before) ^ place_hash(block, after);
            }
            if empty {
                self.open.remove(&block);
            }
        }
        decided
    }

    /// What a read finds now: what was last written (A4); where that is being written, discarded or has failed, a choice for each sector.
    pub fn read(&self, block: u64, rng: &mut fastrand::Rng) -> Shared {
        let cell = self.cell(block);
        let unsure = cell.trimmed || cell.since.iter().any(|v| v.discard || v.stuck || v.in_flight());
        if !unsure {
            return cell.newest().clone();
        }
        // The last version that is certain hides what was before it; of the later ones each sector shows any.
        let certain = cell.since.iter().rposition(|v| !v.discard && !v.stuck && !v.in_flight());
        let low = certain.map_or(0, |i| i + 1 + usize::from(cell.trimmed));
        let high = cell.sources();
        if rng.bool() {
            let one = u8::try_from(rng.usize(low..high)).expect("few versions");
            return cell.mix(&[one; SECTORS]);
        }
        cell.mix(&std::array::from_fn(|_| u8::try_from(rng.usize(low..high)).expect("few versions")))
    }

    /// The power fails: every undecided sector takes the source that `choice` names, everything else keeps its durable content.
    #[must_use]
    pub fn cut(&self, choice: &Choice) -> Self {
        let mut after = self.clone();
        after.flights.clear();
        after.strays.clear();
        for (block, sources) in choice {
            after.decide(*block, sources);
        }
        for block in std::mem::take(&mut after.open) {
            after.cell_mut(block).since.clear();
        }
        after
    }

    fn decide(&mut self, block: u64, sources: &[u8; SECTORS]) {
        let content = self.cell(block).mix(sources);
        let cell = self.cell_mut(block);
        let before = std::mem::replace(&mut cell.durable, content).id();
        // A sector that shows a version since is no longer at the discard's mercy; one left at the old content is.
        cell.trimmed = cell.trimmed && sources.contains(&0);
        cell.since.clear();
        let after = cell.durable.id();
        self.open.remove(&block);
        if self.named.contains(&block) {
            self.media ^= place_hash(block, before) ^ place_hash(block, after);
        }
    }

    /// The server dies and the device's cache survives: what was in flight was done, in part, or not at all; nothing becomes durable.
    #[must_use]
    pub fn kill(&self, rng: &mut fastrand::Rng) -> Self {
        let mut after = self.clone();
        let flights = std::mem::take(&mut after.flights);
        after.strays.clear();
        for (io, flight) in flights {
            let Flight::Change { first, blocks, .. } = flight else { continue };
            after.completions += 1;
            let rank = after.completions;
            for block in first..first + blocks {
                let fate = rng.u8(0..4);
                let before =
                    after.cell(block).since.iter().rev().nth(1).map_or_else(|| after.cell(block).durable.clone(), |v| v.content.clone());
                let cell = after.cell_mut(block);
                let at = cell.since.iter().rposition(|v| v.io == io).expect("its version");
                if fate == 0 {
                    cell.since.remove(at);
                    if cell.since.is_empty() {
                        after.open.remove(&block);
                    }
                    continue;
                }
                let version = &mut cell.since[at];
                version.done = Some(rank);
                if fate == 1 && !version.discard {
                    let mut bytes = *version.content.bytes();
                    for i in (0..SECTORS).filter(|_| rng.bool()) {
                        bytes[i * 512..][..512].copy_from_slice(before.sector(i));
                    }
                    version.content = Content::of(&bytes);
                }
            }
        }
        after
    }

    /// Puts content on the medium from outside, durable at once: damage, or a prepared image.
    pub fn plant(&mut self, block: u64, content: Shared) {
        let cell = self.cell_mut(block);
        let before = std::mem::replace(&mut cell.durable, content).id();
        cell.trimmed = false;
        cell.since.clear();
        let after = cell.durable.id();
        self.open.remove(&block);
        if self.named.contains(&block) {
            self.media ^= place_hash(block, before) ^ place_hash(block, after);
        }
    }
}

/// A block number as an index; simulated devices are small.
#[must_use]
pub fn to_index(n: u64) -> usize {
    usize::try_from(n).expect("a simulated device fits memory")
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
