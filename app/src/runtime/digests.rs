//! Fingerprints of clients' data, made on the threads that receive it.

use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::{Digest, Fingerprinter};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, index};

/// The bytes of a write: `length` of them from `offset` on, laid out by blocks (see `Payload` of the engine).
#[derive(Clone, Copy)]
pub struct Written<'a> {
    pub buffer: &'a BufferMut,
    pub offset: u64,
    pub length: u64,
    /// Its blocks get checksums, and no fingerprints.
    pub is_deferred: bool,
}

impl Written<'_> {
    /// Whether it covers the whole of its frame `i`.
    fn covers(&self, i: usize) -> bool {
        let skip = index(self.offset % BLOCK_BYTES);
        skip <= i * BLOCK_SIZE && (i + 1) * BLOCK_SIZE <= skip + index(self.length)
    }
}

/// Returns the digests of several writes, one for each frame of each: [`Digest::Partial`] where a write does not cover the block. All
/// blocks that are not deferred are fingerprinted together, which is cheaper than one by one.
#[must_use]
pub fn of_writes(fingerprinter: &Fingerprinter, writes: &[Written<'_>]) -> Vec<Vec<Digest>> {
    let selected = writes.iter().filter(|write| !write.is_deferred);
    let whole: Vec<&[u8; BLOCK_SIZE]> =
        selected.flat_map(|write| (0..write.buffer.blocks()).filter(|&i| write.covers(i)).map(|i| write.buffer.block(i))).collect();
    let mut digests = fingerprinter.digests(&whole).into_iter();
    let mut of_block = |write: &Written<'_>, i: usize| match write.covers(i) {
        false => Digest::Partial,
        true if write.is_deferred => fingerprinter.defer(write.buffer.block(i)),
        true => digests.next().expect("each whole block that is not deferred has its digest"),
    };
    writes.iter().map(|write| (0..write.buffer.blocks()).map(|i| of_block(write, i)).collect()).collect()
}

/// Returns the digests of all frames.
#[must_use]
pub fn of_all(fingerprinter: &Fingerprinter, buffer: &BufferMut) -> Vec<Digest> {
    let blocks: Vec<&[u8; BLOCK_SIZE]> = (0..buffer.blocks()).map(|i| buffer.block(i)).collect();
    fingerprinter.digests(&blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::fingerprint::Algorithm;

    #[test]
    fn only_whole_blocks_have_a_digest() {
        let fingerprinter = Fingerprinter::new(Algorithm::Blake3, [1; 32]);
        let mut buffer = BufferMut::zeroed(3);
        buffer.bytes_mut()[4096..].fill(7);
        let full = fingerprinter.digest(buffer.block(1));
        let write = |offset, length| Written { buffer: &buffer, offset, length, is_deferred: false };
        let digests = |offset, length| of_writes(&fingerprinter, &[write(offset, length)]).remove(0);
        assert_eq!(digests(4096, 3 * 4096), [Digest::Zero, full, full]);
        assert_eq!(digests(512, 3 * 4096 - 512), [Digest::Partial, full, full]);
        assert_eq!(digests(512, 3 * 4096 - 1024), [Digest::Partial, full, Digest::Partial]);
        assert_eq!(digests(0, 4096), [Digest::Zero, Digest::Partial, Digest::Partial]);
        let together = of_writes(&fingerprinter, &[write(512, 2 * 4096), write(0, 3 * 4096)]);
        assert_eq!(together, [[Digest::Partial, full, Digest::Partial], [Digest::Zero, full, full]]);
        let deferred = Written { is_deferred: true, ..write(512, 3 * 4096 - 512) };
        let checksum = Digest::Checksum(fingerprinter.checksum(buffer.block(1)));
        assert_eq!(
            of_writes(&fingerprinter, &[deferred, write(0, 4096)]),
            [[Digest::Partial, checksum, checksum], [Digest::Zero, Digest::Partial, Digest::Partial]]
        );
        assert_eq!(of_all(&fingerprinter, &buffer), [Digest::Zero, full, full]);
    }
}
