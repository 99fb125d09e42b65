//! Where a log ends, what of it counts, and what it then says.

use super::effect::{Effect, Name};
use super::walk::{Ended, Walk, runs};
use crate::fingerprint::Fingerprint;
use crate::format::anchor::Anchor;
use crate::format::entry::{FingerprintEntry, MapEntry};
use crate::format::record::{OldRun, Record};
use crate::format::unit::{Unit, UnitHeader, UnitKind};
use crate::units::{Epoch, Lbn, Pbn};
use std::collections::{BTreeMap, BTreeSet};

/// The sequence where the walk begins, and its epoch.
const FIRST: u64 = 11;
/// Places that each unit names.
const NAMED: u64 = 3;

/// Where a unit lies if nothing says otherwise.
fn place(sequence: u64) -> Pbn {
    Pbn(1000 + sequence)
}

fn anchor() -> Anchor {
    let places = runs((FIRST..FIRST + NAMED).map(place));
    Anchor { sequence: FIRST, incarnation: 4, epoch: Epoch(FIRST - 1), flushed_upto: FIRST - 1, places }
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

/// What lies where.
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

    /// Reads it, and hands in what is under way oldest first or newest first: the end is the same.
    fn end(&self) -> Ended {
        let [one, other] = [true, false].map(|oldest_first| self.walked(oldest_first));
        assert_eq!((one.end, one.flushed, one.missing, &one.come), (other.end, other.flushed, other.missing, &other.come));
        one
    }

    fn walked(&self, oldest_first: bool) -> Ended {
        let mut walk = Walk::new(anchor());
        loop {
            let mut under_way = Vec::new();
            while let Some(asked) = walk.ask() {
                under_way.push(asked);
            }
            if under_way.is_empty() {
                break;
            }
            if !oldest_first {
                under_way.reverse();
            }
            under_way.into_iter().for_each(|(sequence, pbn)| walk.arrived(sequence, pbn, self.0.get(&pbn).cloned()));
        }
        assert!(walk.is_done());
        walk.end()
    }
}

/// (last unit that counts, last one that is known to be flushed, first one that is damaged)
fn ends(ended: &Ended) -> (u64, u64, Option<u64>) {
    (ended.end, ended.flushed, ended.missing)
}

fn three() -> Medium {
    Medium::of((FIRST..FIRST + 3).map(|sequence| unit(sequence, Vec::new())))
}

#[test]
fn an_empty_log_ends_where_it_begins() {
    let ended = Medium::default().end();
    assert_eq!(ends(&ended), (10, 10, None));
    assert_eq!((ended.epoch, ended.epoch_seen, ended.first), (Epoch(10), Epoch(10), 11));
    assert_eq!(ended.come, [place(11), place(12), place(13)]);
    assert!(ended.units.is_empty() && ended.places.is_empty() && !ended.is_closed());
}

#[test]
fn the_last_epoch_counts_if_it_is_there() {
    let ended = three().end();
    assert_eq!(ends(&ended), (13, 12, None));
    assert_eq!((ended.epoch, &ended.come[..]), (Epoch(13), &[place(14), place(15), place(16)][..]));
    assert_eq!(ended.places, [place(11), place(12), place(13)]);
    assert_eq!([10, 11, 13, 14].map(|sequence| ended.place_of(sequence)), [None, Some(place(11)), Some(place(13)), None]);
    let ended = three().without(13).end();
    assert_eq!(ends(&ended), (12, 11, None));
    assert_eq!(ended.come[0], place(13));
}

#[test]
fn a_hole_before_what_was_flushed_is_damage() {
    for (hole, end) in [(11, 10), (12, 11)] {
        let ended = three().without(hole).end();
        assert_eq!(ends(&ended), (end, end, Some(hole)));
        assert_eq!((ended.epoch, ended.epoch_seen), (Epoch(end), Epoch(13)), "no number is given twice");
    }
    // Nobody says that 12 was flushed, though something lies behind it.
    let unknowing = changed(unit(13, Vec::new()), |h| h.flushed_upto = 11);
    let ended = three().without(12).with(place(13), unknowing).end();
    assert_eq!(ends(&ended), (11, 11, None), "a unit behind a hole is never used");
    assert_eq!(ended.come[0], place(12));
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
        assert_eq!((ended.epoch, ended.epoch_seen, ended.come[0]), (Epoch(11), Epoch(12), place(12)));
    }
    // All there, but not of one epoch, of one length, of one incarnation.
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
    assert_eq!(ends(&Medium::of([older(11, 3)]).end()), (10, 10, None), "lower than the anchor's");
    let fallen = Medium::of([unit(11, Vec::new()), older(12, 6), older(13, 5)]);
    assert_eq!(ends(&fallen.end()), (12, 11, None), "lower than the one's before");
    // What such a unit says of others is not heard.
    let said = changed(older(12, 3), |h| h.flushed_upto = 11);
    assert_eq!(ends(&Medium::of([unit(11, Vec::new()), said]).end()), (11, 10, None));
}

