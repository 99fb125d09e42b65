//! The effects of a log's records, without dropped ones.

use super::*;

fn added(lbn: u64, pbn: u64, old: Option<u64>) -> Effect<'static> {
    Effect { lbn: Some(Lbn(lbn)), blocks: 1, to: block(pbn), old: old.map(Pbn), name: EntryChange::Of(name(pbn)) }
}

fn linked(lbn: u64, pbn: u64, old: Option<u64>) -> Effect<'static> {
    Effect { name: EntryChange::None, ..added(lbn, pbn, old) }
}

fn cleared(lbn: u64, blocks: u64, old: Option<u64>) -> Effect<'static> {
    Effect { lbn: Some(Lbn(lbn)), blocks, to: MapEntry::Unmapped, old: old.map(Pbn), name: EntryChange::None }
}

fn replayed(log: &Medium, wrong: &[u64]) -> Vec<(u64, Effect<'static>)> {
    let wrong: BTreeSet<Pbn> = wrong.iter().copied().map(Pbn).collect();
    let (mut ended, mut effects) = log.all_scanned_from(log_tail(), true);
    ended.replay(&wrong, &mut |epoch, effect| effects.push((epoch, kept(effect))));
    effects.into_iter().map(|(epoch, effect)| (epoch.get(), effect)).collect()
}

#[test]
fn content_is_compared_behind_what_is_known_to_be_flushed_only() {
    let log = |content_flushed| {
        let last = changed(unit(12, vec![new(2, 21, None), link(3, 21, None), new(4, 22, None)]), |h| h.content_flushed = content_flushed);
        Medium::of([unit(11, vec![new(1, 20, None)]), last]).end()
    };
    assert_eq!(log(false).unverified(), [(Pbn(21), name(21)), (Pbn(22), name(22))]);
    assert_eq!(log(true).unverified(), []);
}

#[test]
fn what_names_content_that_is_not_there_is_dropped_and_nothing_else() {
    let first = unit(11, vec![new(1, 20, None), link(5, 30, Some(6))]);
    let last = unit(12, vec![link(7, 21, Some(8)), new(2, 21, Some(9)), link(3, 20, None), Record::Removed { pbn: Pbn(50), blocks: 3 }]);
    let log = Medium::of([first, last]);
    let ended = log.end();
    let all = [
        (11, added(1, 20, None)),
        (11, linked(5, 30, Some(6))),
        (12, linked(7, 21, Some(8))),
        (12, added(2, 21, Some(9))),
        (12, linked(3, 20, None)),
        (12, Effect { lbn: None, blocks: 3, to: MapEntry::Unmapped, old: Some(Pbn(50)), name: EntryChange::Removed }),
    ];
    assert_eq!(replayed(&log, &[]), all);
    assert_eq!(ended.closing(&BTreeSet::new()), closing(0, &[]));
    // The duplicate goes with its block, though it stands before it.
    assert_eq!(replayed(&log, &[21]), [all[0], all[1], all[4], all[5]]);
    assert_eq!(ended.closing(&BTreeSet::from([Pbn(21)])), closing(12, &[21]));
}

#[test]
fn the_next_record_of_an_lbn_takes_over_the_old_block_of_the_dropped_one() {
    let closing = changed(unit(12, vec![closing(11, &[20, 21])]), |h| h.incarnation = 5);
    let later = changed(unit(13, vec![new(1, 40, Some(20)), link(3, 30, Some(6)), new(2, 41, Some(21))]), |h| h.incarnation = 5);
    let first = unit(11, vec![new(1, 20, Some(7)), link(3, 30, None), new(2, 21, None)]);
    let log = Medium::of([first, closing, later]);
    assert_eq!(ends(&log.end()), (13, 12, None));
    // A dropped record stays dropped, whatever its block holds by now.
    assert_eq!(
        replayed(&log, &[]),
        [(11, linked(3, 30, None)), (13, added(1, 40, Some(7))), (13, linked(3, 30, Some(6))), (13, added(2, 41, None))]
    );
}

#[test]
fn the_dropped_of_a_dropped_record_is_the_first_ones() {
    let closed = |sequence, of, pbn| changed(unit(sequence, vec![closing(of, &[pbn])]), |h| h.incarnation = sequence);
    let again = changed(unit(13, vec![new(1, 21, Some(7))]), |h| h.incarnation = 12);
    let last = changed(unit(15, vec![new(1, 22, Some(21))]), |h| h.incarnation = 14);
    let log = Medium::of([unit(11, vec![new(1, 20, Some(7))]), closed(12, 11, 20), again, closed(14, 13, 21), last]);
    assert_eq!(replayed(&log, &[]), [(15, added(1, 22, Some(7)))]);
}

