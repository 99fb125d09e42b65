//! The blocks that each request touches.
//!
//! 1. With a share of overwrites, first writes go to the end of what was written, as on a file system that fills up; overwrites go where
//!    the pattern says, within what was written. At the end exactly as many blocks were written as the share leaves.
//! 2. Without a share of overwrites, all requests go where the pattern says, within the working set.
//! 3. Reads go where the pattern says, within what was written or, without a share of overwrites, within the working set.

use super::plan::Access;
use super::random::{Purpose, Random, part, stream};
use rand::RngExt;

/// Chooses places.
#[derive(Debug)]
pub(super) struct Places {
    random: Random,
    access: Access,
    /// The number of blocks that requests lie in.
    end: u64,
    fill: Option<FillLevel>,
    /// The blocks where the next sequential write and read begin.
    write_next: u64,
    read_next: u64,
    /// The constant of NURand, drawn once.
    constant: u64,
}

/// The fill level of a volume with a share of overwrites.
#[derive(Debug)]
struct FillLevel {
    filled: u64,
    /// The number of block writes that remain.
    left: u64,
}

impl Places {
    /// Chooses places within `end` blocks, which are filled gradually if the number of block writes is given.
    pub fn new(seed: u64, access: Access, end: u64, fill: Option<u64>) -> Self {
        let mut random = stream(seed, Purpose::Places);
        let constant = random.random_range(0..=end / NURAND_PART);
        let fill = fill.map(|left| FillLevel { filled: 0, left });
        Self { random, access, end, fill, write_next: 0, read_next: 0, constant }
    }

    /// Returns the first block of a write of `length`.
    pub fn write(&mut self, length: u64) -> u64 {
        let end = self.end;
        let Some(fill) = &mut self.fill else {
            let mut next = self.write_next;
            let first = self.access.first(&mut self.random, end, length, &mut next, self.constant);
            self.write_next = next;
            return first;
        };
        let fresh = end - fill.filled;
        // Draw randomly, but never leave more blocks to fill than writes to come.
        let is_fresh = fresh > fill.left - length || self.random.random_range(0..fill.left) < fresh;
        fill.left -= length;
        let filled = fill.filled;
        if is_fresh || filled < length {
            // A write that fits neither after the written blocks nor within them lies across their end.
            let first = if is_fresh { filled.min(end - length) } else { 0 };
            fill.filled = filled.max(first + length);
            return first;
        }
        let mut next = self.write_next;
        let first = self.access.first(&mut self.random, filled, length, &mut next, self.constant);
        self.write_next = next;
        first
    }

    /// Returns the first block of a read and its number of blocks.
    pub fn read(&mut self, length: u64) -> (u64, u64) {
        let end = self.fill.as_ref().map_or(self.end, |fill| fill.filled.max(1));
        let length = length.min(end);
        let mut next = self.read_next;
        let first = self.access.first(&mut self.random, end, length, &mut next, self.constant);
        self.read_next = next;
        (first, length)
    }
}

/// The divisor of the range for TPC-C's A: DEDISbench takes a tenth.
const NURAND_PART: u64 = 10;

impl Access {
    fn first(self, random: &mut Random, end: u64, length: u64, next: &mut u64, constant: u64) -> u64 {
        let last = end - length;
        match self {
            Self::Uniform => random.random_range(0..=last),
            Self::Sequential => {
                let first = if *next > last { 0 } else { *next };
                *next = first + length;
                first
            }
            Self::HotSpot { requests, blocks } => {
                let hot = part(last + 1, blocks).max(1);
                if hot > last || random.random_bool(requests) { random.random_range(0..hot) } else { random.random_range(hot..=last) }
            }
            Self::NuRand => {
                let mixed = random.random_range(0..=end / NURAND_PART) | random.random_range(0..end);
                ((mixed + constant) % end).min(last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::random::float;

    fn firsts(access: Access, end: u64, length: u64, count: usize) -> Vec<u64> {
        let mut places = Places::new(5, access, end, None);
        (0..count).map(|_| places.write(length)).collect()
    }

    #[test]
    fn patterns_are_what_they_say() {
        assert_eq!(firsts(Access::Sequential, 10, 4, 5), [0, 4, 0, 4, 0]);
        let share =
            |firsts: &[u64], below: u64| float(firsts.iter().filter(|first| **first < below).count() as u64) / float(firsts.len() as u64);
        let uniform = firsts(Access::Uniform, 1000, 1, 20_000);
        assert!((share(&uniform, 300) - 0.3).abs() < 0.02 && uniform.iter().max() == Some(&999));
        let hot = firsts(Access::HotSpot { requests: 0.9, blocks: 0.1 }, 1000, 1, 20_000);
        assert!((share(&hot, 100) - 0.9).abs() < 0.02 && hot.iter().max() == Some(&999));
        // Bits that both numbers have are set more often, so some blocks are written many times as often as others.
        let nurand = firsts(Access::NuRand, 1000, 1, 20_000);
        let mut counts = vec![0; 1000];
        nurand.iter().for_each(|first| counts[usize::try_from(*first).expect("small")] += 1);
        counts.sort_unstable();
        assert!(counts[900..].iter().sum::<u32>() > 7000, "the busiest tenth has {}", counts[900..].iter().sum::<u32>());
    }

    #[test]
    fn a_share_of_overwrites_is_kept_to_the_block() {
        for access in [Access::Uniform, Access::Sequential, Access::HotSpot { requests: 0.9, blocks: 0.1 }, Access::NuRand] {
            for (blocks, length) in [(700, 1), (700, 7), (1000, 3), (8, 8)] {
                let (mut places, mut left) = (Places::new(1, access, blocks, Some(1000)), 1000);
                let mut written = vec![0u32; usize::try_from(blocks).expect("small")];
                while left > 0 {
                    let length = length.min(left);
                    let first = places.write(length);
                    (first..first + length).for_each(|block| written[usize::try_from(block).expect("small")] += 1);
                    left -= length;
                }
                assert!(written.iter().all(|times| *times > 0), "{access:?} {blocks} {length}");
            }
        }
    }
}
