//! The contents whose fingerprints are in memory, for policies that keep them one by one.

use super::stored::Pbn;
use super::writes::Content;

const NONE: Pbn = Pbn::MAX;

/// The block in memory for each content.
#[derive(Debug)]
pub struct Known {
    blocks: Vec<Pbn>,
    used: u64,
}

impl Known {
    /// Knows none of this many contents.
    #[must_use]
    pub fn new(contents: u32) -> Self {
        Self { blocks: vec![NONE; contents as usize], used: 0 }
    }

    /// Returns the number of fingerprints in memory.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.used
    }

    /// Returns whether no fingerprint is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the block with a content.
    #[must_use]
    pub fn get(&self, content: Content) -> Option<Pbn> {
        Some(self.blocks[content as usize]).filter(|&pbn| pbn != NONE)
    }

    /// Makes this the block with a content.
    pub fn put(&mut self, content: Content, pbn: Pbn) {
        let before = std::mem::replace(&mut self.blocks[content as usize], pbn);
        self.used += u64::from(before == NONE);
    }

    /// Takes a content out.
    pub fn take(&mut self, content: Content) -> Option<Pbn> {
        let pbn = self.get(content)?;
        self.blocks[content as usize] = NONE;
        self.used -= 1;
        Some(pbn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_counted_once() {
        let mut known = Known::new(3);
        known.put(1, 7);
        known.put(1, 8);
        known.put(2, 0);
        assert_eq!((known.len(), known.get(1), known.get(2), known.get(0)), (2, Some(8), Some(0), None));
        assert_eq!((known.take(1), known.take(1), known.len()), (Some(8), None, 1));
    }
}
