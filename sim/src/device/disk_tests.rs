//! Tests that the device follows A1 to A5, and that each freedom that they leave occurs.

use super::*;
use crate::ground::content::pattern;

fn io(n: u64) -> IoId {
    IoId(n)
}

fn ids<'a>(contents: impl Iterator<Item = &'a Shared>) -> Vec<u64> {
    contents.map(|c| c.id()).collect()
}

/// Makes a disk on which block 1 durably holds `a`.
fn disk_with_a() -> SimDisk {
    let mut disk = SimDisk::new(40);
    disk.write(io(1), 1, &[pattern("a")]).unwrap();
    disk.finish(io(1), IoOutcome::Done);
    disk.flush(io(2));
    assert_eq!(disk.finish(io(2), IoOutcome::Done), [1]);
    disk
}

#[test]
fn a_flush_covers_what_completed_before_its_issue() {
    let mut disk = disk_with_a();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    disk.flush(io(4));
    disk.finish(io(3), IoOutcome::Done);
    assert!(disk.finish(io(4), IoOutcome::Done).is_empty(), "the write completed after the flush was issued");
    assert_eq!(ids(disk.cell(1).possible()), [pattern("a").id(), pattern("b").id()]);
    disk.flush(io(5));
    assert_eq!(disk.finish(io(5), IoOutcome::Done), [1]);
    assert_eq!(disk.cell(1).settled().map(|c| c.id()), Some(pattern("b").id()));
}

#[test]
fn a_cut_takes_each_sector_from_any_version() {
    let mut disk = disk_with_a();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    let torn = disk.cut(&vec![(1, [0, 1, 0, 0, 0, 0, 0, 1])]);
    let content = torn.cell(1).settled().expect("a cut decides");
    assert_eq!(content.sector(0), pattern("a").sector(0));
    assert_eq!(content.sector(1), pattern("b").sector(1));
    assert_eq!(content.sector(7), pattern("b").sector(7));
    assert_eq!(disk.cut(&Vec::new()).cell(1).durable().id(), pattern("a").id());
    assert_eq!(disk.cell(1).sources(), 2, "the original is as it was");
}

#[test]
fn the_media_name_follows_the_durable_metadata() {
    let mut disk = disk_with_a();
    disk.name_metadata(0..4);
    let before = disk.media();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    assert_eq!(disk.media(), before);
    let new = disk.cut(&vec![(1, [1; 8])]);
    assert_ne!(new.media(), before);
    disk.finish(io(3), IoOutcome::Done);
    disk.flush(io(4));
    disk.finish(io(4), IoOutcome::Done);
    assert_eq!(disk.media(), new.media());
}

#[test]
fn two_in_flight_on_a_block_break_r6() {
    let mut disk = disk_with_a();
    disk.write(io(3), 0, &[pattern("b"), pattern("b")]).unwrap();
    assert!(disk.write(io(4), 1, &[pattern("c")]).unwrap_err().0.starts_with("R6"));
    assert!(disk.discard(io(5), 0, 1).unwrap_err().0.starts_with("R6"));
    assert!(disk.write(io(6), 39, &[pattern("c"), pattern("c")]).is_err(), "beyond the end");
}

#[test]
fn a_discard_may_leave_old_or_zeros_until_a_write_is_durable() {
    let mut disk = disk_with_a();
    disk.discard(io(3), 1, 1).unwrap();
    disk.finish(io(3), IoOutcome::Done);
    disk.flush(io(4));
    disk.finish(io(4), IoOutcome::Done);
    assert_eq!(ids(disk.cell(1).possible()), [pattern("a").id(), Content::zero().id()]);
    let mut rng = fastrand::Rng::with_seed(1);
    let seen: BTreeSet<u64> = (0..50).map(|_| disk.read(1, &mut rng).id()).collect();
    assert!(seen.contains(&pattern("a").id()) && seen.contains(&Content::zero().id()));
    assert!(disk.cut(&Vec::new()).cell(1).trimmed(), "a cut alone does not say what a discard left");
    disk.write(io(5), 1, &[pattern("b")]).unwrap();
    disk.finish(io(5), IoOutcome::Done);
    assert_eq!(disk.read(1, &mut rng).id(), pattern("b").id());
    disk.flush(io(6));
    disk.finish(io(6), IoOutcome::Done);
    assert_eq!(disk.cell(1).settled().map(|c| c.id()), Some(pattern("b").id()));
}

