//! The joiner against a slow, obvious one, and its rules one by one.

use super::*;
use crate::observation::{Comm, File, Lifetime, Source};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECTORS: u64 = 64;
pub(super) const PLENTY: usize = 1 << 30;

/// An observation of `process`, in a file whose bytes begin at the disk's byte 0.
fn observation(operation: Operation, process: u32, start: u64) -> Observation {
    let file =
        File { source: Source::PageCache, inode: 12, uid: 0, generation: 5, directory: 2, name: None, offset: Some(start * SECTOR_BYTES) };
    Observation {
        operation,
        meta: false,
        fua: false,
        lifetime: Lifetime::NotSet,
        process,
        comm: Comm::new([0; 16]),
        cgroup: 1,
        file: Some(file),
        at: start * SECTOR_BYTES,
        linear: true,
    }
}

pub(super) fn bio(time: u64, process: u32, start: u64, end: u64) -> Bio {
    Bio { time, start, end, observation: observation(Operation::Write, process, start) }
}

/// Takes a request of whole sectors. Returns for each run its sectors, and the process or the reason why there is none.
fn taken(joiner: &mut Joiner, start: u64, end: u64) -> Vec<(u64, Result<u32, &'static str>)> {
    let runs = joiner.take(Operation::Write, start * SECTOR_BYTES, (end - start) * SECTOR_BYTES, 0, false);
    runs.iter().map(|run| (run.length() / SECTOR_BYTES, found(run))).collect()
}

fn found(run: &crate::Run) -> Result<u32, &'static str> {
    match run.observation() {
        Some(seen) => Ok(seen.process),
        None if run.is_ambiguous() => Err("ambiguous"),
        None => Err("unknown"),
    }
}

#[test]
fn a_bio_that_is_split_is_joined_to_each_of_its_requests_once() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(1, 7, 8, 40));
    assert_eq!(taken(&mut joiner, 16, 24), [(8, Ok(7))]);
    assert_eq!(taken(&mut joiner, 0, 64), [(8, Err("unknown")), (8, Ok(7)), (8, Err("unknown")), (16, Ok(7)), (24, Err("unknown"))]);
    assert_eq!(taken(&mut joiner, 8, 40), [(32, Err("unknown"))]);
    assert_eq!((joiner.pending(), joiner.bytes()), (0, 0));
}

#[test]
fn bios_that_are_merged_are_one_run_if_they_agree() {
    let mut joiner = Joiner::new(PLENTY);
    for start in [8, 0, 16] {
        joiner.insert(bio(1, 7, start, start + 8));
    }
    joiner.insert(bio(1, 8, 24, 32));
    let runs = joiner.take(Operation::Write, 0, 32 * SECTOR_BYTES, 0, false);
    let places: Vec<_> = runs.iter().map(|run| (run.length(), run.file_offset(), found(run))).collect();
    assert_eq!(places, [(12288, Some(0), Ok(7)), (4096, Some(12288), Ok(8))]);
}

#[test]
fn each_run_has_its_own_place_in_the_file() {
    let mut joiner = Joiner::new(PLENTY);
    let mut moved = bio(1, 7, 8, 40);
    moved.observation.file.as_mut().unwrap().offset = Some(1 << 20);
    joiner.insert(moved);
    let runs = joiner.take(Operation::Write, 24 * SECTOR_BYTES, 4096, 0, false);
    assert_eq!(runs.iter().map(crate::Run::file_offset).collect::<Vec<_>>(), [Some((1 << 20) + 16 * SECTOR_BYTES)]);

    let mut scattered = bio(1, 7, 8, 40);
    scattered.observation.linear = false;
    joiner.insert(scattered);
    let runs = joiner.take(Operation::Write, 24 * SECTOR_BYTES, 4096, 0, false);
    assert_eq!(runs.iter().map(|run| (found(run), run.file_offset())).collect::<Vec<_>>(), [(Ok(7), None)]);
}