#[test]
fn runs_are_split_where_old_blocks_are_put_right() {
    let first = unit(11, vec![new(11, 20, Some(7)), new(13, 21, None)]);
    let closing = unit(12, vec![closing(11, &[20, 21])]);
    let old = |first: u64, blocks| OldRun { first: Some(Pbn(first)), blocks };
    let clear = Record::Clear { lbn: Lbn(10), to: MapEntry::Unmapped, olds: vec![old(60, 4), old(90, 2)] };
    let extent = Record::Extent {
        lbn: Lbn(10),
        pbn: Pbn(200),
        olds: vec![OldRun { first: None, blocks: 6 }],
        shorts: vec![1, 2, 3, 4, 5, 6],
        is_apart: false,
    };
    let log = Medium::of([first, closing, unit(13, vec![clear, extent])]);
    let effects = replayed(&log, &[]);
    let fresh = Effect { lbn: Some(Lbn(10)), blocks: 6, to: block(200), old: None, name: EntryChange::Short(&[1, 2, 3, 4, 5, 6]) };
    let expected = [
        cleared(10, 1, Some(60)),
        cleared(11, 1, Some(7)),
        cleared(12, 1, Some(62)),
        cleared(13, 1, None),
        cleared(14, 2, Some(90)),
        fresh,
    ];
    assert_eq!(effects, expected.map(|effect| (13, effect)));
}

#[test]
fn a_run_of_new_blocks_keeps_its_blocks_when_it_is_split() {
    let first = unit(11, vec![new(12, 20, Some(7))]);
    let closing = unit(12, vec![closing(11, &[20])]);
    let olds = vec![OldRun { first: Some(Pbn(60)), blocks: 3 }];
    let extent = Record::Extent { lbn: Lbn(10), pbn: Pbn(200), olds, shorts: vec![1, 2, 3], is_apart: true };
    let log = Medium::of([first, closing, unit(13, vec![extent])]);
    let run = |lbn, blocks, pbn, old, name| Effect { lbn: Some(Lbn(lbn)), blocks, to: block(pbn), old: Some(Pbn(old)), name };
    let named = [EntryChange::ShortApart(&[1, 2]), EntryChange::ShortApart(&[3])];
    assert_eq!(replayed(&log, &[]), [(13, run(10, 2, 200, 60, named[0])), (13, run(12, 1, 202, 7, named[1]))]);
}

#[test]
fn drops_before_the_log_tail_are_forgotten() {
    let closing = unit(11, vec![closing(9, &[20])]);
    let log = Medium::of([closing]);
    assert!(log.end().is_closed());
    assert_eq!(replayed(&log, &[]), []);
}

/// A unit is passed on as soon as one behind it confirms its flush, and not before: the drops of a closing unit behind it are known by
/// then.
#[test]
fn what_is_known_to_be_flushed_is_handed_on_at_once() {
    let mut scan = Scan::new(log_tail(), LIMITS);
    let closing = changed(unit(13, vec![closing(12, &[21])]), |h| h.incarnation = 5);
    let units = [unit(11, vec![new(1, 20, None)]), unit(12, vec![new(2, 21, Some(7)), new(3, 22, None)]), closing];
    let mut handed_on = Vec::new();
    let mut after = Vec::new();
    for unit in units {
        let (which, pbn) = scan.ask().expect("it is named");
        scan.arrived(which, pbn, Some(unit), &mut |epoch, effect| handed_on.push((epoch.get(), kept(effect))));
        after.push(handed_on.len());
    }
    assert_eq!(after, [0, 1, 2]);
    assert_eq!(handed_on, [(11, added(1, 20, None)), (12, added(3, 22, None))]);
}

/// A unit behind a hole may confirm units before the hole; the same effects are passed on.
#[test]
fn what_only_a_unit_behind_a_hole_knows_is_handed_on_in_the_end() {
    let units =
        [unit(11, vec![new(1, 20, None)]), unit(12, vec![new(2, 21, None)]), changed(unit(14, Vec::new()), |h| h.flushed_upto = 12)];
    let log = Medium::of(units);
    assert_eq!(ends(&log.end()), (12, 12, None));
    assert_eq!(log.end().unverified(), []);
    assert_eq!(replayed(&log, &[]), [(11, added(1, 20, None)), (12, added(2, 21, None))]);
}
