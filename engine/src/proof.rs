//! What recalled promises say is proved before it is believed: a device that failed, or a store that was set back to an older copy, need not hold it.
//!
//! 1. A store that lacks every trace of the last durable epoch is not the one that the last server left: none of its promises counts.
//! 2. The content that a promise names is read, behind the flush of the opening (R8), and compared with the promise's fingerprint; of a slot, the
//!    carrier has to be authentic. What differs, or cannot be read, is no proof.

use crate::Map;
use crate::buffer::BufferMut;
use crate::engine::{Engine, IoFor};
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::page::{PageId, Region, SECTORS};
use crate::format::unit;
use crate::interface::{Class, IoFailure, Promised, Trace, Traces};
use crate::log::READ_RETRIES;
use crate::pages::Got;
use crate::units::{Pbn, count, index};
use std::collections::{BTreeSet, VecDeque};

/// Blocks in one read.
const RUN_BLOCKS_MAX: u64 = 16;
/// Blocks whose reads are under way at once.
const BLOCKS_UNDER_WAY_MAX: u64 = 64;

/// What is known of the contents that recalled promises name.
#[derive(Default)]
pub(crate) struct Proofs {
    /// Blocks and slots that are named.
    wanted: BTreeSet<(Pbn, u8)>,
    /// Runs of blocks that are still to be read.
    runs: VecDeque<(Pbn, u64)>,
    blocks_under_way: u64,
    /// Failed reads, by block.
    failures: Map<Pbn, u8>,
    /// The fingerprints of what is there.
    found: Map<(Pbn, u8), Fingerprint>,
}

impl Proofs {
    pub fn of(promises: &[Promised], data_blocks: u64) -> Self {
        let named = |what: &Promised| match *what {
            Promised::Link { pbn, slot, .. } if pbn.0 < data_blocks => Some((pbn, slot)),
            _ => None,
        };
        let wanted: BTreeSet<(Pbn, u8)> = promises.iter().filter_map(named).collect();
        let mut runs: VecDeque<(Pbn, u64)> = VecDeque::new();
        for &(pbn, _) in &wanted {
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

    /// Whether the content of a block or slot was found to be this.
    pub fn has(&self, pbn: Pbn, slot: u8, proof: &Fingerprint) -> bool {
        self.found.get(&(pbn, slot)) == Some(proof)
    }
}

impl Engine {
    /// Whether the store has a trace of what the last server had made durable. `Err`: a page has to come first.
    pub(crate) fn is_traced(&mut self, traces: Traces) -> Result<bool, PageId> {
        let mut is_traced = traces == [None; 2];
        for trace in traces.into_iter().flatten() {
            is_traced |= match trace {
                Trace::Log { sequence } => self.promises.log_end.unwrap_or(self.superblock.last_log_sequence) >= sequence,
                Trace::Map { sector, sum } => self.map_sum(sector)? == Some(sum),
            };
        }
        Ok(is_traced)
    }

    /// The sum of a sector of the map; none where it cannot be read, or is not there.
    fn map_sum(&mut self, sector: u64) -> Result<Option<u32>, PageId> {
        let id = PageId { region: Region::Map, index: sector / count(SECTORS) };
        if id.index >= self.geometry.pages(Region::Map) {
            return Ok(None);
        }
        match self.ensure(id) {
            Got::Wait => Err(id),
            Got::Unreadable => Ok(None),
            Got::Ready => Ok(Some(self.pages.expect(id).content.sum(index(sector % count(SECTORS))))),
        }
    }

    /// Reads what promises name. Whether all of it has been read.
    pub(crate) fn read_proofs(&mut self) -> bool {
        while self.promises.proofs.blocks_under_way < BLOCKS_UNDER_WAY_MAX {
            let Some((first, blocks)) = self.promises.proofs.runs.pop_front() else { break };
            self.promises.proofs.blocks_under_way += blocks;
            let at = self.geometry.block_at(first);
            self.read_in(IoFor::ReadForProof { first, blocks }, at, index(blocks), true, Class::Data);
        }
        self.promises.proofs.blocks_under_way == 0
    }

    pub(crate) fn proof_arrived(&mut self, first: Pbn, blocks: u64, buffer: &BufferMut, digests: &[Digest], result: Result<(), IoFailure>) {
        self.promises.proofs.blocks_under_way -= blocks;
        if result.is_ok() {
            for (i, &digest) in (0..blocks).zip(digests) {
                self.note_content(first + i, buffer.block(index(i)), digest);
            }
        } else if blocks > 1 {
            // One of them cannot be read: the others may.
            self.promises.proofs.runs.extend((0..blocks).map(|i| (first + i, 1)));
        } else if self.promises.proofs.is_tried_again(first) {
            self.promises.proofs.runs.push_back((first, 1));
        }
        self.go_on_recalling();
    }

    fn note_content(&mut self, pbn: Pbn, block: &[u8; crate::units::BLOCK_SIZE], digest: Digest) {
        let authentic = self.authentic(pbn, block).is_some();
        let slots = if authentic { unit::slots(block).unwrap_or_default() } else { Vec::new() };
        let proofs = &mut self.promises.proofs;
        let wanted: Vec<(Pbn, u8)> = proofs.wanted.range((pbn, 0)..=(pbn, u8::MAX)).copied().collect();
        for (pbn, slot) in wanted {
            let content = match (slot, digest) {
                (0, Digest::Of(fingerprint)) => Some(fingerprint),
                (0, _) => None,
                _ => slots.get(usize::from(slot) - 1).map(|slot| slot.fingerprint),
            };
            proofs.found.extend(content.map(|fingerprint| ((pbn, slot), fingerprint)));
        }
    }
}
