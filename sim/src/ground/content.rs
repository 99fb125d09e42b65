//! Block contents as the simulated device and the oracle hold them: shared, immutable, each with a name.
//!
//! 1. Equal bytes have equal names; a name is a 64-bit hash, so two contents of one run never collide in practice (2^-64 a pair).
//! 2. A sector has a name too, for a write may be torn between sectors (A2).

use onefold_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use std::fmt;
use std::sync::{Arc, LazyLock};
use twox_hash::XxHash3_64;

/// The number of sectors of a block.
pub const SECTORS: usize = BLOCK_SIZE / SECTOR_SIZE;

/// The bytes of one block and their names.
pub struct Content {
    bytes: [u8; BLOCK_SIZE],
    sectors: [u64; SECTORS],
    id: u64,
}

/// A content that several holders share.
pub type Shared = Arc<Content>;

static ZERO: LazyLock<Shared> = LazyLock::new(|| Content::build([0; BLOCK_SIZE]));

impl Content {
    fn build(bytes: [u8; BLOCK_SIZE]) -> Shared {
        let mut sectors = [0; SECTORS];
        for (name, sector) in sectors.iter_mut().zip(bytes.chunks_exact(SECTOR_SIZE)) {
            *name = XxHash3_64::oneshot(sector);
        }
        let id = sectors.iter().fold(0u64, |id, s| (id.rotate_left(7) ^ s).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Arc::new(Self { bytes, sectors, id })
    }

    /// Makes a content of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8; BLOCK_SIZE]) -> Shared {
        if bytes[..64] == [0; 64] && bytes.iter().all(|&b| b == 0) {
            return Self::zero();
        }
        Self::build(*bytes)
    }

    /// Returns the content of all zeros.
    #[must_use]
    pub fn zero() -> Shared {
        ZERO.clone()
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; BLOCK_SIZE] {
        &self.bytes
    }

    /// Returns the bytes of one sector.
    #[must_use]
    pub fn sector(&self, i: usize) -> &[u8; SECTOR_SIZE] {
        self.bytes[i * SECTOR_SIZE..][..SECTOR_SIZE].try_into().expect("a sector")
    }

    /// Returns the name of one sector's bytes.
    #[must_use]
    pub fn sector_id(&self, i: usize) -> u64 {
        self.sectors[i]
    }

    /// Returns the name of the bytes.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Makes a copy of this content with some bytes replaced.
    ///
    /// # Panics
    /// Panics if the patch reaches beyond the block.
    #[must_use]
    pub fn patched(&self, at: usize, patch: &[u8]) -> Shared {
        let mut bytes = self.bytes;
        bytes[at..at + patch.len()].copy_from_slice(patch);
        Self::of(&bytes)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", name(self))
    }
}

/// Returns a short name for histories: `zero`, the first letters of a client's pattern, or the hash.
#[must_use]
pub fn name(content: &Content) -> String {
    if content.id == ZERO.id {
        return "zero".to_owned();
    }
    let label = |s: &[u8]| s.iter().take_while(|b| b.is_ascii_alphanumeric()).take(8).map(|&b| char::from(b)).collect::<String>();
    let first = label(&content.bytes[8..16]);
    let last = label(&content.bytes[BLOCK_SIZE - 8..]);
    match (first.is_empty(), first == last) {
        (true, _) => format!("#{:08x}", content.id >> 32),
        (false, true) if pattern(&first).id == content.id => first,
        (false, _) => format!("{first}..{last}#{:08x}", content.id >> 32),
    }
}

/// Makes a block that repeats its label in every eight bytes, except that each sector's first eight number the sector, so that torn
/// mixtures are visible.
#[must_use]
pub fn pattern(label: &str) -> Shared {
    assert!(!label.is_empty() && label.len() <= 8, "a label has one to eight letters");
    let mut word = [b' '; 8];
    word[..label.len()].copy_from_slice(label.as_bytes());
    let mut bytes = [0; BLOCK_SIZE];
    for (i, sector) in bytes.chunks_exact_mut(SECTOR_SIZE).enumerate() {
        sector.chunks_exact_mut(8).for_each(|w| w.copy_from_slice(&word));
        sector[..8].copy_from_slice(&[b'0' + u8::try_from(i).expect("eight sectors"), 0, 0, 0, 0, 0, 0, 0]);
    }
    Content::of(&bytes)
}
