//! The content that a forecast assumes where none was seen, and the sizes that were not measured: requests that come at once are alike.

use onefold_engine::units::index;
use onefold_trace::record::{Block, ContentName, Op, Record};

/// The weight of a block in the share of blocks that are found: the last hundred or so count.
const WEIGHT: f64 = 1.0 / 128.0;

/// The last content that was seen.
#[derive(Default)]
pub(super) struct Likeness {
    /// The last size that was measured.
    size: Option<u16>,
    /// The last content that is stored.
    content: Option<ContentName>,
    /// The share of the last blocks that a volume has found: duplicates, zeros, and blocks that did not change.
    found: f64,
    /// The blocks that should have been found so far, less those that were.
    owed: f64,
}

/// The blocks of a record, by what is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub seen: u64,
    /// Those that were not seen, and are taken for what is stored.
    pub found: u64,
}

impl Likeness {
    /// Fills in what is not known of a record's blocks. A size that was not measured is that of the block before. Content that was not seen
    /// is taken for what is stored as often as a volume has found what came before it, and otherwise for new.
    pub fn fill_in(&mut self, record: &mut Record) -> Filled {
        let mut filled = Filled::default();
        if record.blocks.is_empty() && record.op == Op::Write {
            record.blocks = vec![Block::named(ContentName::Unknown); index(record.blocks_touched())];
        }
        for block in &mut record.blocks {
            match block.name {
                // Zeros take no place, so their size says nothing of others.
                ContentName::Zero => filled.seen += 1,
                ContentName::Of(_) => {
                    filled.seen += 1;
                    self.size = block.compressed.or(self.size);
                    (block.compressed, self.content) = (self.size, Some(block.name));
                }
                ContentName::Unknown => {
                    self.owed += self.found;
                    block.compressed = self.size;
                    if let (true, Some(stored)) = (self.owed >= 1.0, self.content) {
                        self.owed -= 1.0;
                        filled.found += 1;
                        block.name = stored;
                    }
                }
            }
        }
        filled
    }

    /// Learns how many of a record's blocks a volume has found.
    pub fn learn(&mut self, filled: Filled, found: u64) {
        if filled.seen > 0 {
            let share = found.saturating_sub(filled.found).min(filled.seen) as f64 / filled.seen as f64;
            self.found += (share - self.found) * (filled.seen as f64 * WEIGHT).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::{BLOCK_BYTES, Bytes};

    fn write(blocks: Vec<Block>) -> Record {
        let length = Bytes(blocks.len() as u64 * BLOCK_BYTES);
        Record { blocks, ..Record::new(0, Op::Write, Bytes(0), length) }
    }

    fn named(name: u8, compressed: Option<u16>) -> Block {
        Block { name: if name == 0 { ContentName::Zero } else { ContentName::Of([name; 20]) }, compressed }
    }

    #[test]
    fn a_size_that_is_not_known_is_the_last_one_but_of_zeros() {
        let mut likeness = Likeness::default();
        let mut sizes_of = |blocks: &[(u8, Option<u16>)]| {
            let mut record = write(blocks.iter().map(|&(name, size)| named(name, size)).collect());
            likeness.fill_in(&mut record);
            record.blocks.into_iter().map(|block| block.compressed).collect::<Vec<_>>()
        };
        assert_eq!(sizes_of(&[(1, None), (0, Some(64)), (2, None)]), [None, Some(64), None]);
        assert_eq!(sizes_of(&[(3, Some(1000)), (4, None), (0, Some(64)), (5, None)]), [1000, 1000, 64, 1000].map(Some));
        assert_eq!(sizes_of(&[(6, None), (7, Some(4096)), (8, None)]), [1000, 4096, 4096].map(Some));
    }

    #[test]
    fn content_that_was_not_seen_is_found_as_often_as_what_was_seen() {
        let mut likeness = Likeness::default();
        let unseen = |likeness: &mut Likeness, blocks: u64| {
            let mut record = Record::new(0, Op::Write, Bytes(0), Bytes(blocks * BLOCK_BYTES));
            let filled = likeness.fill_in(&mut record);
            assert_eq!((filled.seen, record.blocks.len() as u64), (0, blocks));
            let stored = record.blocks.iter().filter(|block| block.name != ContentName::Unknown).count() as u64;
            assert_eq!(stored, filled.found);
            likeness.learn(filled, filled.found);
            filled.found
        };
        assert_eq!(unseen(&mut likeness, 10), 0, "nothing is known yet");
        let seen = |likeness: &mut Likeness, found| {
            let filled = likeness.fill_in(&mut write(vec![named(1, Some(500)); 128]));
            assert_eq!(filled, Filled { seen: 128, found: 0 });
            likeness.learn(filled, found);
        };
        seen(&mut likeness, 0);
        assert_eq!(unseen(&mut likeness, 100), 0, "all before was new");
        seen(&mut likeness, 64);
        assert_eq!(unseen(&mut likeness, 100), 50, "a half was found");
        seen(&mut likeness, 128);
        assert_eq!(unseen(&mut likeness, 100), 100, "all was found");
    }
}