#[test]
fn two_that_disagree_are_ambiguous_until_none_is_left() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(1, 7, 0, 16));
    joiner.insert(bio(2, 8, 8, 24));
    assert_eq!(taken(&mut joiner, 0, 24), [(8, Ok(7)), (8, Err("ambiguous")), (8, Ok(8))]);
    joiner.insert(bio(3, 8, 8, 16));
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Err("ambiguous"))]);
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Err("ambiguous"))]);
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Err("unknown"))]);
    joiner.insert(bio(4, 8, 8, 16));
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Ok(8))]);
    assert_eq!(joiner.tally().ambiguous_blocks, 3);
}

#[test]
fn two_that_agree_are_used_one_by_one() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(1, 7, 0, 16));
    joiner.insert(bio(2, 7, 8, 16));
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Ok(7))]);
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Ok(7))]);
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Err("unknown"))]);
    assert_eq!(joiner.pending(), 1);
}

#[test]
fn a_discard_and_a_write_of_zeroes_are_one_class_and_a_write_another() {
    let mut joiner = Joiner::new(PLENTY);
    let zeroes = observation(Operation::WriteZeroes, 7, 0);
    joiner.insert(Bio { time: 1, start: 0, end: 8, observation: zeroes });
    assert_eq!(taken(&mut joiner, 0, 8), [(8, Err("unknown"))]);
    let runs = joiner.take(Operation::Discard, 0, 4096, 0, false);
    assert_eq!(runs.iter().map(|run| run.observation().unwrap().operation).collect::<Vec<_>>(), [Operation::WriteZeroes]);
}

#[test]
fn a_block_of_which_two_parts_differ_is_not_known() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(1, 7, 0, 10));
    joiner.insert(bio(1, 8, 10, 12));
    joiner.insert(bio(1, 9, 12, 32));
    assert_eq!(taken(&mut joiner, 0, 32), [(8, Ok(7)), (8, Err("ambiguous")), (16, Ok(9))]);
    joiner.insert(bio(1, 7, 0, 3));
    assert_eq!(taken(&mut joiner, 0, 5), [(5, Err("unknown"))]);
}

#[test]
fn what_waited_for_too_long_is_not_joined_to_the_next_request() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(1, 7, 0, 8));
    joiner.insert(bio(1_000_000_000, 8, 8, 16));
    joiner.expire(WAITS_NS + 2);
    assert_eq!(taken(&mut joiner, 0, 16), [(8, Err("unknown")), (8, Ok(8))]);
    assert_eq!(joiner.tally().expired, 1);
}

#[test]
fn a_loss_forgets_everything() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(1, 7, 0, 8));
    joiner.forget_all();
    assert_eq!(taken(&mut joiner, 0, 8), [(8, Err("unknown"))]);
    assert_eq!((joiner.tally().forgotten, joiner.pending(), joiner.bytes()), (1, 0, 0));
    joiner.insert(bio(2, 8, 0, 8));
    assert_eq!(taken(&mut joiner, 0, 8), [(8, Ok(8))]);
}

#[test]
fn beyond_the_bound_the_oldest_is_forgotten() {
    let mut joiner = Joiner::new(16 << 10);
    for number in 0..1000 {
        joiner.insert(bio(number, 7, number * 8, number * 8 + 8));
        assert!(joiner.bytes() <= 16 << 10, "{} bytes", joiner.bytes());
    }
    let kept = joiner.pending() as u64;
    assert!((20..900).contains(&kept), "{kept}");
    assert_eq!(joiner.tally().forgotten, 1000 - kept);
    assert_eq!(taken(&mut joiner, 0, 8000), [((1000 - kept) * 8, Err("unknown")), (kept * 8, Ok(7))]);
}

#[test]
fn a_request_that_came_before_its_observation_was_visible_has_used_it() {
    let mut joiner = Joiner::new(PLENTY);
    let early = joiner.take(Operation::Write, 0, 16 * SECTOR_BYTES, 100, true);
    assert_eq!(early.iter().map(found).collect::<Vec<_>>(), [Err("unknown")]);
    joiner.insert(bio(99, 7, 4, 12));
    assert_eq!(joiner.pending(), 0);
    // The next write of the same sectors came after the request.
    joiner.insert(bio(101, 8, 0, 16));
    assert_eq!(taken(&mut joiner, 0, 16), [(16, Ok(8))]);
    // Once the reader has caught up, nothing older can turn up.
    joiner.caught_up();
    assert!(joiner.owed.is_empty());
}