#[test]
fn what_a_failed_flush_covered_never_becomes_durable() {
    let mut disk = disk_with_a();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    disk.finish(io(3), IoOutcome::Done);
    disk.flush(io(4));
    disk.finish(io(4), IoOutcome::Failed);
    disk.flush(io(5));
    disk.finish(io(5), IoOutcome::Done);
    assert_eq!(ids(disk.cell(1).possible()), [pattern("a").id(), pattern("b").id()]);
    disk.write(io(6), 1, &[pattern("c")]).unwrap();
    disk.finish(io(6), IoOutcome::Done);
    disk.flush(io(7));
    disk.finish(io(7), IoOutcome::Done);
    assert_eq!(disk.cell(1).settled().map(|c| c.id()), Some(pattern("c").id()));
}

#[test]
fn a_failed_write_leaves_any_mixture() {
    let mut disk = disk_with_a();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    disk.finish(io(3), IoOutcome::Failed);
    let mut rng = fastrand::Rng::with_seed(1);
    let seen: BTreeSet<u64> = (0..50).map(|_| disk.read(1, &mut rng).id()).collect();
    assert!(seen.len() > 2, "old, new and mixtures");
    disk.flush(io(4));
    disk.finish(io(4), IoOutcome::Done);
    assert!(disk.cell(1).settled().is_none());
}

#[test]
fn a_write_with_fua_is_durable_when_it_completes_and_nothing_else_is() {
    let mut disk = disk_with_a();
    disk.write(io(3), 2, &[pattern("b")]).unwrap();
    disk.finish(io(3), IoOutcome::Done);
    disk.write_fua(io(4), 1, &[pattern("c")]).unwrap();
    assert_eq!(ids(disk.cell(1).possible()), [pattern("a").id(), pattern("c").id()], "a write in flight may be there or not");
    assert_eq!(disk.finish(io(4), IoOutcome::Done), [1]);
    assert_eq!(disk.cell(1).settled().map(|c| c.id()), Some(pattern("c").id()));
    assert!(disk.cell(2).settled().is_none(), "what completed before is as undecided as it was");
    assert_eq!(disk.undecided().iter().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_write_with_fua_stands_over_what_its_block_held() {
    let mut disk = disk_with_a();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    disk.finish(io(3), IoOutcome::Done);
    disk.discard(io(4), 1, 1).unwrap();
    disk.finish(io(4), IoOutcome::Done);
    disk.flush(io(5));
    disk.write_fua(io(6), 1, &[pattern("c")]).unwrap();
    disk.finish(io(6), IoOutcome::Done);
    disk.finish(io(5), IoOutcome::Done);
    assert_eq!(disk.cell(1).settled().map(|c| c.id()), Some(pattern("c").id()), "a flush for what is older does not bring it back");
    assert!(!disk.cell(1).trimmed());
}

#[test]
fn a_write_with_fua_that_failed_or_was_forgotten_is_as_any_such_write() {
    for (end, later) in [(IoOutcome::Failed, None), (IoOutcome::Forgotten, Some(pattern("b").id()))] {
        let mut disk = disk_with_a();
        disk.write_fua(io(3), 1, &[pattern("b")]).unwrap();
        assert!(disk.finish(io(3), end).is_empty());
        assert_eq!(ids(disk.cell(1).possible()), [pattern("a").id(), pattern("b").id()]);
        disk.flush(io(4));
        disk.finish(io(4), IoOutcome::Done);
        assert_eq!(disk.cell(1).settled().map(|c| c.id()), later);
    }
}

#[test]
fn a_kill_keeps_the_cache_and_decides_what_was_in_flight() {
    let mut disk = disk_with_a();
    disk.write(io(3), 2, &[pattern("b")]).unwrap();
    disk.finish(io(3), IoOutcome::Done);
    disk.write(io(4), 3, &[pattern("c")]).unwrap();
    let mut fates = BTreeSet::new();
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let after = disk.kill(&mut rng);
        assert!(after.idle());
        assert_eq!(after.read(2, &mut rng).id(), pattern("b").id(), "completed writes are in the cache");
        assert_eq!(after.cut(&Vec::new()).cell(2).durable().id(), Content::zero().id(), "and only there");
        fates.insert(after.read(3, &mut rng).id());
    }
    assert!(fates.contains(&Content::zero().id()) && fates.contains(&pattern("c").id()) && fates.len() > 2);
}

#[test]
fn a_clone_does_not_see_later_writes() {
    let mut disk = disk_with_a();
    let clone = disk.clone();
    disk.write(io(3), 1, &[pattern("b")]).unwrap();
    assert_eq!(clone.cell(1).sources(), 1);
    assert!(clone.undecided().is_empty());
}
