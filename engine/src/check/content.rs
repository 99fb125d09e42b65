//! Comparing blocks with what their entries say of them (`--data`).

use super::scan::Scan;
use super::tell::Teller;
use super::{Counts, Finding};
use crate::buffer::BufferMut;
use crate::fingerprint::{Digest, Fingerprint, Fingerprinter};
use crate::format::{FingerprintEntry, Geometry, Kind};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Pbn, count, index};

/// Blocks to be compared, in the order of their numbers, and the memory to read them into.
pub(super) struct Content {
    fingerprinter: Fingerprinter,
    buffer: BufferMut,
    waiting: Vec<(Pbn, FingerprintEntry)>,
}

/// Whether an entry says anything of the content. A checksum lost in a crash does not, nor does the authenticator of a carrier.
pub(super) fn is_comparable(entry: FingerprintEntry) -> bool {
    match entry.kind {
        Kind::Fingerprint => true,
        Kind::Checksum => entry.value != Fingerprint([0; 20]),
        Kind::None | Kind::Carrier => false,
    }
}

impl Content {
    pub(super) fn new(fingerprinter: Fingerprinter, blocks: u64) -> Self {
        Self { fingerprinter, buffer: BufferMut::zeroed(index(blocks)), waiting: Vec::new() }
    }

    pub(super) fn add(&mut self, pbn: Pbn, entry: FingerprintEntry) {
        self.waiting.push((pbn, entry));
    }

    /// Reads and compares all that wait.
    pub(super) fn compare(&mut self, scan: &mut Scan, geometry: &Geometry, counts: &mut Counts, teller: &mut Teller) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = &waiting[..];
        while let Some(&(first, _)) = rest.first() {
            // Blocks that lie side by side are read together.
            let at = geometry.block_at(first);
            let most = rest.len().min(self.buffer.blocks());
            let together = (1..most).find(|&i| geometry.block_at(rest[i].0) != at + count(i) * BLOCK_BYTES).unwrap_or(most);
            let (these, others) = rest.split_at(together);
            let read = scan.read(at, &mut self.buffer.bytes_mut()[..together * BLOCK_SIZE]);
            for (i, &(pbn, entry)) in these.iter().enumerate() {
                if read.is_err() && scan.read(geometry.block_at(pbn), &mut self.buffer.block_mut(i)[..]).is_err() {
                    teller.tell(Finding::UnreadableBlock { pbn });
                    continue;
                }
                counts.compared += 1;
                if !self.agrees(entry, i) {
                    teller.tell(Finding::ContentDiffers { pbn });
                }
            }
            teller.advance(count(together) * BLOCK_BYTES);
            rest = others;
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    fn agrees(&self, entry: FingerprintEntry, i: usize) -> bool {
        let block = self.buffer.block(i);
        match entry.kind {
            // A block of zeros is never stored, so no fingerprint names one.
            Kind::Fingerprint => self.fingerprinter.digest(block) == Digest::Of(entry.value),
            Kind::Checksum => self.fingerprinter.checksum(block) == entry.value,
            Kind::None | Kind::Carrier => true,
        }
    }
}