#[test]
fn a_unit_of_another_number_is_not_there() {
    let elsewhere = Medium::of([unit(11, Vec::new())]).with(place(12), unit(2, Vec::new())).with(place(13), unit(12, Vec::new()));
    assert_eq!(ends(&elsewhere.end()), (11, 10, None));
}

/// After a crash the new incarnation's first unit takes the place of a unit that did not count, and names other places behind it.
#[test]
fn the_new_incarnation_may_name_other_places() {
    let [head, second, third] = <[Unit; 3]>::try_from(epoch_of(3, 12)).expect("three units");
    let mut closing = changed(unit(12, vec![Record::Closing { dropped: Vec::new() }]), |h| h.incarnation = 5);
    closing.places = runs([Pbn(70), Pbn(71), Pbn(80)].into_iter());
    let torn = Medium::of([unit(11, Vec::new()), head, second, third]).without(13);
    assert_eq!(ends(&torn.end()), (11, 11, None));
    let closed = torn.with(place(12), closing);
    let ended = closed.end();
    assert_eq!(ends(&ended), (12, 11, None));
    assert!(ended.is_closed());
    assert_eq!(ended.come, [Pbn(70), Pbn(71), Pbn(80)]);
    let mut next = changed(unit(13, Vec::new()), |h| h.incarnation = 5);
    next.places = runs([Pbn(71), Pbn(80), Pbn(81)].into_iter());
    let ended = closed.with(Pbn(70), next).end();
    assert_eq!(ends(&ended), (13, 12, None));
    assert_eq!(ended.places, [place(11), place(12), Pbn(70)]);
    assert_eq!(ended.come, [Pbn(71), Pbn(80), Pbn(81)]);
    assert!(!ended.is_closed());
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

fn born(lbn: u64, pbn: u64, old: Option<u64>) -> Effect {
    Effect { lbn: Some(Lbn(lbn)), blocks: 1, to: block(pbn), old: old.map(Pbn), name: Name::Of(name(pbn)) }
}

fn linked(lbn: u64, pbn: u64, old: Option<u64>) -> Effect {
    Effect { name: Name::None, ..born(lbn, pbn, old) }
}

fn cleared(lbn: u64, blocks: u64, old: Option<u64>) -> Effect {
    Effect { lbn: Some(Lbn(lbn)), blocks, to: MapEntry::Unmapped, old: old.map(Pbn), name: Name::None }
}

fn replayed(ended: &Ended, wrong: &[u64]) -> (Vec<(u64, Effect)>, Vec<super::walk::RecordAt>) {
    let wrong: BTreeSet<Pbn> = wrong.iter().copied().map(Pbn).collect();
    let (effects, dropped) = ended.replay(&wrong);
    (effects.into_iter().map(|(epoch, effect)| (epoch.get(), effect)).collect(), dropped)
}

#[test]
fn content_is_compared_behind_what_is_known_to_be_flushed_only() {
    let log = |content_flushed| {
        let last = changed(unit(12, vec![new(2, 21, None), link(3, 21, None), new(4, 22, None)]), |h| h.content_flushed = content_flushed);
        Medium::of([unit(11, vec![new(1, 20, None)]), last]).end()
    };
    assert_eq!(log(false).doubtful(), [(Pbn(21), name(21)), (Pbn(22), name(22))]);
    assert_eq!(log(true).doubtful(), []);
}

#[test]
fn what_names_content_that_is_not_there_is_dropped_and_nothing_else() {
    let first = unit(11, vec![new(1, 20, None), link(5, 30, Some(6))]);
    let last = unit(12, vec![link(7, 21, Some(8)), new(2, 21, Some(9)), link(3, 20, None), Record::Removed { pbn: Pbn(50) }]);
    let ended = Medium::of([first, last]).end();
    let all = [
        (11, born(1, 20, None)),
        (11, linked(5, 30, Some(6))),
        (12, linked(7, 21, Some(8))),
        (12, born(2, 21, Some(9))),
        (12, linked(3, 20, None)),
        (12, Effect { lbn: None, blocks: 1, to: MapEntry::Unmapped, old: Some(Pbn(50)), name: Name::Removed }),
    ];
    assert_eq!(replayed(&ended, &[]), (all.to_vec(), Vec::new()));
    // The duplicate goes with its block, though it stands before it.
    let (effects, dropped) = replayed(&ended, &[21]);
    assert_eq!(effects, [all[0], all[1], all[4], all[5]]);
    assert_eq!(dropped, [(12, 0), (12, 1)]);
}

#[test]
fn the_next_record_of_an_lbn_takes_over_the_old_block_of_the_dropped_one() {
    let closing = changed(unit(12, vec![Record::Closing { dropped: vec![(11, 0), (11, 2)] }]), |h| h.incarnation = 5);
    let later = changed(unit(13, vec![new(1, 40, Some(20)), link(3, 30, Some(6)), new(2, 41, Some(21))]), |h| h.incarnation = 5);
    let first = unit(11, vec![new(1, 20, Some(7)), link(3, 30, None), new(2, 21, None)]);
    let ended = Medium::of([first, closing, later]).end();
    assert_eq!(ends(&ended), (13, 12, None));
    let (effects, dropped) = replayed(&ended, &[]);
    assert_eq!(dropped, [(11, 0), (11, 2)], "what was dropped stays dropped, whatever lies there by now");
    assert_eq!(effects, [(11, linked(3, 30, None)), (13, born(1, 40, Some(7))), (13, linked(3, 30, Some(6))), (13, born(2, 41, None))]);
}

#[test]
fn the_dropped_of_a_dropped_record_is_the_first_ones() {
    let closing = |sequence, of| changed(unit(sequence, vec![Record::Closing { dropped: vec![(of, 0)] }]), |h| h.incarnation = sequence);
    let again = changed(unit(13, vec![new(1, 21, Some(7))]), |h| h.incarnation = 12);
    let last = changed(unit(15, vec![new(1, 22, Some(21))]), |h| h.incarnation = 14);
    let ended = Medium::of([unit(11, vec![new(1, 20, Some(7))]), closing(12, 11), again, closing(14, 13), last]).end();
    let (effects, dropped) = replayed(&ended, &[]);
    assert_eq!((effects, dropped), (vec![(15, born(1, 22, Some(7)))], vec![(11, 0), (13, 0)]));
}

#[test]
fn runs_are_split_where_old_blocks_are_put_right() {
    let first = unit(11, vec![new(11, 20, Some(7)), new(13, 21, None)]);
    let closing = unit(12, vec![Record::Closing { dropped: vec![(11, 0), (11, 1)] }]);
    let old = |first: u64, blocks| OldRun { first: Some(Pbn(first)), blocks };
    let clear = Record::Clear { lbn: Lbn(10), to: MapEntry::Unmapped, olds: vec![old(60, 4), old(90, 2)] };
    let extent = Record::Extent { lbn: Lbn(10), pbn: Pbn(200), olds: vec![OldRun { first: None, blocks: 6 }] };
    let ended = Medium::of([first, closing, unit(13, vec![clear, extent])]).end();
    let (effects, _) = replayed(&ended, &[]);
    let fresh = Effect { lbn: Some(Lbn(10)), blocks: 6, to: block(200), old: None, name: Name::Lost };
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
    let closing = unit(12, vec![Record::Closing { dropped: vec![(11, 0)] }]);
    let olds = vec![OldRun { first: Some(Pbn(60)), blocks: 3 }];
    let extent = Record::Extent { lbn: Lbn(10), pbn: Pbn(200), olds };
    let ended = Medium::of([first, closing, unit(13, vec![extent])]).end();
    let run = |lbn, blocks, pbn, old| Effect { lbn: Some(Lbn(lbn)), blocks, to: block(pbn), old: Some(Pbn(old)), name: Name::Lost };
    assert_eq!(replayed(&ended, &[]).0, [(13, run(10, 2, 200, 60)), (13, run(12, 1, 202, 7))]);
}

#[test]
fn drops_before_the_walk_are_forgotten() {
    let closing = unit(11, vec![Record::Closing { dropped: vec![(9, 0), (10, 1)] }]);
    let ended = Medium::of([closing]).end();
    assert!(ended.is_closed());
    assert_eq!(replayed(&ended, &[]), (Vec::new(), Vec::new()));
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
