//! The plain model of what clients may see: the versions of each LBN, and a floor below which none may return.
//!
//! 1. Every client operation on a block makes a version. Operations that were under way together may have been done in either order; an
//!    operation that was acknowledged before another was sent came before it.
//! 2. A read sees every write acknowledged before it was sent; it may see later ones.
//! 3. The floor is raised by an acknowledged flush (to what was acknowledged before the flush was sent), by an acknowledged FUA or strong
//!    operation, and after a recovery by what a read returned (P7). After a power loss any version from the floor on may be there (P1), no
//!    other (P2).
//! 4. An operation that failed may or may not have been done.

use crate::ground::content::{Content, Shared};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The largest number of operations on one block that may be under way together: each doubles the states to keep.
pub const TOGETHER_MAX: usize = 4;
/// The largest number of contents that one block may have before it has to be written as a whole.
const STATES_MAX: usize = 24;

/// The effect of an operation on one block.
#[derive(Clone, Debug)]
pub enum Patch {
    Whole(Shared),
    Part { at: usize, bytes: Arc<[u8]> },
    Nothing,
}

impl Patch {
    fn apply(&self, before: &Shared) -> Shared {
        match self {
            Self::Whole(content) => content.clone(),
            Self::Part { at, bytes } => before.patched(*at, bytes),
            Self::Nothing => before.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct Operation {
    patch: Patch,
    /// Whether it was done, or will be once it is acknowledged.
    certain: bool,
    /// The operations of its group that were acknowledged before it was sent.
    after: u32,
    replied: bool,
}

/// Operations that overlap in time, and the contents after each set of them.
#[derive(Clone, Debug)]
struct Group {
    operations: Vec<Operation>,
    /// Sets of operations that may have been done, as bits, each with a content that they leave. The first set is empty.
    states: Vec<(u32, Shared)>,
}

impl Group {
    fn of(base: Vec<Shared>) -> Self {
        Self { operations: Vec::new(), states: base.into_iter().map(|c| (0, c)).collect() }
    }

    fn all(&self) -> u32 {
        (1 << self.operations.len()) - 1
    }

    fn is_over(&self) -> bool {
        self.operations.iter().all(|o| o.replied)
    }

    fn enumerate(&mut self) {
        self.states.retain(|(set, _)| *set == 0);
        for set in 1..=self.all() {
            let mut contents = Vec::new();
            for (i, operation) in self.operations.iter().enumerate() {
                let before = set & !(1 << i);
                if before == set || operation.after & before != operation.after {
                    continue;
                }
                for content in self.states.iter().filter(|(s, _)| *s == before).map(|(_, c)| c) {
                    contents.push(operation.patch.apply(content));
                    if !operation.certain {
                        contents.push(content.clone());
                    }
                }
            }
            distinct(&mut contents);
            self.states.extend(contents.into_iter().map(|c| (set, c)));
        }
    }

    fn with(&self, set: u32) -> impl Iterator<Item = &Shared> {
        self.states.iter().filter(move |(s, _)| s & set == set).map(|(_, c)| c)
    }
}

fn distinct(contents: &mut Vec<Shared>) {
    contents.sort_by_key(|c| c.id());
    contents.dedup_by_key(|c| c.id());
}

/// A point in a block's history: a group, and the operations of it that have been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point {
    group: u64,
    set: u32,
}

impl Point {
    /// Returns the later point, which includes both.
    fn and(self, other: Self) -> Self {
        match self.group.cmp(&other.group) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Equal => Self { group: self.group, set: self.set | other.set },
        }
    }
}

/// The groups of one block; `first` is the number of the oldest that is kept.
#[derive(Clone, Debug)]
struct History {
    groups: Vec<Group>,
    first: u64,
    /// The point that is certain to survive a power loss.
    floor: Point,
    /// The point that has been acknowledged.
    acknowledged: Point,
}

impl History {
    fn of(content: Shared) -> Self {
        Self { groups: vec![Group::of(vec![content])], first: 0, floor: Point::default(), acknowledged: Point::default() }
    }

    fn last(&self) -> u64 {
        self.first + self.groups.len() as u64 - 1
    }

    fn since(&self, point: Point) -> impl Iterator<Item = &Shared> {
        let skip = usize::try_from(point.group.saturating_sub(self.first)).expect("few groups");
        let set = if point.group < self.first { 0 } else { point.set };
        self.groups[skip..].iter().enumerate().flat_map(move |(i, group)| group.with(if i == 0 { set } else { 0 }))
    }

