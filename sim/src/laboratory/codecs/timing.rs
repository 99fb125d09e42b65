//! The cost of compressing and decompressing, in nanoseconds of this thread's processor time for each block.
//!
//! Every round runs all candidates, one after another over the same blocks. A time is the smallest of its rounds; a ratio is the median
//! over rounds of the time divided by that of the first candidate in the same round, so that it holds even if other work slows some rounds
//! down.

use super::codec::{Block, Codec, Kind};
use onefold_engine::units::BLOCK_SIZE;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::hint::black_box;

/// The cost of one candidate for some blocks; not a number if there were none.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub ns: f64,
    pub ratio: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ns.is_finite() { write!(f, "{:.0} | {:.2}", self.ns, self.ratio) } else { write!(f, "– | –") }
    }
}

fn now_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Measures how long the candidates take to compress each of these blocks.
#[must_use]
pub fn compressing(kinds: &[Kind], blocks: &[&Block], rounds: usize) -> Vec<Cost> {
    let mut codecs: Vec<Codec> = kinds.iter().copied().map(Codec::new).collect();
    in_rounds(kinds.len(), blocks.len(), rounds, |which| {
        for block in blocks {
            black_box(codecs[which].compress(black_box(block)));
        }
    })
}

/// Measures how long they take to decompress them; blocks that one candidate gives up are left out for all.
#[must_use]
pub fn reading(kinds: &[Kind], blocks: &[&Block], rounds: usize) -> Vec<Cost> {
    let mut codecs: Vec<Codec> = kinds.iter().copied().map(Codec::new).collect();
    let mut data = vec![Vec::new(); kinds.len()];
    let mut count = 0;
    for block in blocks {
        if codecs.iter_mut().all(|codec| codec.compress(block) < BLOCK_SIZE) {
            count += 1;
            codecs.iter().zip(&mut data).for_each(|(codec, data)| data.push(codec.compressed().to_vec()));
        }
    }
    let mut out = [0; BLOCK_SIZE];
    in_rounds(kinds.len(), count, rounds, |which| {
        for one in &data[which] {
            assert!(codecs[which].decompress(black_box(one), black_box(&mut out)), "what was compressed is a block");
        }
    })
}

fn in_rounds(candidates: usize, blocks: usize, rounds: usize, mut run: impl FnMut(usize)) -> Vec<Cost> {
    let mut times = vec![Vec::new(); candidates];
    for _ in 0..if blocks > 0 { rounds } else { 0 } {
        for (which, times) in times.iter_mut().enumerate() {
            let before = now_ns();
            run(which);
            times.push((now_ns() - before) / blocks as f64);
        }
    }
    let cost = |own: &Vec<f64>| {
        let mut ratios: Vec<f64> = own.iter().zip(&times[0]).map(|(own, first)| own / first).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        Cost { ns: own.iter().copied().fold(f64::INFINITY, f64::min), ratio: ratios.get(ratios.len() / 2).copied().unwrap_or(1.0) }
    };
    times.iter().map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_work_is_seen() {
        let mut sum = 0u64;
        let mut work = |which: usize| {
            for i in 0..100_000 * (1 + 9 * which as u64) {
                sum = black_box(sum.wrapping_mul(31) + i);
            }
        };
        let costs = in_rounds(2, 1, 9, &mut work);
        assert!((costs[0].ratio - 1.0).abs() < 1e-9);
        assert!(costs[1].ratio > 4.0 && costs[1].ns > costs[0].ns, "{costs:?}");
    }

    #[test]
    fn all_read_the_same_blocks() {
        let kinds = [Kind::Lz4, Kind::Lz4Try(1024, 1), Kind::Zstd(1)];
        let (mut noise, zeros) = ([0; BLOCK_SIZE], [1; BLOCK_SIZE]);
        fastrand::Rng::with_seed(1).fill(&mut noise);
        let costs = reading(&kinds, &[&noise, &zeros], 1);
        assert_eq!(reading(&kinds, &[], 3)[1].to_string(), "– | –");
        assert!(costs.len() == 3 && costs.iter().all(|cost| cost.ns.is_finite() && cost.ns > 0.0), "{costs:?}");
    }
}
