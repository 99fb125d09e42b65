//! Fingerprints of clients' data, made on the threads that receive it.

use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::{Digest, Fingerprinter};
use onefold_engine::policy::Policies;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, index};

/// The bytes of a write: `length` of them from `offset` on, laid out by blocks (see `Payload` of the engine).
#[derive(Clone, Copy)]
pub struct Written<'a> {
    pub buffer: &'a BufferMut,
    pub offset: u64,
    pub length: u64,
    /// Its blocks get checksums, and no fingerprints.
    pub is_deferred: bool,
    /// Those of its blocks that stay apart get checksums alone, too.
    pub policies: &'a Policies,
}

impl Written<'_> {
    /// Whether its frame `i` gets a checksum alone.
    fn is_checked_alone(&self, i: usize) -> bool {
        self.is_deferred || self.policies.of(i).is_apart()
    }

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
    let named = |write: &Written<'_>, i: usize| write.covers(i) && !write.is_checked_alone(i);
    let whole: Vec<&[u8; BLOCK_SIZE]> = writes
        .iter()
        .flat_map(|write| (0..write.buffer.blocks()).filter(move |&i| named(write, i)).map(|i| write.buffer.block(i)))
        .collect();
    let mut digests = fingerprinter.digests(&whole).into_iter();
    let mut of_block = |write: &Written<'_>, i: usize| match write.covers(i) {
        false => Digest::Partial,
        true if write.is_checked_alone(i) => fingerprinter.defer(write.buffer.block(i)),
        true => digests.next().expect("each whole block that is named has its digest"),
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
    use onefold_engine::policy::Policy;

    #[test]
    fn only_whole_blocks_have_a_digest() {
        let fingerprinter = Fingerprinter::new(Algorithm::Blake3, [1; 32]);
        let mut buffer = BufferMut::zeroed(3);
        buffer.bytes_mut()[4096..].fill(7);
        let full = fingerprinter.digest(buffer.block(1));
        let (none, second) = (Policies::default(), Policies::Each([Policy::DEFAULT, Policy::DEFAULT.apart()].into()));
        let write = |offset, length| Written { buffer: &buffer, offset, length, is_deferred: false, policies: &none };
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
        let apart = Written { policies: &second, ..write(0, 3 * 4096) };
        assert_eq!(of_writes(&fingerprinter, &[apart]), [[Digest::Zero, checksum, full]]);
        assert_eq!(of_all(&fingerprinter, &buffer), [Digest::Zero, full, full]);
    }
}
