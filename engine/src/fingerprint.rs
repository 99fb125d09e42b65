//! The fingerprint of a block's content.
//!
//! A [`Fingerprinter`] is a pure function of a volume's algorithm and key; the runtime runs it on the thread that received the bytes.

mod batch;

use crate::units::BLOCK_SIZE;
use sha2::Digest as _;
use std::fmt;

/// The first 158 bits of a digest, as 20 bytes whose last two bits are 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 20]);

impl Fingerprint {
    /// The fingerprint of a digest of at least 16 bytes; shorter ones than 20 are padded with zeros.
    #[must_use]
    pub fn of_digest(digest: &[u8]) -> Self {
        let mut bytes = [0; 20];
        let n = digest.len().min(20);
        bytes[..n].copy_from_slice(&digest[..n]);
        bytes[19] &= 0b0011_1111;
        Self(bytes)
    }

    /// Its first 64 bits, by which tables hash.
    #[must_use]
    pub fn head(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// Its first 32 bits, and 1 where they are all zero: enough to find content that has rotted, not enough to tell contents apart.
    #[must_use]
    pub fn short(&self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d]).max(1)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The result of taking the digest of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// The block was not there as a whole, so it has none.
    Partial,
    /// All zeros: never stored.
    Zero,
    Of(Fingerprint),
    /// Deferred: the block has its checksum alone, and gets a fingerprint out of line.
    Checksum(Fingerprint),
}

/// The algorithm by which fingerprints are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// BLAKE3 with the volume's key: nobody outside can prepare colliding blocks or probe for known content.
    #[default]
    Blake3,
    /// SHA-256 over key and block.
    Sha256,
    /// SHA-1, without key, as the papers have it.
    Sha1,
    /// MD5, without key, as published traces have it.
    Md5,
}

impl Algorithm {
    /// Every algorithm, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Blake3, Self::Sha256, Self::Sha1, Self::Md5];

    /// The number that stands for it in the superblock.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Blake3 => 0,
            Self::Sha256 => 1,
            Self::Sha1 => 2,
            Self::Md5 => 3,
        }
    }

    /// The name as users type it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Sha1 => "sha1",
            Self::Md5 => "md5",
        }
    }

    /// Whether two contents with one digest are within an attacker's reach, so that duplicates are compared byte by byte.
    #[must_use]
    pub const fn is_weak(self) -> bool {
        matches!(self, Self::Sha1 | Self::Md5)
    }
}

/// The context in which keys are named (BLAKE3's key derivation): the name reveals nothing of the key.
const KEY_ID_CONTEXT: &str = "onefold 2026-11-21 name of a fingerprint key";

/// An algorithm with its volume's key.
#[derive(Clone)]
pub struct Fingerprinter {
    algorithm: Algorithm,
    key: [u8; 32],
}

impl Fingerprinter {
    /// The fingerprinter of a volume.
    #[must_use]
    pub const fn new(algorithm: Algorithm, key: [u8; 32]) -> Self {
        Self { algorithm, key }
    }