/// Two writes of one sector whose requests both came early: the first observation is for the first request only.
#[test]
fn an_observation_is_used_by_one_early_request_only() {
    let mut joiner = Joiner::new(PLENTY);
    for arrived in [100, 200] {
        joiner.take(Operation::Write, 0, 8 * SECTOR_BYTES, arrived, true);
    }
    joiner.insert(bio(99, 7, 0, 8));
    assert_eq!((joiner.pending(), joiner.owed.len()), (0, 1));
    joiner.insert(bio(199, 8, 0, 8));
    assert_eq!((joiner.pending(), joiner.owed.len()), (0, 0));
    joiner.insert(bio(299, 9, 0, 8));
    assert_eq!(taken(&mut joiner, 0, 8), [(8, Ok(9))]);
}

#[test]
fn too_many_early_requests_make_everything_hidden_unknown() {
    let mut joiner = Joiner::new(PLENTY);
    for request in 0..=OWED_MAX as u64 {
        joiner.take(Operation::Write, request * 8192, 4096, 100 + request, true);
    }
    joiner.insert(bio(99, 7, 8, 16));
    assert_eq!((joiner.pending(), joiner.owed.len()), (0, 0));
    joiner.insert(bio(1000, 8, 8, 16));
    assert_eq!(taken(&mut joiner, 8, 16), [(8, Ok(8))]);
}

/// One list of observations for each sector.
#[derive(Default)]
struct Oracle {
    sectors: BTreeMap<(Class, u64), Sector>,
}

#[derive(Default)]
struct Sector {
    /// The time, process and shift of each that waits, the oldest first.
    waiting: Vec<(u64, u32, u64)>,
    is_ambiguous: bool,
}

impl Oracle {
    fn insert(&mut self, class: Class, bio: &Bio, shift: u64) {
        for at in bio.start..bio.end {
            let sector = self.sectors.entry((class, at)).or_default();
            let facts = (bio.time, bio.observation.process, shift);
            sector.is_ambiguous |= sector.waiting.iter().any(|other| (other.1, other.2) != (facts.1, facts.2));
            sector.waiting.push(facts);
        }
    }