    /// Forgets what no power loss and no read can bring back.
    fn prune(&mut self) {
        let gone = usize::try_from(self.floor.group.saturating_sub(self.first)).expect("few groups");
        self.groups.drain(..gone);
        self.first += gone as u64;
    }
}

/// One operation on one block, or what a read must at least see of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub lbn: u64,
    point: Point,
    /// For a read: the group and its number of operations, if all of them had been answered when the read was sent.
    settled: Option<(u64, usize)>,
}

/// The model of a whole volume.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// The content of the blocks in the prepared volume; zeros beyond its end.
    base: Arc<Vec<Shared>>,
    blocks: FxHashMap<u64, History>,
    /// The number of reads under way, which may still find what no power loss can bring back any more.
    reads: u32,
    /// Everything that each block ever held, if that is remembered; and whether any of it may return.
    ever: Option<FxHashMap<u64, Vec<Shared>>>,
    forgives: bool,
    /// Everything that each block held recently, if that is remembered.
    late: Option<FxHashMap<u64, Vec<Shared>>>,
}

impl Oracle {
    /// Makes the model of a volume that durably holds `base`, and zeros after it.
    #[must_use]
    pub fn new(base: Vec<Shared>) -> Self {
        Self { base: Arc::new(base), blocks: FxHashMap::default(), reads: 0, ever: None, forgives: false, late: None }
    }

    fn base(&self, lbn: u64) -> Shared {
        usize::try_from(lbn).ok().and_then(|i| self.base.get(i)).cloned().unwrap_or_else(Content::zero)
    }

    fn history(&mut self, lbn: u64) -> &mut History {
        let base = &self.base;
        self.blocks
            .entry(lbn)
            .or_insert_with(|| History::of(usize::try_from(lbn).ok().and_then(|i| base.get(i)).cloned().unwrap_or_else(Content::zero)))
    }

    /// Returns whether one more operation on a block may be sent now ([`TOGETHER_MAX`]).
    #[must_use]
    pub fn has_room(&self, lbn: u64) -> bool {
        self.last_group(lbn).is_none_or(|g| g.is_over() || g.states.len() <= STATES_MAX && g.operations.len() < TOGETHER_MAX)
    }

    /// Returns the number of operations on a block that are under way together.
    #[must_use]
    pub fn together(&self, lbn: u64) -> usize {
        self.last_group(lbn).filter(|g| !g.is_over()).map_or(0, |g| g.operations.len())
    }

    /// Returns whether a block, with nothing under way for it, may have too many contents, so that only a write of the whole block makes it
    /// simple again.
    #[must_use]
    pub fn is_tangled(&self, lbn: u64) -> bool {
        self.last_group(lbn).is_some_and(|g| g.is_over() && g.states.len() > STATES_MAX)
    }

    fn last_group(&self, lbn: u64) -> Option<&Group> {
        self.blocks.get(&lbn).and_then(|h| h.groups.last())
    }

    /// Notes that an operation on a block is sent. `certain` is false if it need not do anything even when it succeeds (a discard of a part
    /// of a block).
    pub fn send(&mut self, lbn: u64, patch: Patch, certain: bool) -> Mark {
        let history = self.history(lbn);
        let last = history.groups.last().expect("a group");
        if last.is_over() {
            let mut base: Vec<Shared> = last.with(last.all()).cloned().collect();
            distinct(&mut base);
            history.groups.push(Group::of(base));
        }
        let number = history.last();
        let acknowledged = if history.acknowledged.group == number { history.acknowledged.set } else { 0 };
        let group = history.groups.last_mut().expect("a group");
        let bit = group.operations.len();
        group.operations.push(Operation { patch, certain, after: acknowledged, replied: false });
        group.enumerate();
        self.note_versions(lbn);
        Mark { lbn, point: Point { group: number, set: 1 << bit }, settled: None }
    }

    fn operation(&mut self, mark: Mark) -> Option<(&mut Group, usize)> {
        let history = self.blocks.get_mut(&mark.lbn)?;
        let at = usize::try_from(mark.point.group.checked_sub(history.first)?).expect("few groups");
        Some((&mut history.groups[at], usize::try_from(mark.point.set.trailing_zeros()).expect("a bit")))
    }

    /// Notes that an operation was acknowledged.
    pub fn acknowledge(&mut self, mark: Mark) {
        if let Some((group, i)) = self.operation(mark) {
            group.operations[i].replied = true;
        }
        let history = self.history(mark.lbn);
        history.acknowledged = history.acknowledged.and(mark.point);
    }

    /// Notes that an operation was refused: it has not been done, and never will be.
    pub fn refuse(&mut self, mark: Mark) {
        if let Some((group, i)) = self.operation(mark) {
            group.operations[i].replied = true;
            group.operations[i].patch = Patch::Nothing;
            group.enumerate();
        }
        // A last group in which nothing was done is equivalent to the one before: the refusals of a full volume add nothing.
        let history = self.history(mark.lbn);
        let points = [history.acknowledged, history.floor].map(|p| p.group);
        let idle = |g: &Group| g.operations.iter().all(|o| o.replied && matches!(o.patch, Patch::Nothing));
        let (is_last, is_relied_on) = (mark.point.group == history.last(), points.contains(&mark.point.group));
        if history.groups.len() > 1 && is_last && !is_relied_on && history.groups.last().is_some_and(idle) {
            history.groups.pop();
        }
    }

