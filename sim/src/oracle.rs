//! The plain model of what clients may see: each LBN's versions, and a floor below which none may come back.
//!
//! 1. Every client operation on a block makes a version, in the order in which the operations were sent.
//! 2. A read sees every write acknowledged before it was sent; it may see later ones.
//! 3. The floor is raised by an acknowledged flush (to what was acknowledged before the flush was sent), by an acknowledged FUA or strong
//!    operation, and after a recovery by what a read returned (P7). After a cut any version from the floor on may be there (P1), no other (P2).
//! 4. An operation that failed may have been done or not; so each version is a set of contents, almost always of one.

use crate::content::{Content, Shared};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What an operation does to one block.
#[derive(Clone, Debug)]
pub enum Patch {
    Whole(Shared),
    Part { at: usize, bytes: Arc<[u8]> },
}

impl Patch {
    fn apply(&self, before: &Shared) -> Shared {
        match self {
            Self::Whole(content) => content.clone(),
            Self::Part { at, bytes } => before.patched(*at, bytes),
        }
    }
}

#[derive(Clone, Debug)]
struct Version {
    contents: Vec<Shared>,
    patch: Patch,
    /// Whether it was done, or will be once it is acknowledged.
    certain: bool,
}

/// One block's versions; `first` is the number of the oldest that is kept.
#[derive(Clone, Debug)]
struct History {
    versions: Vec<Version>,
    first: u64,
    /// The number of the oldest version that may come back after a cut.
    floor: u64,
    /// The number of the newest acknowledged version.
    acknowledged: u64,
}

impl History {
    fn of(content: Shared) -> Self {
        let version = Version { contents: vec![content.clone()], patch: Patch::Whole(content), certain: true };
        Self { versions: vec![version], first: 0, floor: 0, acknowledged: 0 }
    }

    fn last(&self) -> u64 {
        self.first + self.versions.len() as u64 - 1
    }

    fn since(&self, number: u64) -> impl Iterator<Item = &Shared> {
        let skip = usize::try_from(number.saturating_sub(self.first)).expect("few versions");
        self.versions[skip..].iter().flat_map(|v| &v.contents)
    }

    fn contents_of(&self, at: usize) -> Vec<Shared> {
        let version = &self.versions[at];
        let before: &[Shared] = if at == 0 { &[] } else { &self.versions[at - 1].contents };
        let mut contents: Vec<Shared> = match &version.patch {
            Patch::Whole(content) => vec![content.clone()],
            part => before.iter().map(|c| part.apply(c)).collect(),
        };
        if !version.certain {
            contents.extend(before.iter().cloned());
        }
        distinct(&mut contents);
        contents
    }

    /// Forgets what no cut and no read can bring back.
    fn prune(&mut self) {
        let keep = self.floor.min(self.acknowledged);
        let gone = usize::try_from(keep.saturating_sub(self.first)).expect("few versions");
        if gone > 0 {
            self.versions.drain(..gone);
            self.first = keep;
            // The oldest that is left stands on nothing any more: what it holds is all that is known.
            let oldest = &mut self.versions[0];
            oldest.certain = true;
        }
    }
}

fn distinct(contents: &mut Vec<Shared>) {
    contents.sort_by_key(|c| c.id());
    contents.dedup_by_key(|c| c.id());
}

/// One version of one block: what an operation is remembered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub lbn: u64,
    number: u64,
}

/// The model of a whole volume.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// What the blocks held in the prepared volume; beyond its end, zeros.
    base: Arc<Vec<Shared>>,
    blocks: FxHashMap<u64, History>,
}

impl Oracle {
    /// The model of a volume that holds `base`, durably, and zeros after it.
    #[must_use]
    pub fn new(base: Vec<Shared>) -> Self {
        Self { base: Arc::new(base), blocks: FxHashMap::default() }
    }

    fn base(&self, lbn: u64) -> Shared {
        usize::try_from(lbn).ok().and_then(|i| self.base.get(i)).cloned().unwrap_or_else(Content::zero)
    }

    fn history(&mut self, lbn: u64) -> &mut History {
        let base = self.base(lbn);
        self.blocks.entry(lbn).or_insert_with(|| History::of(base))
    }

