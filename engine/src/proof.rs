//! What recalled promises say is proved before it is believed: a device that failed, or a store that was set back to an older copy, need not hold it.
//!
//! 1. A store that lacks every trace of the last durable epoch is not the one that the last server left: none of its promises counts.
//! 2. The content that a promise names is read, behind the flush of the opening (R8), and compared with the promise's fingerprint; of a slot, the
//!    carrier has to be authentic. What differs, or cannot be read, is no proof.
//! 3. What is there need not be there for good: a block that the device was told to discard, and whose later write was lost, may read as that write and
//!    as something else the next time (decision 0071, 8). What was right is written again, and flushed, unless the tables show it to be durable.

use crate::Map;
use crate::buffer::{BufferMut, Slice};
use crate::engine::Engine;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{PageId, Region, SECTORS};
use crate::format::unit;
use crate::interface::{Action, Class, IoFailure, Promised, Trace, Traces};
use crate::io::FlushFor;
use crate::io::IoFor;
use crate::io::Stage;
use crate::log::READ_RETRIES;
use crate::schedule::Task;
use crate::tables::Got;
use crate::units::{BLOCK_SIZE, Pbn, count, index};
use std::collections::{BTreeSet, VecDeque};

/// Blocks in one read.
const RUN_BLOCKS_MAX: u64 = 16;
/// Blocks whose reads are under way at once.
const BLOCKS_UNDER_WAY_MAX: u64 = 64;

/// What is known of the contents that recalled promises name.
#[derive(Default)]
pub(crate) struct Proofs {
    /// Blocks and slots that are named, with the fingerprints of what they should hold.
    wanted: BTreeSet<(Pbn, u8, Fingerprint)>,
    /// Runs of blocks that are still to be read.
    runs: VecDeque<(Pbn, u64)>,
    blocks_under_way: u64,
    /// What the tables said of the blocks of each read under way, by its first block.
    known: Map<Pbn, Vec<InTables>>,
    /// Failed reads, by block.
    failures: Map<Pbn, u8>,
    /// Packs that hold something wanted and that no table named, with their authenticators: their epoch did not become durable.
    unnamed: Map<Pbn, Fingerprint>,
    /// Those of the wanted that were found.
    found: BTreeSet<(Pbn, u8, Fingerprint)>,
    /// Some of what was found has been written again, and not been flushed.
    is_unflushed: bool,
    is_flushing: bool,
}

/// What the tables say of a block that is read: its fingerprint's entry, and whether it is linked for certain.
pub(crate) struct InTables {
    entry: FingerprintEntry,
    is_linked: bool,
}

impl Proofs {
    pub fn of(promises: &[Promised], data_blocks: u64) -> Self {
        let named = |what: &Promised| match *what {
            Promised::Link { pbn, slot, proof, .. } if pbn.0 < data_blocks => Some((pbn, slot, proof)),
            _ => None,
        };
        let wanted: BTreeSet<(Pbn, u8, Fingerprint)> = promises.iter().filter_map(named).collect();
        let mut runs: VecDeque<(Pbn, u64)> = VecDeque::new();
        for &(pbn, ..) in &wanted {
            match runs.back_mut() {
                Some((first, blocks)) if *first + *blocks > pbn => {}
                Some((first, blocks)) if *first + *blocks == pbn && *blocks < RUN_BLOCKS_MAX => *blocks += 1,
                _ => runs.push_back((pbn, 1)),
            }
        }
        Self { wanted, runs, ..Self::default() }
    }

    /// A block could not be read: whether it is tried again, as what an opening reads of the log is.
    pub fn is_tried_again(&mut self, pbn: Pbn) -> bool {
        let failures = self.failures.entry(pbn).or_default();
        *failures = failures.saturating_add(1);
        *failures <= READ_RETRIES
    }

    /// The authenticator of a pack that no table named when it was read.
    pub fn unnamed_pack(&self, pbn: Pbn) -> Option<Fingerprint> {
        self.unnamed.get(&pbn).copied()
    }

