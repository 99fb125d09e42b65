//! A device that follows A1 to A5 of `docs/ordering.md`, and nothing more: a choice decides wherever these leave it free.
//!
//! 1. A block keeps its durable content and every version since, in the order of completion; each may survive a power loss, sector by
//!    sector (A1, A2).
//! 2. A flush makes durable what had completed when the flush was *issued*, and nothing else (A1).
//! 3. At most one write or discard is in flight for a block; a second one is the engine's violation of R6, not a matter of chance (A3).
//! 4. What was in flight or not covered by a flush when a write or flush failed never becomes durable by a later flush (A5).
//! 5. Each sector of a discarded block holds either its old content or zeros until a later write to it is durable.
//! 6. A write with FUA is durable when it completes, over whatever its blocks held; it makes nothing else durable.
//!
//! Cloning is cheap: contents are shared, and blocks lie in chunks that are copied when they are written.

use crate::ground::content::{Content, SECTORS, Shared};
use crate::ground::violation::{Violation, violation};
use onefold_engine::interface::IoId;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The number of blocks of a chunk, which a write copies after a clone.
const CHUNK: usize = 16;

/// A state that a block could be in after a power loss.
#[derive(Clone, Debug)]
pub struct Version {
    pub content: Shared,
    /// Whether these are zeros that a discard may leave.
    pub discard: bool,
    /// The rank among the device's completions; none while in flight.
    done: Option<u64>,
    /// Whether no flush can make it durable any more (invariant 4).
    stuck: bool,
    io: IoId,
}

impl Version {
    /// Returns the operation that made it; later operations have higher numbers.
    #[must_use]
    pub fn io(&self) -> IoId {
        self.io
    }

    /// Returns whether its write or discard has not completed.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.done.is_none()
    }
}

/// One block of the device.
#[derive(Clone, Debug)]
pub struct Cell {
    durable: Shared,
    /// Whether a discard has become durable, as far as a discard can (invariant 5).
    trimmed: bool,
    since: Vec<Version>,
}

impl Cell {
    /// Returns the content that is certain to survive, unless [`Cell::trimmed`] or something newer does.
    #[must_use]
    pub fn durable(&self) -> &Shared {
        &self.durable
    }

    /// Returns whether the durable content may have become zeros (invariant 5).
    #[must_use]
    pub fn trimmed(&self) -> bool {
        self.trimmed
    }

    /// Returns the versions written since.
    #[must_use]
    pub fn since(&self) -> &[Version] {
        &self.since
    }

    /// Lists every content that a power loss could leave, apart from mixtures of their sectors. Contents may repeat.
    pub fn possible(&self) -> impl Iterator<Item = &Shared> {
        std::iter::once(&self.durable).chain(self.trimmed.then(zero_ref)).chain(self.since.iter().map(|v| &v.content))
    }

    /// Returns the content that the block holds in every case, if there is one.
    #[must_use]
    pub fn settled(&self) -> Option<&Shared> {
        self.possible().all(|c| c.id() == self.durable.id()).then_some(&self.durable)
    }

