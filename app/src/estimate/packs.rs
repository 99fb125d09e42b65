//! Estimates what packs save: of some runs of new blocks packs are made, as a volume makes them when a tree is copied.
//!
//! 1. A run is as many blocks as a volume packs at once. Of the first runs each is packed, then one in four, so that the codec takes less
//!    time than the reading.
//! 2. A block of a pack counts as its share of the pack's bytes. Blocks of a kind that was in no run that was packed are taken for as good
//!    as those of all kinds together.
//! 3. The shares of each kind are applied to all its blocks. So the error is what runs differ by beyond the kinds that they are of.

use super::contents::Kind;
use onefold_engine::format::codec::{compress, looks_random};
use onefold_engine::format::unit::{SLOT_BYTES, SLOT_DATA_MAX, SLOTS_MAX, UNIT_ROOM_BYTES};
use onefold_engine::units::BLOCK_SIZE;
use std::collections::VecDeque;

/// The blocks of a run.
const RUN_BLOCKS: usize = 256;
/// The runs of which each is packed.
const ALL_RUNS: u64 = 16;
/// One in this many of the later runs is packed.
const ONE_IN: u64 = 4;
/// A pack takes blocks from among this many neighbours.
const NEIGHBOURS: usize = 16;

/// Blocks that were packed, and the blocks that hold them. All are weighted by the number of blocks that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Packed {
    blocks: f64,
    holders: f64,
}

impl Packed {
    fn share(self) -> Option<f64> {
        (self.blocks > 0.0).then(|| self.holders / self.blocks)
    }
}

/// A run that was packed.
struct Outcome {
    blocks: usize,
    holders: f64,
    /// The number of its blocks of each kind.
    kinds: Vec<(Kind, usize)>,
}

/// The runs, as far as they were packed.
#[derive(Default)]
pub struct Packs {
    /// The runs that have ended.
    runs: u64,
    /// The blocks of the present run, and, if it is to be packed, their kinds and contents.
    blocks: usize,
    run: Vec<(Kind, Box<[u8; BLOCK_SIZE]>)>,
    /// By kind.
    packed: Vec<Packed>,
    /// The packed runs, for the error.
    outcomes: Vec<Outcome>,
}

/// Whether a run is packed, and the number of runs that it stands for.
fn weight(run: u64) -> Option<u64> {
    match run.checked_sub(ALL_RUNS) {
        None => Some(1),
        // Not always at the same distance, which might be that of something in the files.
        Some(later) => ((later / ONE_IN).wrapping_mul(5) % ONE_IN == later % ONE_IN).then_some(ONE_IN),
    }
}

impl Packs {
    /// Takes a block that a volume would store anew.
    pub fn add(&mut self, kind: Kind, block: &[u8; BLOCK_SIZE]) {
        if weight(self.runs).is_some() {
            self.run.push((kind, Box::new(*block)));
        }
        self.blocks += 1;
        if self.blocks == RUN_BLOCKS {
            self.end_run();
        }
    }

    /// Packs the last run.
    pub fn end(&mut self) {
        if self.blocks > 0 {
            self.end_run();
        }
    }

    #[allow(clippy::cast_precision_loss)] // counts are far below 2^52
    fn end_run(&mut self) {
        if let Some(weight) = weight(self.runs) {
            let sizes: Vec<Option<usize>> = self.run.iter().map(|(_, block)| size(block)).collect();
            let shares = shares(&sizes);
            let mut kinds: Vec<Kind> = self.run.iter().map(|(kind, _)| *kind).collect();
            kinds.sort_unstable();
            let kinds = kinds.chunk_by(Kind::eq).map(|same| (same[0], same.len())).collect();
            self.outcomes.push(Outcome { blocks: shares.len(), holders: shares.iter().sum(), kinds });
            for ((kind, _), share) in self.run.drain(..).zip(shares) {
                let kind = usize::from(kind);
                if self.packed.len() <= kind {
                    self.packed.resize(kind + 1, Packed::default());
                }
                self.packed[kind].blocks += weight as f64;
                self.packed[kind].holders += weight as f64 * share;
            }
        }
        self.runs += 1;
        self.blocks = 0;
    }