    /// Whether the content of a block or slot was found to be this.
    pub fn has(&self, pbn: Pbn, slot: u8, proof: &Fingerprint) -> bool {
        self.found.contains(&(pbn, slot, *proof))
    }
}

impl Engine {
    /// Whether the store has a trace of what the last server had made durable. `Err`: a page has to come first.
    pub(crate) fn is_traced(&mut self, traces: Traces) -> Result<bool, PageId> {
        for trace in traces.into_iter().flatten() {
            let is_there = match trace {
                Trace::Log { sequence } => self.log_end() >= sequence,
                Trace::Map { sector, sum } => self.map_sum(sector)? == Some(sum),
            };
            if is_there {
                // It is by this that the store is known until an epoch of this server is durable.
                self.journal.trace = Some(trace);
                return Ok(true);
            }
        }
        Ok(traces == [None; 2])
    }

    /// The store is the one that was left. With a log it is known by that from now on: units say what a sector of the map means before it is written.
    pub(crate) fn store_is_known(&mut self) {
        if let (Some(Trace::Map { .. }), Some(_)) = (self.journal.trace, &self.scheme.log) {
            self.journal.trace = Some(Trace::Log { sequence: self.log_end() });
            self.store.io.out.push(Action::Forget { epoch: self.store.medium.superblock.last_epoch, traces: [self.journal.trace, None] });
        }
    }

    /// The last sequence of the log as this opening found it.
    fn log_end(&self) -> u64 {
        self.journal.log_end.unwrap_or(self.store.medium.superblock.last_log_sequence)
    }

    /// The sum of a sector of the map; none where it cannot be read, or is not there.
    fn map_sum(&mut self, sector: u64) -> Result<Option<u32>, PageId> {
        let id = PageId { region: Region::Map, index: sector / count(SECTORS) };
        if id.index >= self.store.geometry.pages(Region::Map) {
            return Ok(None);
        }
        match self.store.tables.ensure(&mut self.store.io, id) {
            Got::Wait => Err(id),
            Got::Unreadable => Ok(None),
            Got::Ready => Ok(Some(self.store.tables.pages.expect(id).content.sum(index(sector % count(SECTORS))))),
        }
    }

    /// Reads what promises name. Whether all of it has been read, and what is believed of it is durable.
    pub(crate) fn read_proofs(&mut self) -> bool {
        while self.journal.proofs.blocks_under_way < BLOCKS_UNDER_WAY_MAX {
            let Some(&(first, blocks)) = self.journal.proofs.runs.front() else { break };
            let known = match (0..blocks).map(|i| self.known_of(first + i)).collect() {
                Ok(known) => known,
                Err(page) => {
                    self.store.tables.wait(&mut self.store.io, page, Task::Recall);
                    return false;
                }
            };
            self.journal.proofs.runs.pop_front();
            self.journal.proofs.blocks_under_way += blocks;
            let at = self.store.geometry.block_at(first);
            self.journal.proofs.known.insert(first, known);
            self.store.io.read(IoFor::ReadForProof { first }, at, index(blocks), true, Class::Data);
        }
        let proofs = &mut self.journal.proofs;
        if proofs.blocks_under_way > 0 || proofs.is_flushing || self.store.io.failed {
            return false;
        }
        if std::mem::take(&mut proofs.is_unflushed) {
            proofs.is_flushing = true;
            self.store.io.flush(FlushFor::Proofs);
            return false;
        }
        true
    }

    /// What the tables say of a block. `Err`: a page has to come first.
    fn known_of(&mut self, pbn: Pbn) -> Result<InTables, PageId> {
        let ((names, at), (counts, _)) = (self.store.geometry.fingerprint_of(pbn), self.store.geometry.refs_of(pbn));
        let entry = match self.store.tables.ensure(&mut self.store.io, names) {
            Got::Wait => return Err(names),
            Got::Unreadable => FingerprintEntry::default(),
            Got::Ready => self.store.tables.pages.expect(names).content.fingerprint(at),
        };
        let is_counted = match self.store.tables.ensure(&mut self.store.io, counts) {
            Got::Wait => return Err(counts),
            Got::Unreadable => false,
            Got::Ready => self.store.tables.refs_now(pbn) > 0,
        };
        // Where garbage is possible, a count may stand for links that were lost; and their content with them.
        Ok(InTables { entry, is_linked: is_counted && self.scheme.log.is_some() && !self.store.medium.superblock.garbage_possible })
    }

