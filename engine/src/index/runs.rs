//! Runs of duplicates: the last ones, and the LBNs that have them. A copy is mostly written in the order of what it copies, so the block
//! after a duplicate's may hold what the next LBN gets, and its fingerprint is on the page that was just read. An index with room for few
//! fingerprints finds one block of a copy, and the rest follows.
//!
//! 1. It is advice, as the index is: the fingerprint table says whether a block has the content.
//! 2. A few LBNs that have other content do not end a run: a copy may be a later version of the file. Nor do a few blocks: between those of
//!    a file there are units of the log, and of its duplicates there are none.
//! 3. Requests come in another order than they were sent, and blocks of one request wait for reads while others go on. So a run goes back,
//!    too, and it goes on at once with a block that has to be read to be confirmed.
//! 4. What was written in another order, or was packed, lies near all the same. So whole pages around the likeliest block are searched.

use crate::format::page::Region;
use crate::units::{Lbn, Pbn};

/// The runs that are remembered.
const RUNS: usize = 8;
/// A run goes on at most this number of LBNs after its last duplicate, and this number of blocks further than that.
const GAP_MAX: u64 = 8;
const FURTHER_MAX: u64 = 8;
/// It goes back at most this number of LBNs, and of blocks.
const BACK_MAX: u64 = 256;
/// Pages that are searched behind that of the last duplicate: packs of a file lie in groups with free blocks between them.
const PAGES_BEHIND: u64 = 2;
/// Runs whose pages are searched, of those that may go on with an LBN.
const SEARCHED: usize = 2;

/// The last duplicate of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Duplicate {
    lbn: Lbn,
    pbn: Pbn,
    is_doubtful: bool,
}

impl Duplicate {
    /// Whether the run may go on with that LBN.
    fn reaches(self, lbn: Lbn) -> bool {
        lbn.0 <= self.lbn.0 + GAP_MAX && lbn.0 + BACK_MAX >= self.lbn.0
    }

    /// Whether the run goes on with that duplicate.
    fn goes_on(self, lbn: Lbn, pbn: Pbn) -> bool {
        let further = lbn.0.saturating_sub(self.lbn.0) + FURTHER_MAX;
        self.reaches(lbn) && pbn.0 <= self.pbn.0 + further && pbn.0 + BACK_MAX >= self.pbn.0
    }

    /// The block that has the content of an LBN if both go on without gaps.
    fn likeliest(self, lbn: Lbn) -> Pbn {
        Pbn((self.pbn.0 + lbn.0).saturating_sub(self.lbn.0))
    }

    /// The blocks that may hold the content of an LBN: the likeliest one, this block itself, which may have it in a slot, and those around.
    fn candidates(self, lbn: Lbn) -> impl Iterator<Item = Pbn> + use<> {
        let likeliest = self.likeliest(lbn);
        let further = likeliest.0 + 1..=likeliest.0 + FURTHER_MAX;
        let skipped = self.pbn.0 + 1..likeliest.0;
        [likeliest, self.pbn].into_iter().chain(further.chain(skipped).filter(move |_| lbn > self.lbn).map(Pbn))
    }

    /// A block of each page that may have the content of an LBN.
    fn pages(self, lbn: Lbn) -> impl Iterator<Item = Pbn> + use<> {
        let a_page = Region::Fingerprints.entries_per_page();
        let mut last = None;
        let behind = (0..=PAGES_BEHIND).map(move |page| self.pbn + page * a_page);
        [self.likeliest(lbn)].into_iter().chain(behind).filter(move |pbn| last.replace(pbn.0 / a_page) != Some(pbn.0 / a_page))
    }
}

/// The last runs of duplicates, the most recent first.
#[derive(Default)]
pub(crate) struct Runs([Option<Duplicate>; RUNS]);

impl Runs {
    fn reaching(&self, lbn: Lbn) -> impl Iterator<Item = Duplicate> + use<> {
        self.0.into_iter().flatten().filter(move |last| last.reaches(lbn))
    }

    /// The blocks that may hold the content of this LBN, the likeliest one first.
    pub fn candidates(&self, lbn: Lbn) -> impl Iterator<Item = Pbn> + use<> {
        self.reaching(lbn).flat_map(move |last| last.candidates(lbn))
    }

    /// A block of each page that may have the content of this LBN.
    pub fn pages(&self, lbn: Lbn) -> impl Iterator<Item = Pbn> + use<> {
        self.reaching(lbn).take(SEARCHED).flat_map(move |last| last.pages(lbn))
    }

    /// The run that goes on with this duplicate.
    fn run_of(&self, lbn: Lbn, pbn: Pbn) -> Option<usize> {
        self.0.iter().position(|last| last.is_some_and(|last| last.goes_on(lbn, pbn)))
    }

