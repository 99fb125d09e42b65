//! A random order of the numbers below a limit, without a list of them.
//!
//! The order is a Feistel network on the next power of four, repeated until the result lies below the limit (Black and Rogaway, CT-RSA
//! '02): each number occurs exactly once.

use super::random::{Purpose, mix, stream};
use rand::RngExt;

/// The rounds of the network; four are enough to look random.
const ROUNDS: usize = 6;

/// A random order of the numbers below a limit.
#[derive(Clone, Debug)]
pub(super) struct Order {
    limit: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Order {
    /// Makes an order of the numbers below `limit`.
    pub fn new(seed: u64, limit: u64) -> Self {
        let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
        let mut random = stream(seed, Purpose::Order);
        Self { limit, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| random.random()) }
    }

    /// Returns the number at this place.
    pub fn at(&self, place: u64) -> u64 {
        assert!(place < self.limit, "{place} of {}", self.limit);
        let mut number = self.step(place);
        while number >= self.limit {
            number = self.step(number);
        }
        number
    }

    fn step(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(key, right) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_once() {
        for limit in [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097, 70_000] {
            let order = Order::new(7, limit);
            let mut numbers: Vec<u64> = (0..limit).map(|place| order.at(place)).collect();
            let runs = numbers.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(limit < 1000 || runs < 10, "{limit}: {runs} neighbours stayed neighbours");
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..limit), "{limit}");
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let places = |seed| (0..100).map(|place| Order::new(seed, 100).at(place)).collect::<Vec<_>>();
        assert_eq!(places(1), places(1));
        assert_ne!(places(1), places(2));
    }
}
