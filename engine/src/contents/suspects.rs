//! Suspects: blocks whose content was found damaged. Writes do not link to them, nor does the work out of line.
//!
//! 1. The entry of a suspect on its fingerprint page shows that it is one
//!    ([`FingerprintEntry::suspect`](crate::format::FingerprintEntry::suspect)), so the next server does not link to it either. The entry
//!    counts as before, and still shows what the block should hold.
//! 2. Each find has a number. It is *kept* when the entry of its block is durable.
//! 3. Whoever learns of damage can rely on 1 from then on, whatever happens next: a request is refused only when the find is kept. Where
//!    the store has no room for longer than writes wait, the request is refused before; the find is kept when there is room.
//! 4. A block that is allocated anew is no suspect any more: its content is another.

use crate::format::page::PageId;
use crate::schedule::Task;
use crate::units::Pbn;
use std::collections::BTreeSet;

/// The blocks that were found damaged since the volume was opened.
#[derive(Default)]
pub(crate) struct Suspects {
    blocks: BTreeSet<Pbn>,
    /// Those whose entries have to be changed.
    unmarked: BTreeSet<Pbn>,
    /// Pages with changed entries that are not on the medium yet.
    pub pages: BTreeSet<PageId>,
    /// The number of the last find, and of the last one that is kept.
    found: u64,
    kept: u64,
    /// The tasks that go on when another find is kept.
    waiting: Vec<Task>,
}

impl Suspects {
    pub fn contains(&self, pbn: Pbn) -> bool {
        self.blocks.contains(&pbn)
    }

    /// Notes that a block was found damaged. Returns whether its entry has to be changed.
    pub fn find(&mut self, pbn: Pbn) -> bool {
        let is_new = self.blocks.insert(pbn);
        if is_new {
            self.unmarked.insert(pbn);
            self.found += 1;
        }
        is_new
    }

    /// Notes that a block was allocated anew.
    pub fn forget(&mut self, pbn: Pbn) {
        // Each new block is forgotten, and most volumes have no suspect.
        if !self.blocks.is_empty() {
            self.blocks.remove(&pbn);
        }
    }

    /// Those of now, in order.
    pub fn all(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.blocks.iter().copied()
    }

    /// The number of the last find.
    pub fn last_find(&self) -> u64 {
        self.found
    }

    /// Whether this find, and all before it, are kept.
    pub fn are_kept_upto(&self, find: u64) -> bool {
        self.kept >= find
    }

    /// Whether all finds are kept.
    pub fn are_kept(&self) -> bool {
        self.kept == self.found
    }

    /// The blocks whose entries have to be changed, and the number of the last find; none if there is no such block.
    pub fn take_unmarked(&mut self) -> Option<(BTreeSet<Pbn>, u64)> {
        let unmarked = std::mem::take(&mut self.unmarked);
        (!unmarked.is_empty()).then_some((unmarked, self.found))
    }

    /// Notes that this find, and all before it, are kept. Returns the tasks that waited.
    pub fn keep(&mut self, find: u64) -> Vec<Task> {
        self.kept = self.kept.max(find);
        self.end_waiting()
    }

    /// Has a task go on when another find is kept.
    pub fn wait(&mut self, task: Task) {
        if !self.waiting.contains(&task) {
            self.waiting.push(task);
        }
    }

    /// Returns the tasks that waited.
    pub fn end_waiting(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.waiting)
    }
}
