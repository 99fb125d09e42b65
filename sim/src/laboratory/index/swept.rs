//! Onefold's policy: the engine's own index in memory, and the fingerprint table as its level on the medium (decision 0098).
//!
//! 1. Nothing moves to the medium: the table has every fingerprint anyway. The work out of line reads it from the first to the last block
//!    that was ever used, once for each batch, and keeps the block with the least number.
//! 2. A block that goes on with a run of duplicates is found if it has the content, or if its page has it: that was just read.
//! 3. No page of the table counts as being in memory already.

use super::interface::{Index, IndexIo, Skipped};
use super::stored::{Pbn, Stored};
use super::writes::{Content, fingerprint};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::index::Index as InMemory;
use onefold_engine::units::{Lbn, Pbn as Block};

/// Entries of the table in a unit.
pub const ENTRIES_A_UNIT: u64 = 200;

/// Reads the table, if any blocks are to be found: returns the first other block with the content of each, and the units read.
#[must_use]
pub fn sweep(skipped: &[Skipped], stored: &Stored) -> (Vec<Option<Pbn>>, u64) {
    let first = |one: &Skipped| stored.holders(one.content).min().filter(|&pbn| pbn != one.pbn);
    let read = if skipped.is_empty() { 0 } else { stored.ever_used().div_ceil(ENTRIES_A_UNIT) };
    (skipped.iter().map(first).collect(), read)
}

/// The index.
pub struct Swept {
    memory: InMemory,
    io: IndexIo,
}

/// A fingerprint whose parts are as independent as those of a digest.
fn name(content: Content) -> Fingerprint {
    let first = fingerprint(content);
    let second = first.wrapping_mul(0xd6e8_feb8_6659_fd93);
    Fingerprint::of_digest(&[first.to_le_bytes(), (second ^ second >> 32).to_le_bytes()].concat())
}

fn block(pbn: Pbn) -> Block {
    Block(u64::from(pbn))
}

fn pbn(block: Block) -> Pbn {
    Pbn::try_from(block.0).expect("a block of the laboratory")
}

impl Swept {
    /// Makes an empty index for a volume of at most this many blocks.
    #[must_use]
    pub fn new(bytes: u64, blocks: u64) -> Self {
        let mut memory = InMemory::new(bytes, blocks);
        memory.rebuild_ended(true);
        Self { memory, io: IndexIo::default() }
    }
}

impl Index for Swept {
    fn look_up(&mut self, content: Content, lbn: u32, stored: &Stored) -> Option<Pbn> {
        let (fp, at) = (name(content), Lbn(u64::from(lbn)));
        let mut memory = |nth| self.memory.look_up(&fp, nth).expect("its level in memory always has its answer");
        let named: Vec<Block> = (0..).map_while(&mut memory).collect();
        let following = self.memory.following(at, &fp);
        let holds = |block: &Block| Pbn::try_from(block.0).is_ok_and(|pbn| stored.holds(pbn, content));
        let beside = |near: Block| {
            let first = near.0 / ENTRIES_A_UNIT * ENTRIES_A_UNIT;
            (first..first + ENTRIES_A_UNIT).map(Block)
        };
        let is_whole = following.is_none();
        let others = self.memory.pages_around(at).filter(|_| !is_whole).flat_map(beside);
        let found = named.into_iter().chain(following.into_iter().flatten()).chain(others).find(holds)?;
        self.memory.note_duplicate(at, found, &fp);
        Some(pbn(found))
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        self.memory.insert(&name(content), block(pbn));
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        self.memory.remove(&name(content), block(pbn));
    }

    fn is_whole_for(&self, content: Content) -> bool {
        self.memory.is_whole_for(&name(content))
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        let (found, read) = sweep(skipped, stored);
        self.io.looked_up += read;
        for (one, pbn) in skipped.iter().zip(&found) {
            if let &Some(pbn) = pbn {
                self.insert(one.content, pbn, one.lbn, stored);
            }
        }
        found
    }

    fn io(&self) -> IndexIo {
        self.io
    }

    fn resident(&self) -> u64 {
        self.memory.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores these contents in LBNs 0, 1, 2 and so on, and tells the index of each.
    fn stored(index: &mut Swept, contents: &[Content]) -> Stored {
        let mut stored = Stored::new(10_000, 10_000);
        for (lbn, &content) in (0..).zip(contents) {
            let pbn = stored.store(content);
            stored.link(lbn, Some(pbn));
            index.insert(content, pbn, lbn, &stored);
        }
        stored
    }

    #[test]
    fn what_has_left_memory_is_found_as_the_run_goes_on() {
        let mut index = Swept::new(0, 10_000);
        let contents: Vec<Content> = (1..1000).collect();
        let stored = stored(&mut index, &contents);
        let held = contents.iter().filter(|&&content| index.memory.look_up(&name(content), 0).unwrap().is_some()).count();
        assert_eq!(held, 12, "these have room");
        let from = contents.iter().position(|&content| index.memory.look_up(&name(content), 0).unwrap().is_some()).unwrap();
        assert!(from < 990, "{from}");
        for (lbn, &content) in (5000..).zip(&contents[from..]) {
            assert_eq!(index.look_up(content, lbn, &stored), Some(content - 1));
        }
        assert!(!index.is_whole_for(contents[0]), "it has lost entries");
    }

    #[test]
    fn a_sweep_reads_the_table_and_keeps_the_first_block() {
        let mut index = Swept::new(0, 10_000);
        let stored = stored(&mut index, &[5, 6, 5]);
        let skipped =
            [Skipped { lbn: 2, pbn: 2, content: 5 }, Skipped { lbn: 0, pbn: 0, content: 5 }, Skipped { lbn: 1, pbn: 1, content: 6 }];
        assert_eq!(index.find_out_of_line(&skipped, &stored), [Some(0), None, None]);
        assert_eq!(index.io(), IndexIo { looked_up: 1, ..IndexIo::default() });
        assert_eq!(index.look_up(5, 9, &stored), Some(0), "and what is found is in memory");
    }
}
