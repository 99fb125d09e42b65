//! A mark for each bucket of the index.

use crate::units::count;

/// The marks, a bit each.
pub(super) struct Marks {
    bits: Box<[u64]>,
    set: u64,
}

impl Marks {
    pub fn new(buckets: usize) -> Self {
        Self { bits: vec![0; buckets.div_ceil(64)].into_boxed_slice(), set: 0 }
    }

    pub fn get(&self, bucket: usize) -> bool {
        self.bits[bucket / 64] & 1 << (bucket % 64) != 0
    }

    pub fn set(&mut self, bucket: usize) {
        let (bits, bit) = (&mut self.bits[bucket / 64], 1 << (bucket % 64));
        self.set += u64::from(*bits & bit == 0);
        *bits |= bit;
    }

    /// Whether no bucket has its mark.
    pub fn is_clear(&self) -> bool {
        self.set == 0
    }

    /// The bytes of its memory.
    pub fn bytes(&self) -> u64 {
        count(size_of_val(&*self.bits))
    }
}