    /// Whether the run that goes on with this duplicate is one of doubtful blocks; if none does, one that may have led to it.
    pub fn are_doubtful(&self, lbn: Lbn, pbn: Pbn) -> bool {
        match self.run_of(lbn, pbn).and_then(|at| self.0[at]) {
            Some(last) => last.is_doubtful,
            None => self.reaching(lbn).any(|last| last.is_doubtful),
        }
    }

    /// Notes a duplicate: it goes on with a run, or begins one.
    pub fn note(&mut self, lbn: Lbn, pbn: Pbn, is_doubtful: bool) {
        let known = self.run_of(lbn, pbn);
        let at = known.unwrap_or(RUNS - 1);
        self.0[..=at].rotate_right(1);
        // The next LBNs go on from its farthest one.
        if known.is_none() || self.0[0].is_none_or(|last| lbn >= last.lbn) {
            self.0[0] = Some(Duplicate { lbn, pbn, is_doubtful });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(runs: &Runs, lbn: u64) -> Vec<u64> {
        runs.candidates(Lbn(lbn)).map(|pbn| pbn.0).collect()
    }

    #[test]
    fn a_run_goes_on_behind_its_last_duplicate() {
        let mut runs = Runs::default();
        assert_eq!(candidates(&runs, 1), []);
        runs.note(Lbn(100), Pbn(7), false);
        assert_eq!(candidates(&runs, 101), [[8, 7].as_slice(), &(9..=16).collect::<Vec<_>>()].concat());
        assert_eq!(candidates(&runs, 103)[..2], [10, 7], "after two LBNs of other content");
        assert_eq!(candidates(&runs, 103)[10..], [8, 9]);
        assert!(candidates(&runs, 109).is_empty());
        runs.note(Lbn(101), Pbn(8), true);
        assert_eq!((candidates(&runs, 102)[..2].to_vec(), runs.0.iter().flatten().count()), (vec![9, 8], 1));
        assert!(runs.are_doubtful(Lbn(102), Pbn(9)) && !runs.are_doubtful(Lbn(120), Pbn(9)));
    }

    #[test]
    fn a_run_goes_back_and_then_on_from_its_farthest_duplicate() {
        let mut runs = Runs::default();
        runs.note(Lbn(1000), Pbn(700), false);
        assert_eq!((candidates(&runs, 1000)[0], candidates(&runs, 990)), (700, vec![690, 700]));
        assert!(candidates(&runs, 1000 - BACK_MAX - 1).is_empty());
        runs.note(Lbn(990), Pbn(690), true);
        assert_eq!(candidates(&runs, 1001)[0], 701);
        assert_eq!(runs.0.iter().flatten().count(), 1);
        runs.note(Lbn(10), Pbn(3), false);
        assert_eq!(candidates(&runs, 4), [0, 3], "no block is before the first one");
    }

    #[test]
    fn pages_around_are_searched_each_once() {
        let mut runs = Runs::default();
        let pages = |runs: &Runs, lbn| runs.pages(Lbn(lbn)).map(|pbn| pbn.0 / Region::Fingerprints.entries_per_page()).collect::<Vec<_>>();
        runs.note(Lbn(1000), Pbn(1999), false);
        assert_eq!(pages(&runs, 1001), [10, 9, 10, 11]);
        assert_eq!(pages(&runs, 990), [9, 10, 11]);
        assert_eq!(pages(&runs, 800), [8, 9, 10, 11]);
    }

    /// A commit's packs and its other blocks lie in different places.
    #[test]
    fn runs_may_take_turns() {
        let mut runs = Runs::default();
        for n in 0..10 {
            runs.note(Lbn(10 * n + 1), Pbn(n + 100), n % 2 == 0);
            runs.note(Lbn(10 * n + 4), Pbn(n + 500), n % 2 == 1);
            let next = candidates(&runs, 10 * n + 6);
            assert!(next.contains(&(n + 101)) && next.contains(&(n + 501)), "{next:?}");
            assert_eq!(runs.are_doubtful(Lbn(10 * n + 6), Pbn(n + 101)), n % 2 == 0);
        }
    }

    #[test]
    fn several_runs_go_on_side_by_side_and_the_one_that_rests_longest_is_forgotten() {
        let mut runs = Runs::default();
        let run = |n: usize| n as u64 * 1000;
        (0..RUNS).for_each(|n| runs.note(Lbn(run(n)), Pbn(run(n)), false));
        runs.note(Lbn(run(0) + 1), Pbn(run(0) + 1), false);
        runs.note(Lbn(run(RUNS)), Pbn(run(RUNS)), false);
        assert_eq!(candidates(&runs, run(1) + 1), []);
        assert_eq!(candidates(&runs, run(0) + 2)[..2], [2, 1]);
        assert_eq!(candidates(&runs, run(RUNS) + 1)[..2], [run(RUNS) + 1, run(RUNS)]);
    }
}
