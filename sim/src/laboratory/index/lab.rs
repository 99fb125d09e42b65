//! One policy over the writes of a trace.

use super::adapting::{Adapt, Selection};
use super::interface::{Index, IndexIo, Skipped};
use super::policy::Policy;
use super::stored::Stored;
use super::writes::{Content, Writes, ZEROS};
use serde::{Deserialize, Serialize};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub policy: Policy,
    /// The bytes for fingerprints in memory.
    pub index_bytes: u64,
    /// The number of requests within which an active stream has sent one, for the policies with parts.
    pub active: u64,
    /// The work out of line begins when it has this many blocks. 0: there is none.
    pub batch: usize,
    /// The reason for which writes are deferred.
    pub adapt: Adapt,
}

/// The duplicates that were found, and at what cost.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Writes of blocks that are not zeros.
    pub writes: u64,
    /// Those that got their fingerprint at once.
    pub fingerprinted: u64,
    /// Those that were linked to a stored block at once.
    pub inline: u64,
    /// Blocks that were freed later.
    pub out_of_line: u64,
    pub io: IndexIo,
    /// The most fingerprints in memory, and the most blocks in use.
    pub resident_max: u64,
    pub stored_max: u64,
}

/// Returns a part of a whole, and 0 of nothing.
#[must_use]
pub fn share(part: u64, whole: u64) -> f64 {
    // Counts of a trace are far below 2^52.
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

struct Run {
    index: Box<dyn Index>,
    stored: Stored,
    /// Blocks for the work out of line, if there is any.
    skipped: Option<Vec<Skipped>>,
    selection: Selection,
    found: Found,
}

/// Runs a policy over all writes.
#[must_use]
pub fn run(writes: &Writes, plan: Plan) -> Found {
    let blocks = u64::from(writes.lbns) + plan.batch as u64 + 1;
    let index = plan.policy.index(plan.index_bytes, blocks, writes.contents, plan.active);
    let stored = Stored::new(writes.lbns, writes.contents);
    let selection = Selection::new(plan.adapt, writes.list.len() as u64);
    let mut run = Run { index, stored, skipped: (plan.batch > 0).then(Vec::new), selection, found: Found::default() };
    for (write, &stream) in writes.list.iter().zip(&writes.streams) {
        if write.is_first() {
            run.index.request_of(stream);
        }
        run.write(write.lbn, write.content(), write.is_first());
        if run.skipped.as_ref().is_some_and(|skipped| skipped.len() >= plan.batch) {
            run.work_off();
        }
    }
    run.work_off();
    run.found.io = run.index.io();
    run.found
}

impl Run {
    fn write(&mut self, lbn: u32, content: Content, is_first: bool) {
        if content == ZEROS {
            self.link(lbn, None);
            return;
        }
        self.found.writes += 1;
        let is_selected = self.selection.selects();
        self.found.fingerprinted += u64::from(is_selected);
        let takes = is_selected && self.index.takes(content, is_first);
        let known = if takes { self.index.look_up(content, lbn, &self.stored) } else { None };
        if let Some(pbn) = known.filter(|&pbn| self.stored.holds(pbn, content)) {
            self.found.inline += 1;
            self.selection.note(Some(true));
            self.link(lbn, Some(pbn));
            self.index.linked(content, lbn);
            return;
        }
        self.selection.note(is_selected.then_some(false));
        let pbn = self.stored.store(content);
        self.link(lbn, Some(pbn));
        if takes {
            self.index.insert(content, pbn, lbn, &self.stored);
        }
        let is_sought = !takes || !self.index.is_whole_for(content);
        if let Some(skipped) = self.skipped.as_mut().filter(|_| is_sought) {
            skipped.push(Skipped { lbn, pbn, content });
        }
        self.found.resident_max = self.found.resident_max.max(self.index.resident());
        self.found.stored_max = self.found.stored_max.max(self.stored.used() as u64);
    }

    fn link(&mut self, lbn: u32, pbn: Option<u32>) {
        if let Some((content, free)) = self.stored.link(lbn, pbn) {
            self.index.remove(content, free);
        }
    }

    /// Does the work out of line for the blocks that LBNs still mean.
    fn work_off(&mut self) {
        let stored = &self.stored;
        let Some(mut skipped) = self.skipped.as_mut().map(std::mem::take) else { return };
        skipped.retain(|one| stored.meaning(one.lbn) == Some(one.pbn) && stored.holds(one.pbn, one.content));
        let found = self.index.find_out_of_line(&skipped, stored);
        for (one, other) in skipped.iter().zip(found) {
            let Some(other) = other.filter(|&other| self.stored.holds(other, one.content)) else { continue };
            if self.stored.meaning(one.lbn) != Some(one.pbn) {
                continue;
            }
            let before = self.stored.used();
            self.link(one.lbn, Some(other));
            self.found.out_of_line += (before - self.stored.used()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::{BLOCK_BYTES, Bytes};
    use onefold_trace::header::Unit;
    use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};

    /// Requests of one block each: (LBN, content), where content 0 is zeros.
    fn writes(list: &[(u64, u8)]) -> Writes {
        let record = |&(lbn, content): &(u64, u8)| {
            let name = if content == 0 { ContentName::Zero } else { ContentName::Of([content; NAME_BYTES_MAX]) };
            let mut record = Record::new(0, Op::Write, Bytes(lbn * BLOCK_BYTES), Bytes(BLOCK_BYTES));
            record.blocks = vec![Block::named(name)];
            record
        };
        Writes::of(list.iter().map(record), Unit::Block).expect("well-formed")
    }

    fn found(list: &[(u64, u8)], policy: Policy, index_bytes: u64, batch: usize) -> (u64, u64) {
        let found = run(&writes(list), Plan { policy, index_bytes, active: 1, batch, adapt: Adapt::Never });
        (found.inline, found.out_of_line)
    }

    #[test]
    fn with_room_for_everything_every_policy_but_a_sampling_one_finds_all() {
        let list = [(0, 1), (1, 1), (2, 2), (3, 0), (4, 0), (0, 3), (1, 3), (5, 1), (6, 2)];
        for policy in Policy::all() {
            let expected = match policy {
                // Of a content, the first write is not fingerprinted.
                Policy::Caftl => 0,
                _ => 3,
            };
            assert_eq!(found(&list, policy, 1 << 20, 0), (expected, 0), "{}", policy.name());
        }
    }

    #[test]
    fn what_left_memory_is_found_out_of_line() {
        // Room for one fingerprint: content 1 has left when it comes again.
        let list = [(0, 1), (1, 2), (2, 1), (3, 2)];
        let tiny = 28 + 2 * 12;
        for policy in [Policy::GLru, Policy::Lru] {
            assert_eq!(found(&list, policy, tiny, 2), (0, 2), "{}", policy.name());
            assert_eq!(found(&list, policy, tiny, 0), (0, 0), "{}: nothing is in line", policy.name());
        }
        assert_eq!(found(&list, Policy::BTree, 35, 2), (0, 0), "it has no second level");
    }

    #[test]
    fn overwritten_before_its_turn_is_not_found() {
        let list = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)];
        assert_eq!(found(&list, Policy::GLru, 28 + 2 * 12, 100), (0, 0));
    }
}
