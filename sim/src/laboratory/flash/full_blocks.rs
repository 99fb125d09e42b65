//! The full blocks of a plane, in the order in which they are cleaned.

use super::shape::Cleaning;
use std::collections::VecDeque;

/// A block of a plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Block {
    pub valid_pages: u32,
    pub erases: u32,
    /// The host's pages that the plane had written when the youngest page of the block was written by the host.
    pub youngest: u64,
}

/// The full blocks by one policy.
#[derive(Clone, Debug)]
pub enum FullBlocks {
    Greedy(ByValidPages),
    CostBenefit(Vec<u32>),
    Fifo(VecDeque<u32>),
}

impl FullBlocks {
    /// Makes an empty set for a plane with this number of blocks.
    pub fn new(cleaning: Cleaning, blocks: usize, block_pages: u32) -> Self {
        match cleaning {
            Cleaning::Greedy => Self::Greedy(ByValidPages::new(blocks, block_pages)),
            Cleaning::CostBenefit => Self::CostBenefit(Vec::new()),
            Cleaning::Fifo => Self::Fifo(VecDeque::new()),
        }
    }

    /// Adds a block that has just been filled.
    pub fn add(&mut self, block: u32, valid_pages: u32) {
        match self {
            Self::Greedy(by_valid_pages) => by_valid_pages.add(block, valid_pages),
            Self::CostBenefit(all) => all.push(block),
            Self::Fifo(queue) => queue.push_back(block),
        }
    }

    /// Notes that a block, full or not, has one valid page less: this many.
    pub fn lost_page(&mut self, block: u32, valid_pages: u32) {
        if let Self::Greedy(by_valid_pages) = self {
            by_valid_pages.lost_page(block, valid_pages);
        }
    }

    /// Removes the block to clean next; none if no block is full.
    pub fn take(&mut self, blocks: &[Block], block_pages: u32, now: u64) -> Option<u32> {
        match self {
            Self::Greedy(by_valid_pages) => by_valid_pages.take(),
            Self::Fifo(queue) => queue.pop_front(),
            Self::CostBenefit(all) => {
                let score = |&block: &u32| benefit_for_cost(&blocks[block as usize], block_pages, now);
                let best = (0..all.len()).max_by(|&a, &b| score(&all[a]).total_cmp(&score(&all[b])))?;
                Some(all.swap_remove(best))
            }
        }
    }
}

/// Returns (1 − u) ÷ 2u × age; infinite for a block without valid pages.
fn benefit_for_cost(block: &Block, block_pages: u32, now: u64) -> f64 {
    let (valid, all) = (f64::from(block.valid_pages), f64::from(block_pages));
    if block.valid_pages == 0 {
        return f64::INFINITY;
    }
    #[allow(clippy::cast_precision_loss)] // a count of pages is far below 2^52
    let age = (now - block.youngest + 1) as f64;
    (all - valid) / (2.0 * valid) * age
}

/// Blocks by their number of valid pages.
#[derive(Clone, Debug)]
pub struct ByValidPages {
    lists: Vec<Vec<u32>>,
    /// The place of each block in its list; none if it is not full.
    places: Vec<Option<u32>>,
    /// No list before this one has a block.
    lowest: usize,
}

impl ByValidPages {
    fn new(blocks: usize, block_pages: u32) -> Self {
        Self { lists: vec![Vec::new(); block_pages as usize + 1], places: vec![None; blocks], lowest: 0 }
    }

    fn add(&mut self, block: u32, valid_pages: u32) {
        let list = &mut self.lists[valid_pages as usize];
        self.places[block as usize] = Some(u32::try_from(list.len()).expect("a plane has fewer than 2^32 blocks"));
        list.push(block);
        self.lowest = self.lowest.min(valid_pages as usize);
    }

    fn remove(&mut self, block: u32, valid_pages: u32, place: u32) {
        let list = &mut self.lists[valid_pages as usize];
        list.swap_remove(place as usize);
        if let Some(&moved) = list.get(place as usize) {
            self.places[moved as usize] = Some(place);
        }
        self.places[block as usize] = None;
    }

    fn lost_page(&mut self, block: u32, valid_pages: u32) {
        if let Some(place) = self.places[block as usize] {
            self.remove(block, valid_pages + 1, place);
            self.add(block, valid_pages);
        }
    }

    fn take(&mut self) -> Option<u32> {
        self.lowest += self.lists[self.lowest..].iter().position(|list| !list.is_empty())?;
        let block = self.lists[self.lowest].pop()?;
        self.places[block as usize] = None;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(valid_pages: u32, youngest: u64) -> Block {
        Block { valid_pages, erases: 0, youngest }
    }

    #[test]
    fn each_policy_takes_its_own_block() {
        // The first filled, the emptiest, and the one that has been left alone the longest.
        let blocks = [block(7, 90), block(4, 99), block(5, 2)];
        let taken = |cleaning| {
            let mut full = FullBlocks::new(cleaning, blocks.len(), 8);
            (0..).zip(&blocks).for_each(|(number, block)| full.add(number, block.valid_pages));
            full.take(&blocks, 8, 100)
        };
        assert_eq!([Cleaning::Fifo, Cleaning::Greedy, Cleaning::CostBenefit].map(taken), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn a_block_without_valid_pages_costs_nothing() {
        let mut full = FullBlocks::new(Cleaning::CostBenefit, 2, 8);
        full.add(0, 1);
        full.add(1, 0);
        assert_eq!(full.take(&[block(1, 0), block(0, 1000)], 8, 1000), Some(1));
    }

    /// The lists agree with a search among all full blocks.
    #[test]
    fn greedy_takes_the_emptiest_block_whatever_happened_before() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut full = ByValidPages::new(40, 16);
        let mut valid: Vec<Option<u32>> = vec![None; 40];
        for _ in 0..10_000 {
            let block = random.usize(0..40);
            let number = u32::try_from(block).expect("small");
            match (random.u8(0..3), valid[block]) {
                (0, None) => {
                    let pages = random.u32(0..=16);
                    valid[block] = Some(pages);
                    full.add(number, pages);
                }
                (1, Some(pages)) if pages > 0 => {
                    valid[block] = Some(pages - 1);
                    full.lost_page(number, pages - 1);
                }
                (1, None) => full.lost_page(number, 3),
                (2, _) => {
                    let least = valid.iter().flatten().min().copied();
                    let taken = full.take();
                    assert_eq!(taken.map(|block| valid[block as usize].take()), least.map(Some));
                }
                _ => {}
            }
        }
    }
}
