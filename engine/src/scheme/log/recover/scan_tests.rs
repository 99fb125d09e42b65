//! The end of a log, and the units that count.

mod compacted;
mod limits;
mod replay;

use super::limits::Limits;
use super::scan::{Scan, ScanEnd};
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, MapEntry};
use crate::format::log_tail::{Barrier, Compacted, LogTail};
use crate::format::places::Places;
use crate::format::record::{OldRun, Record};
use crate::format::unit::{Unit, UnitHeader, UnitKind};
use crate::io::LogUnit;
use crate::scheme::log::places::runs;
use crate::tables::effect::{Effect, EntryChange};
use crate::units::{Epoch, Lbn, Pbn};
use std::collections::{BTreeMap, BTreeSet};

/// The sequence where the scan begins, and its epoch.
const FIRST: u64 = 11;
/// Places that each unit names.
const NAMED: u64 = 3;

const LIMITS: Limits = Limits { lbns: 5000, pbns: 3000, incarnation: 20 };

/// The place of a unit, unless a test names another one.
fn place(sequence: u64) -> Pbn {
    Pbn(1000 + sequence)
}

fn log_tail() -> LogTail {
    let places = runs((FIRST..FIRST + NAMED).map(place));
    LogTail {
        sequence: FIRST,
        incarnation: 4,
        epoch: Epoch(FIRST - 1),
        flushed_upto: FIRST - 1,
        places,
        barrier: None,
        compacted: Compacted::default(),
    }
}

/// The only unit of an epoch, of the same number, in order behind the one before.
fn unit(sequence: u64, records: Vec<Record>) -> Unit {
    let header = UnitHeader {
        kind: UnitKind::Log,
        incarnation: 4,
        sequence,
        epoch: Epoch(sequence),
        unit: 0,
        units: 1,
        flushed_upto: sequence - 1,
        content_flushed: false,
    };
    let places = runs((sequence + 1..=sequence + NAMED).map(place));
    Unit { header, places, slots: Vec::new(), records, authenticator: Fingerprint([0; 20]) }
}

fn changed(mut unit: Unit, change: impl FnOnce(&mut UnitHeader)) -> Unit {
    change(&mut unit.header);
    unit
}

/// An epoch of several units.
fn epoch_of(units: u32, first: u64) -> Vec<Unit> {
    let nth = |i: u32| {
        changed(unit(first + u64::from(i), Vec::new()), |h| {
            (h.epoch, h.unit, h.units, h.flushed_upto) = (Epoch(first), i, units, first - 1);
        })
    };
    (0..units).map(nth).collect()
}

/// Units by place.
#[derive(Default)]
struct Medium(BTreeMap<Pbn, Unit>);

impl Medium {
    fn of(units: impl IntoIterator<Item = Unit>) -> Self {
        Self(units.into_iter().map(|unit| (place(unit.header.sequence), unit)).collect())
    }

    fn without(mut self, sequence: u64) -> Self {
        self.0.remove(&place(sequence)).expect("it was there");
        self
    }

    fn with(mut self, pbn: Pbn, unit: Unit) -> Self {
        self.0.insert(pbn, unit);
        self
    }

    /// Scans it with reads that complete oldest first, and newest first: the end is the same.
    fn end(&self) -> ScanEnd {
        let [one, other] = [true, false].map(|oldest_first| self.scanned(oldest_first));
        assert_eq!((one.end, one.flushed, one.missing, &one.next_places), (other.end, other.flushed, other.missing, &other.next_places));
        one
    }

    fn scanned(&self, oldest_first: bool) -> ScanEnd {
        self.scanned_from(log_tail(), oldest_first)
    }

    fn scanned_from(&self, log_tail: LogTail, oldest_first: bool) -> ScanEnd {
        self.all_scanned_from(log_tail, oldest_first).0
    }