    /// The number of blocks that hold one new block of this kind.
    pub fn share(&self, kind: usize) -> f64 {
        let of_all = || {
            let add = |sum: Packed, one: &Packed| Packed { blocks: sum.blocks + one.blocks, holders: sum.holders + one.holders };
            self.packed.iter().fold(Packed::default(), add).share()
        };
        self.packed.get(kind).and_then(|packed| packed.share()).or_else(of_all).unwrap_or(1.0)
    }

    /// The standard error of the share of all blocks.
    #[allow(clippy::cast_precision_loss)] // counts are far below 2^52
    pub fn error(&self) -> f64 {
        let (packed, all) = (self.outcomes.len() as f64, self.runs as f64);
        if packed < 2.0 || packed >= all {
            return 0.0;
        }
        let beyond_kinds = |run: &Outcome| {
            let expected: f64 = run.kinds.iter().map(|&(kind, blocks)| blocks as f64 * self.share(usize::from(kind))).sum();
            (run.holders - expected) / run.blocks as f64
        };
        let variance = self.outcomes.iter().map(|run| beyond_kinds(run).powi(2)).sum::<f64>() / (packed - 1.0);
        (variance / packed * (1.0 - packed / all)).sqrt()
    }
}

/// The bytes that a block takes in a pack; none where it is stored as it is.
fn size(block: &[u8; BLOCK_SIZE]) -> Option<usize> {
    if looks_random(block) { None } else { compress(block, SLOT_DATA_MAX).map(|data| SLOT_BYTES + data.len()) }
}

/// The number of blocks that hold each of these: first fit, in their order, from among [`NEIGHBOURS`] each.
#[allow(clippy::cast_precision_loss)] // sizes are below a block
fn shares(sizes: &[Option<usize>]) -> Vec<f64> {
    let mut shares = vec![1.0; sizes.len()];
    let mut open: VecDeque<(usize, Vec<usize>, usize)> = VecDeque::new();
    let mut close = |(_, members, bytes): (usize, Vec<usize>, usize)| {
        if members.len() > 1 {
            members.iter().for_each(|&at| shares[at] = sizes[at].unwrap_or(0) as f64 / bytes as f64);
        }
    };
    for (nth, (at, bytes)) in sizes.iter().enumerate().filter_map(|(at, size)| size.map(|bytes| (at, bytes))).enumerate() {
        while open.front().is_some_and(|&(since, ..)| since + NEIGHBOURS <= nth) {
            open.pop_front().into_iter().for_each(&mut close);
        }
        match open.iter_mut().find(|(_, members, all)| all + bytes <= UNIT_ROOM_BYTES && members.len() < SLOTS_MAX) {
            Some((_, members, all)) => {
                members.push(at);
                *all += bytes;
            }
            None => open.push_back((nth, vec![at], bytes)),
        }
    }
    open.into_iter().for_each(close);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_block_by_their_sizes() {
        let third = UNIT_ROOM_BYTES / 3;
        assert_eq!(shares(&[None, Some(third), Some(2 * third), Some(third), None]), [1.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0]);
        // A block beyond its neighbours begins a pack of its own.
        let far: Vec<Option<usize>> = [third].into_iter().chain([UNIT_ROOM_BYTES - 1; NEIGHBOURS]).chain([third]).map(Some).collect();
        assert_eq!(shares(&far), vec![1.0; NEIGHBOURS + 2]);
        assert_eq!(shares(&[Some(1); SLOTS_MAX + 1]).iter().filter(|share| **share == 1.0).count(), 1);
    }

    #[test]
    fn runs_that_are_packed_stand_for_all() {
        let packed: u64 = (0..ALL_RUNS + 8 * 100).filter_map(weight).sum();
        assert_eq!(packed, ALL_RUNS + 8 * 100);
        let mut packs = Packs::default();
        let (small, noise) = ([1; BLOCK_SIZE], std::array::from_fn(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7]));
        for _ in 0..RUN_BLOCKS * 40 {
            packs.add(0, &small);
            packs.add(1, &noise);
        }
        packs.end();
        assert!(packs.share(0) < 0.1, "{}", packs.share(0));
        assert!(packs.share(1) > packs.share(0));
        let mean = (packs.share(0) + packs.share(1)) / 2.0;
        assert!((packs.share(7) - mean).abs() < 1e-9, "a kind of which no run was packed");
        assert!(packs.error() < 1e-3, "all runs are alike: {}", packs.error());
    }
}