    /// Notes that an operation failed: it may or may not have been done.
    pub fn fail(&mut self, mark: Mark) {
        if let Some((group, i)) = self.operation(mark) {
            group.operations[i].replied = true;
            group.operations[i].certain = false;
            group.enumerate();
        }
    }

    /// Raises the floor to a version that is promised to be durable: none older may return.
    pub fn raise(&mut self, mark: Mark) {
        let keep = self.reads > 0;
        let history = self.history(mark.lbn);
        history.floor = history.floor.and(mark.point);
        if !keep {
            history.prune();
        }
    }

    /// Notes that a read is sent.
    pub fn begin_read(&mut self) {
        self.reads += 1;
    }

    /// Notes that a read is answered.
    pub fn end_read(&mut self) {
        self.reads -= 1;
    }

    /// Returns the versions that a flush sent now makes durable once it is acknowledged.
    #[must_use]
    pub fn promised_by_flush(&self) -> Vec<Mark> {
        let raised = self.blocks.iter().filter(|(_, h)| h.acknowledged != h.floor);
        let mut marks: Vec<Mark> = raised.map(|(&lbn, h)| Mark { lbn, point: h.acknowledged, settled: None }).collect();
        marks.sort_by_key(|m| m.lbn);
        marks
    }

    /// Returns what a read sent now must at least see of a block.
    #[must_use]
    pub fn acknowledged(&self, lbn: u64) -> Mark {
        let Some(history) = self.blocks.get(&lbn) else { return Mark { lbn, point: Point::default(), settled: None } };
        let last = history.groups.last().expect("a group");
        Mark { lbn, point: history.acknowledged, settled: last.is_over().then(|| (history.last(), last.operations.len())) }
    }

    /// Returns whether a read of bytes `at..at + found.len()` of a block may find this if it was sent at `since`.
    #[must_use]
    pub fn may_read(&self, since: Mark, at: usize, found: &[u8]) -> bool {
        let same = |c: &Shared| &c.bytes()[at..at + found.len()] == found;
        let former = self.ever.as_ref().filter(|_| self.forgives).and_then(|ever| ever.get(&since.lbn));
        if former.is_some_and(|former| former.iter().any(same)) {
            return true;
        }
        match self.blocks.get(&since.lbn) {
            Some(history) => history.since(since.point).any(same),
            None => same(&self.base(since.lbn)),
        }
    }

    /// Begins to remember everything that each block ever held.
    pub fn remember_all(&mut self) {
        self.ever = Some(FxHashMap::default());
        self.note_all();
    }

    /// Begins to remember what each block holds from now on.
    pub fn remember_late(&mut self) {
        self.late = Some(FxHashMap::default());
        self.note_all();
    }

    fn note_all(&mut self) {
        let blocks: Vec<u64> = self.blocks.keys().copied().collect();
        blocks.into_iter().for_each(|lbn| self.note_versions(lbn));
    }

    fn note_versions(&mut self, lbn: u64) {
        for known in [&mut self.ever, &mut self.late].into_iter().flatten() {
            let known = known.entry(lbn).or_default();
            known.extend(self.blocks.get(&lbn).into_iter().flat_map(|history| history.since(Point::default())).cloned());
            distinct(known);
        }
    }

    /// Allows that acknowledged data are lost by damage that was reported: any content that a block itself ever held may return, and no
    /// other.
    pub fn forgive(&mut self) {
        self.forgives = self.ever.is_some();
    }

    /// Returns whether a power loss may leave this content in a block.
    #[must_use]
    pub fn may_survive(&self, lbn: u64, id: u64) -> bool {
        match self.blocks.get(&lbn) {
            Some(history) => history.since(history.floor).any(|c| c.id() == id),
            None => usize::try_from(lbn).ok().and_then(|i| self.base.get(i)).map_or_else(|| Content::zero().id(), |c| c.id()) == id,
        }
    }

    /// Returns whether the block ever held this, as far as is remembered: this distinguishes P1 from P2.
    #[must_use]
    pub fn remembers(&self, lbn: u64, id: u64) -> bool {
        self.blocks.get(&lbn).is_some_and(|h| h.since(Point::default()).any(|c| c.id() == id)) || self.base(lbn).id() == id
    }

