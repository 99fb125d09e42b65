//! A plane: its blocks, the map from logical to physical pages, and its cleaning.

use super::full_blocks::{Block, FullBlocks};
use super::shape::Shape;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;

/// The cleaning that a write waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningWork {
    pub moved_pages: u64,
    pub erases: u64,
}

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    block: u32,
    used_pages: u32,
}

/// A plane. Pages and blocks are numbered within it.
#[derive(Clone, Debug)]
pub struct Plane {
    block_pages: u32,
    /// The physical page of each logical one, or none.
    map: Vec<u32>,
    /// The logical page of each physical one, or none if it is free or invalid.
    owners: Vec<u32>,
    blocks: Vec<Block>,
    /// The free blocks, the one with the fewest erases first, so that wear is even.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    full: FullBlocks,
    for_host: Option<OpenBlock>,
    for_cleaning: Option<OpenBlock>,
    host_pages: u64,
}

impl Plane {
    /// Makes a plane that holds nothing.
    pub fn new(shape: &Shape) -> Self {
        let number = |n: u64| u32::try_from(n).expect("the shape was checked");
        let (pages, blocks) = (number(shape.plane_pages()), number(shape.plane_blocks()));
        Self {
            block_pages: shape.block_pages,
            map: vec![NONE; pages as usize],
            owners: vec![NONE; (blocks * shape.block_pages) as usize],
            blocks: vec![Block::default(); blocks as usize],
            free: (0..blocks).map(|block| Reverse((0, block))).collect(),
            full: FullBlocks::new(shape.cleaning, blocks as usize, shape.block_pages),
            for_host: None,
            for_cleaning: None,
            host_pages: 0,
        }
    }

    /// Returns whether a logical page maps to anything.
    pub fn holds(&self, page: u32) -> bool {
        self.map[page as usize] != NONE
    }

