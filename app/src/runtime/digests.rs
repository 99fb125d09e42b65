//! Fingerprints of what clients send, made on the threads that receive it.

use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::{Digest, Fingerprinter};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, index};

/// The digests of a write of `length` bytes at `offset`, one for each frame: [`Digest::Partial`] where it does not cover the block.
#[must_use]
pub fn of_write(fingerprinter: &Fingerprinter, buffer: &BufferMut, offset: u64, length: u64) -> Vec<Digest> {
    let skip = index(offset % BLOCK_BYTES);
    let end = skip + index(length);
    (0..buffer.blocks())
        .map(|i| {
            let covers = skip <= i * BLOCK_SIZE && (i + 1) * BLOCK_SIZE <= end;
            if covers { fingerprinter.digest(buffer.block(i)) } else { Digest::Partial }
        })
        .collect()
}

/// The digests of all frames.
#[must_use]
pub fn of_all(fingerprinter: &Fingerprinter, buffer: &BufferMut) -> Vec<Digest> {
    (0..buffer.blocks()).map(|i| fingerprinter.digest(buffer.block(i))).collect()
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
        let digests = |offset, length| of_write(&fingerprinter, &buffer, offset, length);
        assert_eq!(digests(4096, 3 * 4096), [Digest::Zero, full, full]);
        assert_eq!(digests(512, 3 * 4096 - 512), [Digest::Partial, full, full]);
        assert_eq!(digests(512, 3 * 4096 - 1024), [Digest::Partial, full, Digest::Partial]);
        assert_eq!(digests(0, 4096), [Digest::Zero, Digest::Partial, Digest::Partial]);
        assert_eq!(of_all(&fingerprinter, &buffer), [Digest::Zero, full, full]);
    }
}