    pub(crate) fn proof_arrived(&mut self, first: Pbn, buffer: BufferMut, digests: &[Digest], result: Result<(), IoFailure>) {
        if self.store.io.stage != Stage::Recalling {
            // The device has failed meanwhile.
            return;
        }
        let known = self.journal.proofs.known.remove(&first).expect("it was noted when the read was sent");
        let blocks = count(known.len());
        self.journal.proofs.blocks_under_way -= blocks;
        if result.is_ok() {
            let read = buffer.freeze();
            let mut again = Vec::new();
            for (i, (known, &digest)) in known.into_iter().zip(digests).enumerate() {
                let (pbn, block) = (first + count(i), read.block(i));
                if !self.note_content(pbn, block, digest) {
                    continue;
                }
                if let (Kind::None, Some(authenticator)) = (known.entry.kind, self.store.authentic(pbn, block)) {
                    self.journal.proofs.unnamed.insert(pbn, authenticator);
                }
                if !self.is_durable(&known, pbn, block, digest) {
                    again.push((pbn, read.slice(i, 1)));
                }
            }
            self.write_again(again);
        } else if blocks > 1 {
            // One of them cannot be read: the others may.
            self.journal.proofs.runs.extend((0..blocks).map(|i| (first + i, 1)));
        } else if self.journal.proofs.is_tried_again(first) {
            self.journal.proofs.runs.push_back((first, 1));
        }
        self.go_on_recalling();
    }

    /// Notes what a block was found to hold. Whether a promise asks for any of it.
    fn note_content(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE], digest: Digest) -> bool {
        let authentic = self.store.authentic(pbn, block).is_some();
        let slots = if authentic { unit::slots(block).unwrap_or_default() } else { Vec::new() };
        let proofs = &mut self.journal.proofs;
        let is_there = |&&(_, slot, proof): &&(Pbn, u8, Fingerprint)| match slot {
            0 => digest == Digest::Of(proof),
            _ => slots.get(usize::from(slot) - 1).is_some_and(|slot| slot.fingerprint == proof),
        };
        let of_block = proofs.wanted.range((pbn, 0, Fingerprint([0; 20]))..).take_while(|(of, ..)| *of == pbn);
        let found: Vec<_> = of_block.filter(is_there).copied().collect();
        let is_any = !found.is_empty();
        proofs.found.extend(found);
        is_any
    }

    /// Whether the tables show that this content of a block is durable: a name enters them after what it names (R1), a link of the log with it.
    fn is_durable(&self, known: &InTables, pbn: Pbn, block: &[u8; BLOCK_SIZE], digest: Digest) -> bool {
        match known.entry.kind {
            Kind::None => known.is_linked,
            Kind::Carrier => self.store.authentic(pbn, block) == Some(known.entry.value),
            Kind::Fingerprint => digest == Digest::Of(known.entry.value),
            Kind::Checksum => known.entry.is_of(&self.store.keys.fingerprinter, block) == Some(true),
        }
    }

    /// Writes blocks as they were found.
    fn write_again(&mut self, blocks: Vec<(Pbn, Slice)>) {
        if !self.store.io.failed {
            self.journal.proofs.blocks_under_way += count(blocks.len());
            self.write_blocks(blocks, Class::Data, |_, _, blocks| IoFor::ProvedContent(count(blocks)));
        }
    }

    pub(crate) fn proved_written(&mut self, blocks: u64) {
        if self.store.io.stage == Stage::Recalling {
            self.journal.proofs.blocks_under_way -= blocks;
            self.journal.proofs.is_unflushed = true;
            self.go_on_recalling();
        }
    }

    pub(crate) fn proofs_flushed(&mut self) {
        self.journal.proofs.is_flushing = false;
        self.go_on_recalling();
    }
}
