//! Compacted units are read in order, all of them, or not at all.

use super::*;

/// A log of one unit behind two segments, of units 3 to 6 and 7 to 10, the first of two compacted units.
fn tail_behind_copies() -> LogTail {
    let compacted = Compacted { since: 2, places: runs([100, 101, 103].map(Pbn).into_iter()) };
    LogTail { compacted, ..log_tail() }
}

fn copy(of: (u64, u64), epoch: u64, (unit, units): (u32, u32), records: Vec<Record>) -> Unit {
    let header = UnitHeader {
        kind: UnitKind::Compacted,
        incarnation: 3,
        sequence: of.1,
        epoch: Epoch(epoch),
        unit,
        units,
        flushed_upto: of.0 - 1,
        content_flushed: false,
    };
    Unit { header, places: Vec::new(), slots: Vec::new(), records, authenticator: Fingerprint([0; 20]) }
}

fn copies() -> [(u64, Unit); 3] {
    let first = vec![new(1, 20, None), Record::Later { epochs: 2 }, link(2, 20, None)];
    [
        (100, copy((3, 6), 3, (0, 2), first)),
        (101, copy((3, 6), 5, (1, 2), vec![link(3, 20, None)])),
        (103, copy((7, 10), 7, (0, 1), vec![link(1, 30, Some(20)), Record::Later { epochs: 3 }, link(2, 30, Some(20))])),
    ]
}

/// The missing unit, and the effects of the others.
fn read_of(log_tail: &LogTail, copies: impl IntoIterator<Item = (u64, Unit)>) -> (Option<Pbn>, Vec<(Epoch, Effect<'static>)>) {
    let mut medium = Medium::of([unit(11, vec![link(9, 40, None)])]);
    for (pbn, copy) in copies {
        medium = medium.with(Pbn(pbn), copy);
    }
    let [one, other] = [true, false].map(|oldest_first| {
        let (ended, copied) = medium.all_scanned_from(log_tail.clone(), oldest_first);
        (ended.missing_compacted, copied, ended.end, ended.compacted)
    });
    assert_eq!(one, other);
    (one.0, one.1)
}

#[test]
fn copies_are_read_in_order_each_with_its_epoch() {
    let (missing, copied) = read_of(&tail_behind_copies(), copies());
    let effects: Vec<_> =
        copied.iter().map(|(epoch, effect)| (epoch.get(), effect.lbn.unwrap().get(), effect.to.pbn().unwrap().get())).collect();
    assert_eq!((missing, effects), (None, vec![(3, 1, 20), (5, 2, 20), (5, 3, 20), (7, 1, 30), (10, 2, 30)]));
}

#[test]
fn a_copy_that_is_not_there_is_missing() {
    for gone in [100, 101, 103] {
        let (missing, _) = read_of(&tail_behind_copies(), copies().into_iter().filter(|(pbn, _)| *pbn != gone));
        assert_eq!(missing, Some(Pbn(gone)));
    }
}

#[test]
fn a_copy_of_anything_else_is_not_there() {
    let wrong = |at: usize, change: &dyn Fn(&mut Unit)| {
        let mut copies = copies();
        change(&mut copies[at].1);
        let pbn = copies[at].0;
        (read_of(&tail_behind_copies(), copies).0, pbn)
    };
    type Change<'a> = (usize, &'a dyn Fn(&mut Unit));
    let changes: [Change<'_>; 10] = [
        (0, &|unit| unit.header.kind = UnitKind::Log),
        (0, &|unit| unit.header.flushed_upto = 1),
        (0, &|unit| unit.header.unit = 1),
        (1, &|unit| unit.header.unit = 0),
        (1, &|unit| unit.header.incarnation = 4),
        (1, &|unit| unit.header.sequence = 7),
        (1, &|unit| unit.header.epoch = Epoch(4)),
        (2, &|unit| unit.header.flushed_upto = 5),
        (2, &|unit| unit.header.sequence = 11),
        (2, &|unit| unit.records.push(Record::Later { epochs: 1 })),
    ];
    for (i, (at, change)) in changes.into_iter().enumerate() {
        let (missing, pbn) = wrong(at, change);
        assert_eq!(missing, Some(Pbn(pbn)), "change {i}");
    }
    let outside = |unit: &mut Unit| unit.records.push(link(LIMITS.lbns, 1, None));
    assert_eq!(wrong(2, &outside).0, Some(Pbn(103)));
}

/// The list ends early, or begins later than the log tail says.
#[test]
fn copies_reach_from_where_the_log_tail_says_up_to_it() {
    let ended_early = |places: &[u64]| {
        let compacted = Compacted { since: 2, places: runs(places.iter().copied().map(Pbn)) };
        read_of(&LogTail { compacted, ..log_tail() }, copies()).0
    };
    assert_eq!(ended_early(&[100, 101]), Some(Pbn(101)));
    assert_eq!(ended_early(&[100]), Some(Pbn(100)));
    assert_eq!(ended_early(&[103]), Some(Pbn(103)));
    assert_eq!(read_of(&log_tail(), copies()).0, None);
}