    /// An operation on a block is sent. `certain` is false where it need not do anything even when it succeeds (part of a block in a discard).
    pub fn send(&mut self, lbn: u64, patch: Patch, certain: bool) -> Mark {
        let history = self.history(lbn);
        history.versions.push(Version { contents: Vec::new(), patch, certain });
        let at = history.versions.len() - 1;
        history.versions[at].contents = history.contents_of(at);
        Mark { lbn, number: history.last() }
    }

    /// It was acknowledged.
    pub fn acknowledge(&mut self, mark: Mark) {
        let history = self.history(mark.lbn);
        history.acknowledged = history.acknowledged.max(mark.number);
        history.prune();
    }

    /// It failed: it may have been done or not, and so may what was sent after it have found it done or not.
    pub fn fail(&mut self, mark: Mark) {
        let history = self.history(mark.lbn);
        let Some(at) = mark.number.checked_sub(history.first) else { return };
        let at = usize::try_from(at).expect("few versions");
        if at == 0 {
            return; // Later ones are acknowledged and durable: it is covered.
        }
        history.versions[at].certain = false;
        for i in at..history.versions.len() {
            history.versions[i].contents = history.contents_of(i);
        }
    }

    /// A version is durable by a promise: none older may come back.
    pub fn raise(&mut self, mark: Mark) {
        let history = self.history(mark.lbn);
        history.floor = history.floor.max(mark.number);
        history.acknowledged = history.acknowledged.max(mark.number);
        history.prune();
    }

    /// What a flush sent now promises once it is acknowledged.
    #[must_use]
    pub fn promised_by_flush(&self) -> Vec<Mark> {
        let raised = self.blocks.iter().filter(|(_, h)| h.acknowledged > h.floor);
        let mut marks: Vec<Mark> = raised.map(|(&lbn, h)| Mark { lbn, number: h.acknowledged }).collect();
        marks.sort_by_key(|m| m.lbn);
        marks
    }

    /// What a read sent now must at least see of a block.
    #[must_use]
    pub fn acknowledged(&self, lbn: u64) -> Mark {
        Mark { lbn, number: self.blocks.get(&lbn).map_or(0, |h| h.acknowledged) }
    }

    /// Whether a read of bytes `at..at + found.len()` of a block may find this, when it was sent at `since`.
    #[must_use]
    pub fn may_read(&self, since: Mark, at: usize, found: &[u8]) -> bool {
        let same = |c: &Shared| &c.bytes()[at..at + found.len()] == found;
        match self.blocks.get(&since.lbn) {
            Some(history) => history.since(since.number).any(same),
            None => same(&self.base(since.lbn)),
        }
    }

    /// Whether a cut may leave this content in a block.
    #[must_use]
    pub fn may_survive(&self, lbn: u64, id: u64) -> bool {
        match self.blocks.get(&lbn) {
            Some(history) => history.since(history.floor).any(|c| c.id() == id),
            None => usize::try_from(lbn).ok().and_then(|i| self.base.get(i)).map_or_else(|| Content::zero().id(), |c| c.id()) == id,
        }
    }

    /// Whether the block ever held this, as far as is remembered: to tell P1 from P2.
    #[must_use]
    pub fn remembers(&self, lbn: u64, id: u64) -> bool {
        self.blocks.get(&lbn).is_some_and(|h| h.since(h.first).any(|c| c.id() == id)) || self.base(lbn).id() == id
    }

    /// The server went away: what is there now is some version from the floor on, and who comes next will see which.
    pub fn reopen(&mut self) {
        for history in self.blocks.values_mut() {
            let mut contents: Vec<Shared> = history.since(history.floor).cloned().collect();
            distinct(&mut contents);
            let number = history.last() + 1;
            history.versions = vec![Version { patch: Patch::Whole(contents[0].clone()), contents, certain: true }];
            (history.first, history.floor, history.acknowledged) = (number, number, number);
        }
    }

    /// A read of a block that nobody has written since the recovery found this: from here on that is what it holds (P7).
    pub fn learn(&mut self, lbn: u64, at: usize, found: &[u8]) {
        let Some(history) = self.blocks.get_mut(&lbn) else { return };
        if let [only] = history.versions.as_mut_slice() {
            if only.contents.len() > 1 {
                only.contents.retain(|c| &c.bytes()[at..at + found.len()] == found);
            }
        }
    }

