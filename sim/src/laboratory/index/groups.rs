//! SmartDedup's index (section 3.2): a prefix tree of groups, of which the least recently matched one leaves memory as a whole.
//!
//! 1. A match brings its group to the front; so does the first fingerprint of a new group.
//! 2. A fingerprint takes 28 bytes (MD5, a PBN, a pointer of the sorted list), and a leaf of the tree 12: an address in memory and one on
//!    the medium. With 40 MB and 18 bits that gives the paper's 1.3 million fingerprints.
//! 3. The prefix has 14 bits at 3 MB and 18 at 40 MB, as in the paper, and in proportion at other sizes.

use super::interface::{Index, IndexIo, Skipped};
use super::recency::Recency;
use super::stored::{Pbn, Stored};
use super::table::Table;
use super::writes::Content;
use rustc_hash::FxHashMap;

const ENTRY_BYTES: u64 = 28;
const LEAF_BYTES: u64 = 12;
/// The bytes of memory for which there is a leaf.
const LEAF_SHARE_BYTES: u64 = 160;

/// Returns the number of fingerprints that these bytes have room for, and the bits of the prefix.
#[must_use]
pub fn room(bytes: u64) -> (u64, u32) {
    let prefix_bits = (bytes / LEAF_SHARE_BYTES).max(2).ilog2().min(18);
    ((bytes.saturating_sub(LEAF_BYTES << prefix_bits) / ENTRY_BYTES).max(1), prefix_bits)
}

/// Returns for each that was skipped another block with its content: that in memory, or one whose fingerprint is on the medium. They are
/// looked up in the order of their groups, so that a group is read once for all of them: a rival may sort what waits, as Onefold does.
pub fn find_all(
    in_memory: impl Fn(&Table, Content) -> Option<Pbn>,
    table: &mut Table,
    skipped: &[Skipped],
    stored: &Stored,
) -> Vec<Option<Pbn>> {
    let mut order: Vec<usize> = (0..skipped.len()).collect();
    order.sort_by_key(|&at| table.group(skipped[at].content));
    let (mut found, mut read) = (vec![None; skipped.len()], None);
    for at in order {
        let one = &skipped[at];
        let other = in_memory(table, one.content).filter(|&pbn| pbn != one.pbn && stored.holds(pbn, one.content));
        found[at] = other.or_else(|| table.find(one.content, one.pbn, stored, &mut read));
    }
    found
}

/// The index.
#[derive(Debug)]
pub struct Groups {
    entries_max: u64,
    used: u64,
    groups: Vec<FxHashMap<Content, Pbn>>,
    order: Recency,
    table: Table,
}

impl Groups {
    /// Makes an empty index.
    #[must_use]
    pub fn new(bytes: u64, blocks: u64) -> Self {
        let (entries_max, prefix_bits) = room(bytes);
        let groups = vec![FxHashMap::default(); 1 << prefix_bits];
        Self { entries_max, used: 0, groups, order: Recency::new(1 << prefix_bits), table: Table::new(prefix_bits, blocks) }
    }
}

impl Index for Groups {
    fn look_up(&mut self, content: Content, _lbn: u32, _stored: &Stored) -> Option<Pbn> {
        let group = self.table.group(content);
        let pbn = *self.groups[group].get(&content)?;
        self.order.touch(number(group));
        Some(pbn)
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        while self.used >= self.entries_max {
            let oldest = self.order.pop().expect("an index that is full has a group");
            let gone = std::mem::take(&mut self.groups[oldest as usize]);
            self.used -= gone.len() as u64;
            self.table.merge(oldest as usize, gone.into_values());
        }
        let group = self.table.group(content);
        if self.groups[group].is_empty() {
            self.order.touch(number(group));
        }
        self.used += u64::from(self.groups[group].insert(content, pbn).is_none());
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        let group = self.table.group(content);
        if self.groups[group].get(&content) == Some(&pbn) {
            self.groups[group].remove(&content);
            self.used -= 1;
            if self.groups[group].is_empty() {
                self.order.remove(number(group));
            }
        }
        self.table.remove(content, pbn);
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        let in_memory = |table: &Table, content: Content| self.groups[table.group(content)].get(&content).copied();
        find_all(in_memory, &mut self.table, skipped, stored)
    }

    fn io(&self) -> IndexIo {
        self.table.io
    }

    fn resident(&self) -> u64 {
        self.used
    }
}

fn number(group: usize) -> u32 {
    u32::try_from(group).expect("at most 2^18 groups")
}
