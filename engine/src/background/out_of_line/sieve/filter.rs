//! A Bloom filter for the keys of candidates. It lets every key through that was added, and few others.

use crate::units::{count, index};

/// Places at which a key sets a bit. With five to eight bits for each key, three let about as few others through as any number.
const PLACES: usize = 3;

/// The filter.
#[derive(Default)]
pub(super) struct Filter {
    bits: Vec<u64>,
    salt: u64,
}

impl Filter {
    /// Makes an empty filter of `bytes`. With another salt, other keys come through by chance.
    pub fn new(bytes: u64, salt: u64) -> Self {
        let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX).max(1);
        Self { bits: vec![0; words], salt }
    }

    /// Adds a key.
    pub fn add(&mut self, key: u64) {
        for place in self.places(key) {
            self.bits[place / 64] |= 1 << (place % 64);
        }
    }

    /// Whether a key comes through.
    pub fn lets_through(&self, key: u64) -> bool {
        self.places(key).into_iter().all(|place| self.bits[place / 64] >> (place % 64) & 1 == 1)
    }

    fn places(&self, key: u64) -> [usize; PLACES] {
        let bits = count(self.bits.len()) * 64;
        let hash = mixed(key ^ mixed(self.salt));
        let step = mixed(hash) | 1;
        std::array::from_fn(|i| {
            let hash = hash.wrapping_add(step.wrapping_mul(count(i)));
            index(below(hash, bits))
        })
    }
}

/// A number below `most`, which depends on all of `hash`.
fn below(hash: u64, most: u64) -> u64 {
    u64::try_from((u128::from(hash) * u128::from(most)) >> u64::BITS).unwrap_or_default()
}

/// Mixes the bits of a number (the finalizer of MurmurHash3).
fn mixed(mut n: u64) -> u64 {
    n = (n ^ (n >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    n = (n ^ (n >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    n ^ (n >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_added_come_through_and_few_others() {
        for salt in 0..4 {
            let mut filter = Filter::new(1000, salt);
            (0..1000).for_each(|key| filter.add(key));
            assert!((0..1000).all(|key| filter.lets_through(key)));
            let others = (1000..101_000).filter(|&key| filter.lets_through(key)).count();
            assert!((2000..4500).contains(&others), "{others} of 100000 with eight bits a key");
        }
    }

    #[test]
    fn another_salt_lets_others_through() {
        let [one, two] = [1, 2].map(|salt| {
            let mut filter = Filter::new(600, salt);
            (0..1000).for_each(|key| filter.add(key));
            filter
        });
        let passed: Vec<u64> = (1000..101_000).filter(|&key| one.lets_through(key)).collect();
        let twice = passed.iter().filter(|&&key| two.lets_through(key)).count();
        assert!(twice * 8 < passed.len(), "{twice} of {}", passed.len());
    }
}