    /// Notes that the server went away: each block now holds some version from the floor on, and the next reads show which.
    pub fn reopen(&mut self) {
        self.reopen_with(|_| &[]);
    }

    /// Does the same, but allows that recent writes are lost: any content of that time may be there.
    pub fn reopen_rotten(&mut self) {
        let late = self.late.take().unwrap_or_default();
        self.reopen_with(|lbn| late.get(&lbn).map_or(&[], Vec::as_slice));
    }

    fn reopen_with<'a>(&mut self, further: impl Fn(u64) -> &'a [Shared]) {
        self.reads = 0;
        for (&lbn, history) in &mut self.blocks {
            let mut contents: Vec<Shared> = history.since(history.floor).chain(further(lbn)).cloned().collect();
            distinct(&mut contents);
            let point = Point { group: history.last() + 1, set: 0 };
            *history = History { groups: vec![Group::of(contents)], first: point.group, floor: point, acknowledged: point };
        }
    }

    /// Returns what each block may hold if nothing acknowledged is lost.
    #[must_use]
    pub fn after_acknowledged(&self) -> Vec<(u64, Vec<Shared>)> {
        let mut all: Vec<(u64, Vec<Shared>)> =
            self.blocks.iter().map(|(&lbn, h)| (lbn, h.since(h.acknowledged).cloned().collect())).collect();
        all.sort_by_key(|(lbn, _)| *lbn);
        all
    }

    /// Restricts what a block could hold when it was opened to these contents. Returns false if a read has found that it holds none of
    /// them.
    pub fn narrow(&mut self, lbn: u64, contents: &[Shared]) -> bool {
        let Some(history) = self.blocks.get_mut(&lbn) else { return true };
        let mut base: Vec<Shared> = Vec::new();
        for group in &mut history.groups {
            let first = group.operations.is_empty() && base.is_empty();
            if first {
                group.states.retain(|(_, c)| contents.iter().any(|e| e.id() == c.id()));
            } else {
                group.states = base.into_iter().map(|c| (0, c)).collect();
                group.enumerate();
            }
            base = group.with(group.all()).cloned().collect();
            distinct(&mut base);
            if base.is_empty() {
                return false;
            }
        }
        true
    }

    /// Learns from a read. If nobody wrote to the block during the read, the block now holds this; and if nobody has written it since a
    /// recovery, it keeps holding it (P7).
    pub fn learn(&mut self, since: Mark, at: usize, found: &[u8]) {
        let Some(history) = self.blocks.get_mut(&since.lbn) else { return };
        let number = history.last();
        let last = history.groups.last_mut().expect("a group");
        if since.settled == Some((number, last.operations.len())) {
            let all = last.all();
            last.states.retain(|(set, c)| *set != all || &c.bytes()[at..at + found.len()] == found);
        }
    }

    /// Returns whether a block was zeros in the prepared volume, and nothing has been sent to it since.
    #[must_use]
    pub fn is_untouched_zero(&self, lbn: u64) -> bool {
        !self.blocks.contains_key(&lbn) && self.base(lbn).id() == Content::zero().id()
    }

    /// Returns the largest number of blocks that the written data can need: one for each LBN that is not certain to be zeros.
    #[must_use]
    pub fn blocks_at_most(&self) -> u64 {
        let zero = Content::zero().id();
        let fixed = (0..).zip(self.base.iter()).filter(|(lbn, c)| c.id() != zero && !self.blocks.contains_key(lbn)).count();
        let used = self.blocks.values().filter(|h| h.since(Point::default()).any(|c| c.id() != zero)).count();
        (fixed + used) as u64
    }

    /// Lists the blocks that may hold something other than zeros, or must not hold zeros.
    #[must_use]
    pub fn not_zero(&self) -> Vec<u64> {
        let zero = Content::zero().id();
        let fixed = (0..).zip(self.base.iter()).filter(|(lbn, c)| c.id() != zero && !self.blocks.contains_key(lbn)).map(|(lbn, _)| lbn);
        let mut lbns: Vec<u64> = self.blocks.keys().copied().chain(fixed).collect();
        lbns.sort_unstable();
        lbns
    }

    /// Describes what a block may hold after a power loss.
    #[must_use]
    pub fn describe(&self, lbn: u64) -> String {
        match self.blocks.get(&lbn) {
            Some(history) => format!("{:?}", history.since(history.floor).collect::<Vec<_>>()),
            None => format!("[{:?}]", self.base(lbn)),
        }
    }

    /// Returns what a block holds if nothing is uncertain.
    #[must_use]
    pub fn newest(&self, lbn: u64) -> Shared {
        match self.blocks.get(&lbn) {
            Some(history) => history.groups.last().and_then(|g| g.states.last()).map(|(_, c)| c.clone()).expect("a state"),
            None => self.base(lbn),
        }
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