    /// Returns the erases of each block.
    pub fn erases(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|block| block.erases)
    }

    /// Forgets all wear.
    pub fn forget_wear(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.erases = 0);
        self.free = self.free.drain().map(|Reverse((_, block))| Reverse((0, block))).collect();
    }

    /// Makes what a logical page maps to invalid, and returns whether there was something.
    pub fn trim(&mut self, page: u32) -> bool {
        let physical = std::mem::replace(&mut self.map[page as usize], NONE);
        if physical == NONE {
            return false;
        }
        self.owners[physical as usize] = NONE;
        let block = physical / self.block_pages;
        let valid = &mut self.blocks[block as usize].valid_pages;
        *valid -= 1;
        self.full.lost_page(block, *valid);
        true
    }

    /// Writes a logical page for the host, and returns the cleaning before it.
    pub fn write(&mut self, page: u32) -> CleaningWork {
        self.trim(page);
        let mut work = CleaningWork::default();
        let open = match self.for_host.take() {
            Some(open) => open,
            None => {
                while self.free.len() < 2 {
                    self.clean(&mut work);
                }
                self.open_block()
            }
        };
        self.host_pages += 1;
        self.for_host = self.program(open, page, self.host_pages);
        work
    }

    /// Takes a free block.
    fn open_block(&mut self) -> OpenBlock {
        let Reverse((_, block)) = self.free.pop().expect("cleaning leaves a free block");
        self.blocks[block as usize].youngest = 0;
        OpenBlock { block, used_pages: 0 }
    }

    /// Writes a page into an open block, and returns the block unless it is full now.
    fn program(&mut self, open: OpenBlock, page: u32, written: u64) -> Option<OpenBlock> {
        let physical = open.block * self.block_pages + open.used_pages;
        self.map[page as usize] = physical;
        self.owners[physical as usize] = page;
        let block = &mut self.blocks[open.block as usize];
        block.valid_pages += 1;
        block.youngest = block.youngest.max(written);
        let used_pages = open.used_pages + 1;
        if used_pages == self.block_pages {
            self.full.add(open.block, block.valid_pages);
            return None;
        }
        Some(OpenBlock { used_pages, ..open })
    }

    /// Moves the valid pages of a full block, and erases it.
    fn clean(&mut self, work: &mut CleaningWork) {
        let victim = self.full.take(&self.blocks, self.block_pages, self.host_pages).expect("a plane without free blocks has full ones");
        let Block { valid_pages, youngest, .. } = self.blocks[victim as usize];
        let pages = victim * self.block_pages..(victim + 1) * self.block_pages;
        for physical in pages {
            let page = std::mem::replace(&mut self.owners[physical as usize], NONE);
            if page != NONE {
                let open = self.for_cleaning.take().unwrap_or_else(|| self.open_block());
                self.for_cleaning = self.program(open, page, youngest);
            }
        }
        let block = &mut self.blocks[victim as usize];
        block.valid_pages = 0;
        block.erases += 1;
        self.free.push(Reverse((block.erases, victim)));
        work.moved_pages += u64::from(valid_pages);
        work.erases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Cleaning;
    use super::*;

    fn plane(cleaning: Cleaning, pages: u64, spare: f64) -> Plane {
        Plane::new(&Shape { planes: 1, block_pages: 8, spare, cleaning, ..Shape::new(pages * 4096) })
    }

    /// Compares all that is written twice in a plane.
    fn check(plane: &Plane) {
        for (page, &physical) in (0..).zip(&plane.map) {
            assert!(physical == NONE || plane.owners[physical as usize] == page, "page {page}");
        }
        let mapped = plane.map.iter().filter(|&&physical| physical != NONE).count();
        assert_eq!(mapped, plane.owners.iter().filter(|&&page| page != NONE).count());
        for (block, owners) in plane.blocks.iter().zip(plane.owners.chunks(plane.block_pages as usize)) {
            assert_eq!(block.valid_pages as usize, owners.iter().filter(|&&page| page != NONE).count());
        }
    }

    #[test]
    fn a_plane_keeps_every_page_whatever_is_written_and_trimmed() {
        for cleaning in Cleaning::ALL {
            let mut random = fastrand::Rng::with_seed(3);
            let mut plane = plane(cleaning, 400, 0.1);
            let mut holds = vec![false; 400];
            for _ in 0..20_000 {
                let page = random.u32(0..400);
                if random.u8(0..10) == 0 {
                    assert_eq!(plane.trim(page), std::mem::take(&mut holds[page as usize]));
                } else {
                    plane.write(page);
                    holds[page as usize] = true;
                }
            }
            check(&plane);
            assert!((0..400).all(|page| plane.holds(page) == holds[page as usize]), "{cleaning:?}");
        }
    }

    #[test]
    fn trimmed_pages_are_not_moved() {
        let work = |trimmed: u32| {
            let mut plane = plane(Cleaning::Greedy, 400, 0.1);
            (0..400).for_each(|page| assert_eq!(plane.write(page), CleaningWork::default()));
            (0..trimmed).for_each(|page| assert!(plane.trim(page) && !plane.holds(page)));
            let mut random = fastrand::Rng::with_seed(1);
            (0..8000).map(|_| plane.write(random.u32(200..400)).moved_pages).sum::<u64>()
        };
        assert!(work(200) * 3 < work(0), "{} and {} pages moved", work(200), work(0));
    }

    #[test]
    fn a_sequential_overwrite_moves_nothing() {
        let mut plane = plane(Cleaning::Greedy, 400, 0.1);
        let work = (0..10).flat_map(|_| 0..400).map(|page| plane.write(page));
        let (moved, erases) = work.fold((0, 0), |(moved, erases), work| (moved + work.moved_pages, erases + work.erases));
        assert_eq!(moved, 0);
        assert!((440..460).contains(&erases), "{erases} blocks for 450 blocks of overwrites, the spare ones apart");
    }

    /// A tenth of the pages takes nine tenths of the writes: cost-benefit leaves blocks of hot pages time to become empty.
    #[test]
    fn cost_benefit_moves_less_than_greedy_where_some_pages_are_hot() {
        let moved = |cleaning| {
            let mut random = fastrand::Rng::with_seed(1);
            let mut plane = plane(cleaning, 8000, 0.15);
            let mut moved = 0;
            for n in 0..400_000 {
                let page = if random.u8(0..10) == 0 { random.u32(800..8000) } else { random.u32(0..800) };
                let work = plane.write(page);
                moved += if n >= 200_000 { work.moved_pages } else { 0 };
            }
            moved
        };
        let (greedy, cost_benefit) = (moved(Cleaning::Greedy), moved(Cleaning::CostBenefit));
        assert!(cost_benefit * 10 < greedy * 9, "{cost_benefit} and {greedy} pages moved");
    }
}