    fn take(&mut self, class: Class, at: u64) -> Result<(u32, u64), &'static str> {
        let Some(sector) = self.sectors.get_mut(&(class, at)) else { return Err("unknown") };
        let (_, process, shift) = sector.waiting.remove(0);
        let is_ambiguous = sector.is_ambiguous;
        if sector.waiting.is_empty() {
            self.sectors.remove(&(class, at));
        }
        if is_ambiguous { Err("ambiguous") } else { Ok((process, shift)) }
    }

    fn expire(&mut self, now: u64) {
        self.sectors.retain(|_, sector| {
            sector.waiting.retain(|(time, ..)| time + WAITS_NS >= now);
            !sector.waiting.is_empty()
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Bio { operation: Operation, process: u32, shift: u64, start: u64, length: u64 },
    Request { operation: Operation, start: u64, length: u64 },
    Pass { nanoseconds: u64 },
    Lose,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operation = prop_oneof![3 => Just(Operation::Write), 1 => Just(Operation::Discard), 1 => Just(Operation::WriteZeroes)];
    let place = || (0..SECTORS, 1..SECTORS).prop_map(|(start, length)| (start, length.min(SECTORS - start)));
    let bio = (operation.clone(), 0..3_u32, 0..2_u64, place());
    let step = prop_oneof![
        10 => bio.prop_map(|(operation, process, shift, (start, length))| Step::Bio { operation, process, shift, start, length }),
        10 => (operation, place()).prop_map(|(operation, (start, length))| Step::Request { operation, start, length }),
        2 => (0..WAITS_NS).prop_map(|nanoseconds| Step::Pass { nanoseconds }),
        1 => Just(Step::Lose),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Each sector that is known has what the oracle has; blocks are known exactly if their sectors agree.
    #[test]
    fn it_says_what_a_slow_one_says(steps in steps()) {
        let (mut joiner, mut oracle, mut now) = (Joiner::new(PLENTY), Oracle::default(), WAITS_NS);
        for step in steps {
            match step {
                Step::Bio { operation, process, shift, start, length } => {
                    let mut seen = observation(operation, process, start);
                    seen.file.as_mut().unwrap().offset = Some((start + shift) * SECTOR_BYTES);
                    let bio = Bio { time: now, start, end: start + length, observation: seen };
                    // What differs in its operation differs.
                    let facts = shift * 10 + u64::from(operation == Operation::Discard);
                    oracle.insert(operation.into(), &bio, facts);
                    joiner.insert(bio);
                }
                Step::Request { operation, start, length } => {
                    let runs = joiner.take(operation, start * SECTOR_BYTES, length * SECTOR_BYTES, now, false);
                    check(&runs, start, length, |at| oracle.take(operation.into(), at))?;
                }
                Step::Pass { nanoseconds } => {
                    now += nanoseconds;
                    joiner.expire(now);
                    oracle.expire(now);
                }
                Step::Lose => {
                    joiner.forget_all();
                    oracle.sectors.clear();
                }
            }
            prop_assert_eq!(joiner.pending() == 0, oracle.sectors.is_empty());
        }
        joiner.expire(u64::MAX);
        prop_assert_eq!((joiner.pending(), joiner.bytes(), joiner.waiting.len()), (0, 0, 0));
    }

    /// Whatever happens, memory stays within its bound.
    #[test]
    fn memory_is_bounded(steps in steps()) {
        let mut joiner = Joiner::new(4 << 10);
        for step in steps {
            match step {
                Step::Bio { operation, process, start, length, .. } => {
                    let observation = observation(operation, process, start);
                    joiner.insert(Bio { time: 0, start, end: start + length, observation });
                }
                Step::Request { operation, start, length } => {
                    joiner.take(operation, start * SECTOR_BYTES, length * SECTOR_BYTES, 0, false);
                }
                Step::Pass { .. } | Step::Lose => joiner.expire(0),
            }
            prop_assert!(joiner.bytes() <= 4 << 10, "{} bytes", joiner.bytes());
        }
    }
}

fn check(
    runs: &Runs,
    start: u64,
    length: u64,
    mut expected: impl FnMut(u64) -> Result<(u32, u64), &'static str>,
) -> Result<(), TestCaseError> {
    let expected: Vec<_> = (start..start + length).map(|at| (at, expected(at))).collect();
    let mut at = start;
    for run in runs.iter() {
        prop_assert_eq!(run.offset(), at * SECTOR_BYTES, "runs follow each other");
        let end = at + run.length() / SECTOR_BYTES;
        prop_assert!(end == start + length || end % 8 == 0, "a run ends at a block's border");
        for sector in at..end {
            let in_block: Vec<_> = expected.iter().filter(|(other, _)| other / 8 == sector / 8).map(|(_, facts)| facts).collect();
            let agree = in_block.iter().all(|facts| *facts == in_block[0]);
            match run.observation() {
                Some(seen) => {
                    let place = run.file_offset().expect("it has a file") + (sector - at) * SECTOR_BYTES;
                    let shift = place / SECTOR_BYTES - sector;
                    let facts = shift * 10 + u64::from(seen.operation == Operation::Discard);
                    prop_assert!(agree);
                    prop_assert_eq!(*in_block[0], Ok((seen.process, facts)));
                }
                None => prop_assert!(!agree || in_block[0].is_err(), "sector {} is known: {:?}", sector, in_block),
            }
        }
        at = end;
    }
    prop_assert_eq!(at, start + length, "runs cover the request");
    Ok(())
}

/// A request that passed before a server looked requests up has left its observation, which is none of the next one.
#[test]
fn bios_from_before_the_beginning_are_not_joined() {
    let mut joiner = Joiner::new(PLENTY);
    joiner.insert(bio(10, 7, 0, 8));
    joiner.begin_at(20);
    joiner.insert(bio(15, 8, 0, 8));
    joiner.insert(bio(21, 9, 0, 8));
    assert_eq!(taken(&mut joiner, 0, 8), [(8, Ok(9))]);
    assert_eq!(joiner.pending(), 0);
}