    /// The algorithm by which it makes them.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether both give each block the same name.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && (self.algorithm.is_weak() || self.key == other.key)
    }

    /// A name for its key, of 16 hexadecimal digits, that reveals nothing of it; none where the algorithm takes no key.
    #[must_use]
    pub fn key_id(&self) -> Option<String> {
        let name = blake3::derive_key(KEY_ID_CONTEXT, &self.key);
        let digits = name.iter().take(8).fold(0, |digits, &byte| (digits << 8) | u64::from(byte));
        (!self.algorithm.is_weak()).then(|| format!("{digits:016x}"))
    }

    /// The digest of one block.
    #[must_use]
    pub fn digest(&self, block: &[u8; BLOCK_SIZE]) -> Digest {
        if is_zero(block) {
            return Digest::Zero;
        }
        Digest::Of(match self.algorithm {
            Algorithm::Blake3 => Fingerprint::of_digest(blake3::keyed_hash(&self.key, block).as_bytes()),
            Algorithm::Sha256 => Fingerprint::of_digest(&sha2::Sha256::new().chain_update(self.key).chain_update(block).finalize()),
            Algorithm::Sha1 => Fingerprint::of_digest(&sha1::Sha1::digest(block)),
            Algorithm::Md5 => Fingerprint::of_digest(&md5::Md5::digest(block)),
        })
    }

    /// The digests of several blocks, in their order: cheaper than one by one where blocks come in numbers.
    #[must_use]
    pub fn digests(&self, blocks: &[&[u8; BLOCK_SIZE]]) -> Vec<Digest> {
        if self.algorithm != Algorithm::Blake3 {
            return blocks.iter().map(|block| self.digest(block)).collect();
        }
        let mut digests = vec![Digest::Zero; blocks.len()];
        let some: Vec<usize> = (0..blocks.len()).filter(|&i| !is_zero(blocks[i])).collect();
        for places in some.chunks(batch::BLOCKS_MAX) {
            if places.len() < batch::BLOCKS_MIN {
                places.iter().for_each(|&i| digests[i] = self.digest(blocks[i]));
                continue;
            }
            let mut inputs = [blocks[places[0]]; batch::BLOCKS_MAX];
            inputs.iter_mut().zip(places).for_each(|(input, &i)| *input = blocks[i]);
            let names = batch::keyed_hashes(&self.key, &inputs[..places.len()]);
            places.iter().zip(&names).for_each(|(&i, name)| digests[i] = Digest::Of(Fingerprint::of_digest(name)));
        }
        digests
    }

    /// The digest of a block that is deferred: its checksum, which costs a quarter of a fingerprint, or less.
    #[must_use]
    pub fn defer(&self, block: &[u8; BLOCK_SIZE]) -> Digest {
        if is_zero(block) { Digest::Zero } else { Digest::Checksum(self.checksum(block)) }
    }

    /// The checksum of a block that is not for dedup (kind 2): XXH3-128, seeded by the key, zero-padded; never all zero.
    #[must_use]
    pub fn checksum(&self, block: &[u8; BLOCK_SIZE]) -> Fingerprint {
        let [a, b, c, d, e, f, g, h, ..] = self.key;
        let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let sum = twox_hash::XxHash3_128::oneshot_with_seed(seed, block);
        Fingerprint::of_digest(&sum.max(1).to_le_bytes())
    }
}

impl fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprinter({}, key withheld)", self.algorithm.name())
    }
}

/// Whether all bytes are zero.
#[must_use]
pub fn is_zero(block: &[u8; BLOCK_SIZE]) -> bool {
    // Most blocks that are not zero show it at once.
    block[..64].iter().all(|&b| b == 0) && block[64..].iter().all(|&b| b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names() {
        let id = |algorithm, key| Fingerprinter::new(algorithm, [key; 32]).key_id();
        assert_eq!(id(Algorithm::Blake3, 1), id(Algorithm::Blake3, 1));
        assert_ne!(id(Algorithm::Blake3, 1), id(Algorithm::Blake3, 2));
        assert_eq!(id(Algorithm::Sha256, 1).map(|name| name.len()), Some(16));
        assert_eq!((id(Algorithm::Md5, 1), id(Algorithm::Sha1, 1)), (None, None));
        let agree = |algorithm| Fingerprinter::new(algorithm, [1; 32]).agrees_with(&Fingerprinter::new(algorithm, [2; 32]));
        assert_eq!(Algorithm::ALL.map(agree), [false, false, true, true]);
    }

    #[test]
    fn fingerprinters_of_two_algorithms_agree_on_nothing() {
        for (one, other) in [(Algorithm::Blake3, Algorithm::Sha256), (Algorithm::Sha1, Algorithm::Md5), (Algorithm::Md5, Algorithm::Blake3)]
        {
            assert!(!Fingerprinter::new(one, [1; 32]).agrees_with(&Fingerprinter::new(other, [1; 32])), "{one:?} and {other:?}");
        }
    }

    #[test]
    fn a_fingerprinter_is_described_without_its_key() {
        let described = format!("{:?}", Fingerprinter::new(Algorithm::Sha256, [77; 32]));
        assert_eq!(described, "Fingerprinter(sha256, key withheld)");
    }

    #[test]
    fn many_blocks_have_the_digests_of_each() {
        let blocks: Vec<[u8; BLOCK_SIZE]> = (0..45u8).map(|n| if n % 5 == 0 { [0; BLOCK_SIZE] } else { [n; BLOCK_SIZE] }).collect();
        for algorithm in Algorithm::ALL {
            let fingerprinter = Fingerprinter::new(algorithm, [9; 32]);
            for n in [0, 1, 7, 8, 16, 17, 45] {
                let some: Vec<&[u8; BLOCK_SIZE]> = blocks[..n].iter().collect();
                let one_by_one: Vec<Digest> = some.iter().map(|block| fingerprinter.digest(block)).collect();
                assert_eq!(fingerprinter.digests(&some), one_by_one, "{n} blocks, {}", algorithm.name());
            }
        }
    }
}