    /// The end, and the effects that were passed on before it.
    fn all_scanned_from(&self, log_tail: LogTail, oldest_first: bool) -> (ScanEnd, Vec<(Epoch, Effect<'static>)>) {
        let mut scan = Scan::new(log_tail, LIMITS);
        let mut handed_on = Vec::new();
        loop {
            let mut under_way = Vec::new();
            while let Some(asked) = scan.ask() {
                under_way.push(asked);
            }
            if under_way.is_empty() {
                break;
            }
            if !oldest_first {
                under_way.reverse();
            }
            for (which, pbn) in under_way {
                scan.arrived(which, pbn, self.0.get(&pbn).cloned(), &mut |epoch, effect| handed_on.push((epoch, kept(effect))));
            }
        }
        assert!(scan.is_done());
        (scan.end(), handed_on)
    }
}

/// An effect that outlives its record.
fn kept(effect: &Effect<'_>) -> Effect<'static> {
    let name = match effect.name {
        EntryChange::None => EntryChange::None,
        EntryChange::Of(entry) => EntryChange::Of(entry),
        EntryChange::Short(shorts) => EntryChange::Short(shorts.to_vec().leak()),
        EntryChange::ShortApart(shorts) => EntryChange::ShortApart(shorts.to_vec().leak()),
        EntryChange::Removed => EntryChange::Removed,
        EntryChange::Counted => EntryChange::Counted,
    };
    Effect { lbn: effect.lbn, blocks: effect.blocks, to: effect.to, old: effect.old, name }
}

/// (last unit that counts, last one that is known to be flushed, first one that is damaged)
fn ends(ended: &ScanEnd) -> (u64, u64, Option<u64>) {
    (ended.end, ended.flushed, ended.missing)
}

fn places_of(ended: &ScanEnd) -> Vec<Pbn> {
    ended.units.iter().map(|unit| unit.pbn).collect()
}

fn three() -> Medium {
    Medium::of((FIRST..FIRST + 3).map(|sequence| unit(sequence, Vec::new())))
}

#[test]
fn a_unit_that_means_more_than_there_is_memory_is_outside() {
    const LBNS: u64 = 1 << 30;
    let limits = Limits { lbns: LBNS, ..LIMITS };
    let clears = |records: usize, blocks: u64| {
        let clear = Record::Clear { lbn: Lbn(0), to: MapEntry::Unmapped, olds: vec![OldRun { first: None, blocks }] };
        limits.hold(&unit(11, vec![clear; records]))
    };
    assert!(clears(1000, 800), "all that fits a unit");
    assert!(!clears(1, LBNS) && !clears(4000, 800));
}

#[test]
fn a_unit_of_an_earlier_epoch_or_of_an_incarnation_to_come_is_not_there() {
    let falls = Medium::of([unit(11, Vec::new()), unit(12, Vec::new()), changed(unit(13, Vec::new()), |h| h.epoch = Epoch(11))]).end();
    assert_eq!((falls.end, falls.epoch, falls.missing), (12, Epoch(12), None));
    let before_the_log_tail = Medium::of([changed(unit(11, Vec::new()), |h| h.epoch = Epoch(FIRST - 2))]).end();
    assert_eq!((before_the_log_tail.end, before_the_log_tail.epoch), (10, Epoch(10)));
    let [known, unknown] = [20, 21].map(|incarnation| {
        let later = changed(unit(12, Vec::new()), |h| h.incarnation = incarnation);
        Medium::of([unit(11, Vec::new()), later]).end().end
    });
    assert_eq!((known, unknown), (12, 11), "the superblock knows 20");
}

#[test]
fn units_of_the_log_tails_incarnation_count_whatever_it_is() {
    for incarnation in [0, 1, 20] {
        let units = (FIRST..FIRST + 3).map(|sequence| changed(unit(sequence, Vec::new()), |h| h.incarnation = incarnation));
        let end = |log_tail: LogTail| Medium::of(units.clone()).scanned_from(log_tail, true).end;
        assert_eq!(end(LogTail { incarnation, ..log_tail() }), FIRST + 2, "{incarnation}");
        assert_eq!(end(LogTail { incarnation: incarnation + 1, ..log_tail() }), FIRST - 1, "{incarnation}");
    }
}

#[test]
fn an_empty_log_ends_where_it_begins() {
    let ended = Medium::default().end();
    assert_eq!(ends(&ended), (10, 10, None));
    assert_eq!((ended.epoch, ended.epoch_seen, ended.first), (Epoch(10), Epoch(10), 11));
    assert_eq!(ended.next_places, [place(11), place(12), place(13)]);
    assert!(ended.units.is_empty() && !ended.is_closed());
}

#[test]
fn the_last_epoch_counts_if_it_is_there() {
    let ended = three().end();
    assert_eq!(ends(&ended), (13, 12, None));
    assert_eq!((ended.epoch, &ended.next_places[..]), (Epoch(13), &[place(14), place(15), place(16)][..]));
    assert_eq!(places_of(&ended), [place(11), place(12), place(13)]);
    assert_eq!([10, 11, 13, 14].map(|sequence| ended.place_of(sequence)), [None, Some(place(11)), Some(place(13)), None]);
    let ended = three().without(13).end();
    assert_eq!(ends(&ended), (12, 11, None));
    assert_eq!(ended.next_places[0], place(13));
}

#[test]
fn a_hole_before_what_was_flushed_is_damage() {
    for (hole, end) in [(11, 10), (12, 11)] {
        let ended = three().without(hole).end();
        assert_eq!(ends(&ended), (end, end, Some(hole)));
        assert_eq!((ended.epoch, ended.epoch_seen), (Epoch(end), Epoch(13)), "no number is given twice");
    }
    // No unit confirms the flush of 12, though a unit lies behind it.
    let unknowing = changed(unit(13, Vec::new()), |h| h.flushed_upto = 11);
    let ended = three().without(12).with(place(13), unknowing).end();
    assert_eq!(ends(&ended), (11, 11, None), "a unit behind a hole is never used");
    assert_eq!(ended.next_places[0], place(12));
}

#[test]
fn damage_cuts_no_epoch_in_two() {
    let long = |from: u64| Medium::of([unit(11, Vec::new())].into_iter().chain(epoch_of(3, 12)).chain([unit(from, Vec::new())]));
    assert_eq!(ends(&long(15).end()), (15, 14, None));
    for hole in 12..15 {
        let ended = long(15).without(hole).end();
        assert_eq!(ends(&ended), (11, 11, Some(hole)));
        assert_eq!(ended.epoch, Epoch(11));
    }
}

#[test]
fn a_torn_epoch_of_several_units_does_not_count() {
    let long = || Medium::of([unit(11, Vec::new())].into_iter().chain(epoch_of(3, 12)));
    assert_eq!(ends(&long().end()), (14, 11, None));
    for hole in 12..15 {
        let ended = long().without(hole).end();
        assert_eq!(ends(&ended), (11, 11, None), "without {hole}");
        assert_eq!((ended.epoch, ended.epoch_seen, ended.next_places[0]), (Epoch(11), Epoch(12), place(12)));
    }
    // All units are there, but not of one epoch, one length, one incarnation.
    let mixed: [fn(&mut UnitHeader); 4] =
        [|h| h.epoch = Epoch(13), |h| h.units = 4, |h| (h.unit, h.flushed_upto) = (1, 11), |h| h.incarnation = 5];
    for mix in mixed {
        let [_, _, last] = <[Unit; 3]>::try_from(epoch_of(3, 12)).expect("three units");
        assert_eq!(ends(&long().with(place(14), changed(last, mix)).end()), (11, 11, None));
    }
}

#[test]
fn only_one_epoch_counts_behind_what_is_known_to_be_flushed() {
    let far = changed(unit(13, Vec::new()), |h| h.flushed_upto = 11);
    assert_eq!(ends(&three().with(place(13), far).end()), (12, 11, None));
}

#[test]
fn a_unit_of_a_lower_incarnation_is_not_there() {
    let older = |sequence, incarnation| changed(unit(sequence, Vec::new()), |h| h.incarnation = incarnation);
    assert_eq!(ends(&Medium::of([older(11, 3)]).end()), (10, 10, None), "lower than that of the log tail");
    let fallen = Medium::of([unit(11, Vec::new()), older(12, 6), older(13, 5)]);
    assert_eq!(ends(&fallen.end()), (12, 11, None), "lower than the one's before");
    // The `flushed_upto` of such a unit is ignored.
    let older_unit = changed(older(12, 3), |h| h.flushed_upto = 11);
    assert_eq!(ends(&Medium::of([unit(11, Vec::new()), older_unit]).end()), (11, 10, None));
}

#[test]
fn a_unit_of_another_number_is_not_there() {
    let elsewhere = Medium::of([unit(11, Vec::new())]).with(place(12), unit(2, Vec::new())).with(place(13), unit(12, Vec::new()));
    assert_eq!(ends(&elsewhere.end()), (11, 10, None));
}

/// After a crash the first unit of the new incarnation takes the place of a unit that did not count, and names other places behind it.
#[test]
fn the_new_incarnation_may_name_other_places() {
    let [head, second, third] = <[Unit; 3]>::try_from(epoch_of(3, 12)).expect("three units");
    let mut closing = changed(unit(12, vec![closing(0, &[])]), |h| h.incarnation = 5);
    closing.places = runs([Pbn(70), Pbn(71), Pbn(80)].into_iter());
    let torn = Medium::of([unit(11, Vec::new()), head, second, third]).without(13);
    assert_eq!(ends(&torn.end()), (11, 11, None));
    let closed = torn.with(place(12), closing);
    let ended = closed.end();
    assert_eq!(ends(&ended), (12, 11, None));
    assert!(ended.is_closed());
    assert_eq!(ended.next_places, [Pbn(70), Pbn(71), Pbn(80)]);
    let mut next = changed(unit(13, Vec::new()), |h| h.incarnation = 5);
    next.places = runs([Pbn(71), Pbn(80), Pbn(81)].into_iter());
    let ended = closed.with(Pbn(70), next).end();
    assert_eq!(ends(&ended), (13, 12, None));
    assert_eq!(places_of(&ended), [place(11), place(12), Pbn(70)]);
    assert_eq!(ended.next_places, [Pbn(71), Pbn(80), Pbn(81)]);
    assert!(!ended.is_closed());
}

/// A block behind the closing unit, where an opening found no unit, may be a unit of its incarnation, and a whole epoch, the next time.
#[test]
fn nothing_from_before_the_barrier_counts_behind_it() {
    let closed = |h: &mut UnitHeader| h.incarnation = 5;
    let log = |behind| {
        let closing = changed(unit(12, vec![closing(0, &[])]), closed);
        Medium::of([unit(11, Vec::new()), closing, changed(unit(13, Vec::new()), |h| h.incarnation = behind)])
    };
    let with = |barrier| LogTail { barrier, ..log_tail() };
    let ends_from = |medium: &Medium, barrier| ends(&medium.scanned_from(with(barrier), true));
    assert_eq!(ends_from(&log(5), None), (13, 12, None));
    let barrier = Some(Barrier { sequence: 12, incarnation: 7 });
    assert_eq!(ends_from(&log(5), barrier), (12, 11, None));
    assert_eq!(ends_from(&log(6), barrier), (12, 11, None));
    assert_eq!(ends_from(&log(7), barrier), (13, 12, None));
}

#[test]
fn a_log_tail_confirms_the_units_before_it_whatever_it_says() {
    let log_tail = LogTail { flushed_upto: FIRST - 4, ..log_tail() };
    assert_eq!(ends(&Medium::default().scanned_from(log_tail.clone(), true)), (10, 10, None));
    assert_eq!(ends(&three().scanned_from(log_tail, true)), (13, 12, None));
}

fn name(pbn: u64) -> FingerprintEntry {
    FingerprintEntry::of(Fingerprint::of_digest(&[u8::try_from(pbn).expect("a small number"); 20]))
}

fn block(pbn: u64) -> MapEntry {
    MapEntry::Block { pbn: Pbn(pbn), slot: 0 }
}

fn new(lbn: u64, pbn: u64, old: Option<u64>) -> Record {
    Record::New { lbn: Lbn(lbn), pbn: Pbn(pbn), old: old.map(Pbn), name: name(pbn) }
}

fn link(lbn: u64, pbn: u64, old: Option<u64>) -> Record {
    Record::Link { lbn: Lbn(lbn), to: block(pbn), old: old.map(Pbn) }
}

fn closing(first: u64, lost: &[u64]) -> Record {
    Record::Closing { first, lost: lost.iter().copied().map(Pbn).collect() }
}

#[test]
fn places_are_named_by_runs() {
    let places =
        |pbns: &[u64]| runs(pbns.iter().copied().map(Pbn)).into_iter().map(|run| (run.first.get(), run.blocks)).collect::<Vec<_>>();
    assert_eq!(places(&[5, 6, 7, 9, 8]), [(5, 3), (9, 1), (8, 1)]);
    let long: Vec<u64> = (0..70).collect();
    assert_eq!(places(&long), [(0, 64), (64, 6)]);
    let scattered: Vec<u64> = (0..40).map(|i| i * 2).collect();
    assert_eq!(places(&scattered).len(), 32, "no more than a unit names");
}

/// The unit that confirms the flush of the one before may be gone the next time; the confirmations of that one stay true.
#[test]
fn certain_is_what_a_flushed_unit_says_was_flushed() {
    let certain = |units: u64| {
        let mut scan = Scan::new(log_tail(), LIMITS);
        for sequence in FIRST..FIRST + units {
            scan.arrived(LogUnit::Tail(sequence), place(sequence), Some(unit(sequence, Vec::new())), &mut |_, _| ());
        }
        scan.certain().get()
    };
    assert_eq!([0, 1, 2, 3, 9].map(certain), [10, 10, 10, 11, 17]);
}