    /// Returns the number of sources that [`SimDisk::cut`] may take a sector from: the durable content, the zeros of a past discard, and
    /// the versions since.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.possible().count()
    }

    /// Makes a mixture: sector `i` comes from source `sources[i]`.
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

    /// Returns the content that was written last, or is being written.
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
enum InFlight {
    /// Writes and discards of this range of blocks, with FUA or without.
    Change { first: u64, blocks: u64, fua: bool },
    /// A flush that covers completions up to this rank.
    Flush { covers: u64 },
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOutcome {
    Done,
    /// The operation failed; its effect is unknown (A5).
    Failed,
    /// A flush reports success but did nothing, against A1.
    Forgotten,
}

/// The source of each sector of some blocks after a power loss; all other blocks keep their durable content.
pub type Choice = Vec<(u64, [u8; SECTORS])>;

/// The simulated device.
#[derive(Clone, Debug)]
pub struct SimDisk {
    chunks: Vec<Arc<[Cell; CHUNK]>>,
    blocks: u64,
    completions: u64,
    in_flight: Vec<(IoId, InFlight)>,
    /// Writes that were misdirected.
    strays: Vec<IoId>,
    /// Blocks with versions since their durable one.
    open: BTreeSet<u64>,
    /// The hash of the durable contents of the blocks in `named`.
    media: u64,
    named: Range<u64>,
}

fn place_hash(block: u64, content: u64) -> u64 {
    let mut x = (block.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ content;
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

impl SimDisk {
    /// Makes a device of `blocks` blocks of zeros.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        let empty: [Cell; CHUNK] = std::array::from_fn(|_| Cell { durable: Content::zero(), trimmed: false, since: Vec::new() });
        let empty = Arc::new(empty);
        let chunks = (0..to_index(blocks).div_ceil(CHUNK)).map(|_| empty.clone()).collect();
        let mut disk = Self {
            chunks,
            blocks,
            completions: 0,
            in_flight: Vec::new(),
            strays: Vec::new(),
            open: BTreeSet::new(),
            media: 0,
            named: 0..0,
        };
        disk.name_metadata(0..blocks);
        disk
    }

    /// Makes [`SimDisk::media`] cover these blocks from now on.
    pub fn name_metadata(&mut self, named: Range<u64>) {
        self.named = named.clone();
        self.media = named.fold(0, |h, b| h ^ place_hash(b, self.cell(b).durable.id()));
    }

    /// Returns a name for the durable contents of the metadata.
    #[must_use]
    pub fn media(&self) -> u64 {
        self.media
    }

    /// Returns the length.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns one block.
    ///
    /// # Panics
    /// Panics if the device is shorter.
    #[must_use]
    pub fn cell(&self, block: u64) -> &Cell {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        &self.chunks[to_index(block) / CHUNK][to_index(block) % CHUNK]
    }

    fn cell_mut(&mut self, block: u64) -> &mut Cell {
        &mut Arc::make_mut(&mut self.chunks[to_index(block) / CHUNK])[to_index(block) % CHUNK]
    }

    /// Returns the blocks that a power loss could leave in more than one state (except trimmed ones).
    #[must_use]
    pub fn undecided(&self) -> &BTreeSet<u64> {
        &self.open
    }

    /// Returns whether nothing is in flight.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.in_flight.is_empty()
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
        self.in_flight.push((io, InFlight::Change { first, blocks, fua }));
        Ok(())
    }

    /// Issues a write: from now on its contents are possible.
    ///
    /// # Errors
    /// Fails if it breaks R6 or reaches beyond the end.
    pub fn write(&mut self, io: IoId, first: u64, contents: &[Shared]) -> Result<(), Violation> {
        self.begin_write(io, first, contents, false)
    }

    /// Issues a write with FUA.
    ///
    /// # Errors
    /// Fails like [`SimDisk::write`].
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

    /// Issues a write that the device misdirects: operations in flight at its actual place do not make it break R6.
    ///
    /// # Errors
    /// Fails if it reaches beyond the end.
    pub fn write_astray(&mut self, io: IoId, first: u64, contents: &[Shared]) -> Result<(), Violation> {
        self.strays.push(io);
        self.write(io, first, contents)
    }

    /// Issues a discard: from now on zeros are possible.
    ///
    /// # Errors
    /// Fails if it breaks R6 or reaches beyond the end.
    pub fn discard(&mut self, io: IoId, first: u64, blocks: u64) -> Result<(), Violation> {
        self.begin(io, first, blocks, false)?;
        for block in first..first + blocks {
            self.cell_mut(block).since.push(Version { content: Content::zero(), discard: true, done: None, stuck: false, io });
            self.open.insert(block);
        }
        Ok(())
    }

    /// Issues a flush, which will cover what has completed by now.
    pub fn flush(&mut self, io: IoId) {
        self.in_flight.push((io, InFlight::Flush { covers: self.completions }));
    }

    /// Ends a write, discard or flush, and returns the blocks whose durable content it decided.
    ///
    /// # Panics
    /// Panics if it is not in flight.
    pub fn finish(&mut self, io: IoId, end: IoOutcome) -> Vec<u64> {
        let at = self.in_flight.iter().position(|(id, _)| *id == io).expect("an operation in flight");
        match self.in_flight.swap_remove(at).1 {
            InFlight::Change { first, blocks, fua } => {
                self.completions += 1;
                let rank = self.completions;
                for block in first..first + blocks {
                    let version = self.cell_mut(block).since.iter_mut().rfind(|v| v.io == io && v.in_flight());
                    // A misdirected write may have been overtaken by a durable write to the same place.
                    let Some(version) = version else { continue };
                    version.done = Some(rank);
                    version.stuck = end == IoOutcome::Failed;
                }
                if fua && end == IoOutcome::Done { self.settle(first..first + blocks, &|v| v.io == io) } else { Vec::new() }
            }
            InFlight::Flush { covers } if end == IoOutcome::Failed => {
                for block in self.open.clone() {
                    self.cell_mut(block).since.iter_mut().filter(|v| v.done.is_some_and(|d| d <= covers)).for_each(|v| v.stuck = true);
                }
                Vec::new()
            }
            InFlight::Flush { .. } if end == IoOutcome::Forgotten => Vec::new(),
            InFlight::Flush { covers } => self.settle(0..self.blocks, &|v| !v.stuck && v.done.is_some_and(|d| d <= covers)),
        }
    }

    /// Makes the covered versions of some blocks durable, and returns the blocks that this decided.
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

    /// Returns what a read finds now: what was written last (A4) or, if that is in flight or has failed, a choice for each sector.
    pub fn read(&self, block: u64, rng: &mut fastrand::Rng) -> Shared {
        let cell = self.cell(block);
        let unsure = cell.trimmed || cell.since.iter().any(|v| v.discard || v.stuck || v.in_flight());
        if !unsure {
            return cell.newest().clone();
        }
        // The last certain version hides the earlier ones; of the later ones, each sector may show any.
        let certain = cell.since.iter().rposition(|v| !v.discard && !v.stuck && !v.in_flight());
        let low = certain.map_or(0, |i| i + 1 + usize::from(cell.trimmed));
        let high = cell.sources();
        if rng.bool() {
            let one = u8::try_from(rng.usize(low..high)).expect("few versions");
            return cell.mix(&[one; SECTORS]);
        }
        cell.mix(&std::array::from_fn(|_| u8::try_from(rng.usize(low..high)).expect("few versions")))
    }

    /// Cuts the power: every undecided sector takes the source that `choice` names, and everything else keeps its durable content.
    #[must_use]
    pub fn cut(&self, choice: &Choice) -> Self {
        let mut after = self.clone();
        after.in_flight.clear();
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
        // A sector that took a later version is no longer affected by the discard; one that kept the old content is.
        cell.trimmed = cell.trimmed && sources.contains(&0);
        cell.since.clear();
        let after = cell.durable.id();
        self.open.remove(&block);
        if self.named.contains(&block) {
            self.media ^= place_hash(block, before) ^ place_hash(block, after);
        }
    }

    /// Kills the server while the device's cache survives: operations in flight were done, done in part, or not done; nothing becomes
    /// durable.
    #[must_use]
    pub fn kill(&self, rng: &mut fastrand::Rng) -> Self {
        let mut after = self.clone();
        let in_flight = std::mem::take(&mut after.in_flight);
        after.strays.clear();
        for (io, operation) in in_flight {
            let InFlight::Change { first, blocks, .. } = operation else { continue };
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

    /// Makes the device longer, by blocks that hold `content`.
    pub fn lengthen(&mut self, blocks: u64, content: &Shared) {
        let (first, empty) = (self.blocks, self.chunks[0].clone());
        self.blocks += blocks;
        self.chunks.resize(to_index(self.blocks).div_ceil(CHUNK), empty);
        (first..self.blocks).for_each(|block| self.plant(block, content.clone()));
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

/// Converts a block number to an index; simulated devices are small.
#[must_use]
pub fn to_index(n: u64) -> usize {
    usize::try_from(n).expect("a simulated device fits memory")
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
