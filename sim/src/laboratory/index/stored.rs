//! A volume as a policy sees it: the block that each LBN means, and the content of each block.
//!
//! 1. A block whose last link is gone is free at once, and its fingerprint is forgotten (SmartDedup, section 3.4).
//! 2. A content that a policy did not find is stored again: several blocks may hold it.

use super::writes::{Content, ZEROS};

/// The number of a stored block.
pub type Pbn = u32;

/// No block, and the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    content: Content,
    links: u32,
    /// The next block with the same content.
    next: Pbn,
}

/// A volume.
#[derive(Debug)]
pub struct Stored {
    map: Vec<Pbn>,
    blocks: Vec<Block>,
    /// The first block with each content.
    first: Vec<Pbn>,
    free: Vec<Pbn>,
}

impl Stored {
    /// Makes an empty volume for this many LBNs and contents.
    #[must_use]
    pub fn new(lbns: u32, contents: u32) -> Self {
        Self { map: vec![NONE; lbns as usize], blocks: Vec::new(), first: vec![NONE; contents as usize], free: Vec::new() }
    }

    /// Returns the number of blocks in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    /// Returns the number of blocks that were ever in use: those with the least numbers.
    #[must_use]
    pub fn ever_used(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns the block that an LBN means.
    #[must_use]
    pub fn meaning(&self, lbn: u32) -> Option<Pbn> {
        Some(self.map[lbn as usize]).filter(|&pbn| pbn != NONE)
    }

    /// Lists the blocks with this content, the newest first.
    pub fn holders(&self, content: Content) -> impl Iterator<Item = Pbn> + '_ {
        let mut next = self.first[content as usize];
        std::iter::from_fn(move || {
            let pbn = Some(next).filter(|&pbn| pbn != NONE)?;
            next = self.blocks[pbn as usize].next;
            Some(pbn)
        })
    }

    /// Returns whether a block is in use and holds this content.
    #[must_use]
    pub fn holds(&self, pbn: Pbn, content: Content) -> bool {
        self.blocks.get(pbn as usize).is_some_and(|block| block.links > 0 && block.content == content)
    }

    /// Stores a content in a free block, without links yet.
    pub fn store(&mut self, content: Content) -> Pbn {
        debug_assert_ne!(content, ZEROS, "zeros are never stored");
        let block = Block { content, links: 0, next: std::mem::replace(&mut self.first[content as usize], NONE) };
        let pbn = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(block);
            u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks")
        });
        self.blocks[pbn as usize] = block;
        self.first[content as usize] = pbn;
        pbn
    }

    /// Makes an LBN mean a block, or nothing. Returns the content and number of the block that is free now, if one is.
    pub fn link(&mut self, lbn: u32, pbn: Option<Pbn>) -> Option<(Content, Pbn)> {
        if let Some(pbn) = pbn {
            self.blocks[pbn as usize].links += 1;
        }
        let before = std::mem::replace(&mut self.map[lbn as usize], pbn.unwrap_or(NONE));
        if before == NONE {
            return None;
        }
        let block = &mut self.blocks[before as usize];
        block.links -= 1;
        let content = block.content;
        (block.links == 0).then(|| {
            self.take_out(content, before);
            self.free.push(before);
            (content, before)
        })
    }

    fn take_out(&mut self, content: Content, pbn: Pbn) {
        let next = self.blocks[pbn as usize].next;
        let mut at = self.first[content as usize];
        if at == pbn {
            self.first[content as usize] = next;
            return;
        }
        while self.blocks[at as usize].next != pbn {
            at = self.blocks[at as usize].next;
        }
        self.blocks[at as usize].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_when_its_last_link_is_gone() {
        let mut stored = Stored::new(3, 3);
        let one = stored.store(1);
        assert_eq!((stored.link(0, Some(one)), stored.link(1, Some(one))), (None, None));
        let two = stored.store(1);
        assert_eq!(stored.link(2, Some(two)), None);
        assert_eq!(stored.holders(1).collect::<Vec<_>>(), [two, one]);
        assert_eq!(stored.link(0, None), None, "LBN 1 still means it");
        assert_eq!(stored.link(1, Some(two)), Some((1, one)));
        assert_eq!((stored.holders(1).collect::<Vec<_>>(), stored.used()), (vec![two], 1));
        assert!(!stored.holds(one, 1) && stored.holds(two, 1) && stored.meaning(0).is_none());
        assert_eq!(stored.store(2), one, "a free block is used again");
    }
}
