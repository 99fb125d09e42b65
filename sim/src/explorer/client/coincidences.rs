//! The search for blocks that return to an earlier content while a part of them is being written.

use super::waiting::Waiting;
use crate::ground::content::Shared;
use fastrand::Rng;
use onefold_engine::format::unit::MAGIC;
use std::ops::Range;

/// Looks for blocks that return to an earlier content while a part of them is being written.
#[derive(Default)]
pub(super) struct Coincidences {
    /// The whole blocks that were written since the last pack.
    recent: Vec<u64>,
    /// Whether the last step wrote packs, and the other contents that it wrote.
    has_packed: bool,
    whole: Vec<Shared>,
    /// The blocks that are to be written, with the contents that they are to have.
    tries: Vec<(u64, Shared)>,
    /// The blocks that were overwritten while a part of them was being written; and those of them that are to be read.
    doubted: Vec<u64>,
    to_read: Vec<u64>,
}

impl Coincidences {
    /// Notes that whole blocks are written.
    pub(super) fn writes(&mut self, lbns: Range<u64>) {
        self.recent.extend(lbns);
    }

    /// Lists the whole blocks that were written since the last pack.
    pub(super) fn recent(&self) -> impl Iterator<Item = u64> + '_ {
        self.recent.iter().copied()
    }

    /// Notes that a request is answered.
    pub(super) fn written(&mut self, waiting: &Waiting) {
        if waiting.is_part() && self.doubted.contains(&waiting.lbn()) {
            self.doubted.retain(|&lbn| lbn != waiting.lbn());
            self.to_read.push(waiting.lbn());
        }
    }

    /// Notes that a block of content is being written: a pack, or a client's block.
    pub(super) fn sees(&mut self, content: &Shared) {
        let is_pack = content.bytes().starts_with(&MAGIC);
        self.has_packed |= is_pack;
        self.whole.extend((!is_pack).then(|| content.clone()));
    }

    /// Notes that everything to be written has been written. If there were packs, a partly written block may move, and the blocks written
    /// beside the packs may take its place: the block is to be written so that it has the content of one of them.
    pub(super) fn has_seen<'a>(&mut self, waiting: impl Iterator<Item = &'a Waiting>, rng: &mut Rng) {
        let whole = std::mem::take(&mut self.whole);
        if std::mem::take(&mut self.has_packed) && !whole.is_empty() {
            self.recent.clear();
            for request in waiting.filter(|request| request.is_part()) {
                self.tries.push((request.lbn(), whole[rng.usize(0..whole.len())].clone()));
            }
        }
    }

    /// Returns whether a step has written anything that was not looked at yet.
    pub(super) fn has_news(&self) -> bool {
        !self.whole.is_empty() || self.has_packed
    }

    /// Takes the next block that is to be written, with its content.
    pub(super) fn next_try(&mut self) -> Option<(u64, Shared)> {
        self.tries.pop()
    }

    /// Notes that a block is overwritten while a part of it is being written.
    pub(super) fn doubt(&mut self, lbn: u64) {
        self.doubted.push(lbn);
    }

    /// Takes the next block that is to be read.
    pub(super) fn next_to_read(&mut self) -> Option<u64> {
        self.to_read.pop()
    }
}