    /// Whether a block was zeros in the prepared volume, and nothing has been sent to it since.
    #[must_use]
    pub fn is_untouched_zero(&self, lbn: u64) -> bool {
        !self.blocks.contains_key(&lbn) && self.base(lbn).id() == Content::zero().id()
    }

    /// The blocks that have been written, in order.
    #[must_use]
    pub fn touched(&self) -> Vec<u64> {
        let mut lbns: Vec<u64> = self.blocks.keys().copied().collect();
        lbns.sort_unstable();
        lbns
    }

    /// What a block may hold after a cut, in words.
    #[must_use]
    pub fn describe(&self, lbn: u64) -> String {
        match self.blocks.get(&lbn) {
            Some(history) => format!("{:?}", history.since(history.floor).collect::<Vec<_>>()),
            None => format!("[{:?}]", self.base(lbn)),
        }
    }

    /// What a block holds if nothing is in doubt.
    #[must_use]
    pub fn newest(&self, lbn: u64) -> Shared {
        match self.blocks.get(&lbn) {
            Some(history) => history.versions.last().and_then(|v| v.contents.first()).cloned().expect("a version"),
            None => self.base(lbn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::pattern;

    fn whole(label: &str) -> Patch {
        Patch::Whole(pattern(label))
    }

    fn survives(oracle: &Oracle, label: &str) -> bool {
        oracle.may_survive(3, pattern(label).id())
    }

    #[test]
    fn a_flush_promises_what_was_acknowledged_before_it_was_sent() {
        let mut oracle = Oracle::new(Vec::new());
        let a = oracle.send(3, whole("a"), true);
        oracle.acknowledge(a);
        let promise = oracle.promised_by_flush();
        let b = oracle.send(3, whole("b"), true);
        oracle.acknowledge(b);
        assert!(oracle.may_survive(3, Content::zero().id()), "nothing is promised yet");
        promise.into_iter().for_each(|m| oracle.raise(m));
        assert!(survives(&oracle, "a") && survives(&oracle, "b") && !oracle.may_survive(3, Content::zero().id()));
    }

    #[test]
    fn a_read_sees_what_was_acknowledged_before_it() {
        let mut oracle = Oracle::new(vec![pattern("z"); 4]);
        let a = oracle.send(3, whole("a"), true);
        let before = oracle.acknowledged(3);
        assert!(oracle.may_read(before, 0, pattern("z").bytes()) && oracle.may_read(before, 0, pattern("a").bytes()));
        oracle.acknowledge(a);
        let after = oracle.acknowledged(3);
        assert!(!oracle.may_read(after, 512, &pattern("z").bytes()[512..1024]) && oracle.may_read(after, 0, pattern("a").bytes()));
        assert!(survives(&oracle, "z"), "an acknowledgement alone promises no survival");
    }

    #[test]
    fn a_part_stands_on_the_version_before() {
        let mut oracle = Oracle::new(Vec::new());
        oracle.send(3, whole("a"), true);
        let part = oracle.send(3, Patch::Part { at: 512, bytes: pattern("b").bytes()[512..1024].into() }, true);
        let mixed = pattern("a").patched(512, &pattern("b").bytes()[512..1024]);
        oracle.raise(part);
        assert!(oracle.may_survive(3, mixed.id()) && !survives(&oracle, "a"));
    }

    #[test]
    fn a_failed_operation_may_have_been_done_or_not() {
        let mut oracle = Oracle::new(vec![pattern("z"); 4]);
        let a = oracle.send(3, whole("a"), true);
        let part = oracle.send(3, Patch::Part { at: 0, bytes: [7; 512].into() }, true);
        oracle.fail(a);
        oracle.acknowledge(part);
        oracle.raise(part);
        for label in ["a", "z"] {
            assert!(oracle.may_survive(3, pattern(label).patched(0, &[7; 512]).id()));
        }
        assert!(!survives(&oracle, "a"));
    }

    #[test]
    fn what_was_read_after_a_recovery_stays() {
        let mut oracle = Oracle::new(vec![pattern("z"); 4]);
        oracle.send(3, whole("a"), true);
        oracle.reopen();
        assert!(survives(&oracle, "a") && survives(&oracle, "z"));
        oracle.learn(3, 0, pattern("a").bytes());
        assert!(survives(&oracle, "a") && !survives(&oracle, "z"));
    }
}
