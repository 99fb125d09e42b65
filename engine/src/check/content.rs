//! The comparison of blocks with their entries (`--data`).

use super::finding::Finding;
use super::report::Counts;
use super::scan::Scan;
use super::tell::Teller;
use crate::buffer::BufferMut;
use crate::fingerprint::{Digest, Fingerprinter};
use crate::format::authenticator::Authenticator;
use crate::format::{FingerprintEntry, Geometry, Kind, Superblock, unit};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Pbn, count, index};

/// Blocks to be compared, in the order of their numbers, and the memory to read them into.
pub(crate) struct Content {
    fingerprinter: Fingerprinter,
    authenticator: Authenticator,
    buffer: BufferMut,
    /// Each with the highest slot that is linked to.
    waiting: Vec<(Pbn, FingerprintEntry, u8)>,
}

impl Content {
    pub(crate) fn new(superblock: &Superblock, blocks: u64) -> Self {
        let (fingerprinter, authenticator) = (superblock.fingerprinter(), superblock.authenticator());
        Self { fingerprinter, authenticator, buffer: BufferMut::zeroed(index(blocks)), waiting: Vec::new() }
    }

    pub(crate) fn add(&mut self, pbn: Pbn, entry: FingerprintEntry, slot_max: u8) {
        self.waiting.push((pbn, entry, slot_max));
    }

    /// Reads and compares all that wait.
    pub(crate) fn compare(&mut self, scan: &mut Scan, geometry: &Geometry, counts: &mut Counts, teller: &mut Teller) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = &waiting[..];
        while let Some(&(first, ..)) = rest.first() {
            // Blocks that lie side by side are read together.
            let at = geometry.block_at(first);
            let most = rest.len().min(self.buffer.blocks());
            let together = (1..most).find(|&i| geometry.block_at(rest[i].0) != at + count(i) * BLOCK_BYTES).unwrap_or(most);
            let (these, others) = rest.split_at(together);
            let read = scan.read(at, &mut self.buffer.bytes_mut()[..together * BLOCK_SIZE]);
            for (i, &(pbn, entry, slot_max)) in these.iter().enumerate() {
                if read.is_err() && scan.read(geometry.block_at(pbn), &mut self.buffer.block_mut(i)[..]).is_err() {
                    teller.tell(Finding::UnreadableBlock { pbn });
                    continue;
                }
                counts.compared += 1;
                if !self.agrees(pbn, entry, slot_max, i) {
                    teller.tell(Finding::ContentDiffers { pbn });
                }
            }
            teller.advance(count(together) * BLOCK_BYTES);
            rest = others;
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    fn agrees(&self, pbn: Pbn, entry: FingerprintEntry, slot_max: u8, i: usize) -> bool {
        let block = self.buffer.block(i);
        match entry.kind {
            Kind::Carrier => self.is_carrier(pbn, entry, slot_max, block),
            _ => entry.is_of(&self.fingerprinter, block).unwrap_or(true),
        }
    }

    /// Whether a block is the carrier that its entry says, and each of its slots what its fingerprint says.
    fn is_carrier(&self, pbn: Pbn, entry: FingerprintEntry, slot_max: u8, block: &[u8; BLOCK_SIZE]) -> bool {
        if !unit::is_authentic(&self.authenticator, pbn, block) || !unit::may_have_entry(&entry.value, block) {
            return false;
        }
        let mut content = [0; BLOCK_SIZE];
        let mut is_right =
            |slot: &unit::Slot| slot.unpack(block, &mut content) && self.fingerprinter.digest(&content) == Digest::Of(slot.fingerprint);
        unit::slots(block).is_some_and(|slots| slots.len() >= usize::from(slot_max) && slots.iter().all(&mut is_right))
    }
}
