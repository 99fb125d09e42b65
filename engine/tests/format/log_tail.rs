//! The log tail, in the superblock.

use super::superblock::forged;
use super::{encoded, eventful, fresh};
use onefold_engine::format::layout::Field;
use onefold_engine::format::log_tail::at;
use onefold_engine::format::superblock::at as at_superblock;
use onefold_engine::format::{
    Barrier, COMPACTED_RUNS_MAX, COUNTER_MAX, Compacted, LogTail, PLACES_MAX, Places, Superblock, SuperblockError,
};
use onefold_engine::units::{Epoch, Pbn};
use proptest::prelude::*;

const ANCHOR: usize = at_superblock::LOG_TAIL.offset;

fn of(places: Vec<Places>) -> Superblock {
    let mut s = fresh();
    s.log_tail = Some(LogTail::of_new_log(0, places));
    s
}

#[test]
fn without_a_log_all_is_zero() {
    assert_eq!(fresh().log_tail, None);
    assert!(encoded(&fresh(), 0)[ANCHOR..][..at_superblock::LOG_TAIL.width].iter().all(|&byte| byte == 0));
    let mut emptied = eventful();
    emptied.set_log_live(false);
    emptied.log_tail = None;
    assert_eq!(Superblock::decode(&encoded(&emptied, 1), 1), Ok(emptied));
}

#[test]
fn the_shortest_and_the_fullest_come_back() {
    let last = fresh().geometry.data_blocks - 64;
    for places in [Vec::new(), vec![Places { first: Pbn(last), blocks: 64 }; PLACES_MAX]] {
        let s = of(places);
        assert_eq!(Superblock::decode(&encoded(&s, 0), 0), Ok(s));
    }
}

#[test]
fn places_outside_the_volume_are_refused() {
    let limit = fresh().geometry.data_blocks;
    let s = of(vec![Places { first: Pbn(limit - 1), blocks: 1 }]);
    let error = forged(&s, |page| page[ANCHOR + at::PLACES.offset + 5] = 2);
    assert_eq!(error, Err(SuperblockError::OutOfRange { field: "LOG_TAIL", value: limit + 1, limit }));
    for (byte, value) in [(5, 0), (5, 65), (4, 0xff)] {
        let error = forged(&s, |page| page[ANCHOR + at::PLACES.offset + byte] = value);
        assert_eq!(error, Err(SuperblockError::Places), "byte {byte} {value}");
    }
    let error = forged(&s, |page| page[ANCHOR + at::PLACES_COUNT.offset] = 33);
    assert_eq!(error, Err(SuperblockError::UnknownValue { field: "PLACES_COUNT", value: 33 }));
}

#[test]
fn units_to_scan_may_be_known_to_be_flushed_and_are_numbered_from_one() {
    let decoded = forged(&eventful(), |page| page[ANCHOR + at::FLUSHED_UPTO.offset] = 31).expect("a superblock that confirms");
    assert_eq!(decoded.log_tail.map(|log_tail| (log_tail.sequence, log_tail.flushed_upto)), Some((30, 31)));
    let error = forged(&of(Vec::new()), |page| {
        page[ANCHOR + at::SEQUENCE.offset] = 0;
        page[ANCHOR + at::EPOCH.offset] = 1;
    });
    assert_eq!(error, Err(SuperblockError::UnknownValue { field: "SEQUENCE", value: 0 }));
}

#[test]
fn a_barrier_lies_behind_the_log_tail_and_has_an_incarnation() {
    let mut s = eventful();
    let log_tail = s.log_tail.as_mut().expect("it has one");
    log_tail.barrier = Some(Barrier { sequence: log_tail.sequence, incarnation: 1 });
    let barred = |sequence: u8, incarnation: u8| {
        forged(&s, |page| {
            page[ANCHOR + at::BARRIER_SEQUENCE.offset] = sequence;
            page[ANCHOR + at::BARRIER_INCARNATION.offset] = incarnation;
        })
    };
    assert_eq!(barred(29, 1), Err(SuperblockError::UnknownValue { field: "BARRIER_SEQUENCE", value: 29 }));
    assert_eq!(barred(30, 0), Err(SuperblockError::UnknownValue { field: "BARRIER_SEQUENCE", value: 30 }));
    assert_eq!(barred(30, 1).map(|s| s.log_tail), Ok(s.log_tail.clone()));
}

#[test]
fn what_was_compacted_lies_before_the_log_scan() {
    let s = eventful();
    let log_tail = s.log_tail.clone().expect("it has one");
    assert_eq!((log_tail.compacted.since, log_tail.compacted.places.len(), log_tail.sequence), (20, 2, 30));
    let since = |value: u8| forged(&s, |page| page[ANCHOR + at::COMPACTED_SINCE.offset] = value).map(|_| ());
    let error = |value| Err(SuperblockError::UnknownValue { field: "COMPACTED_SINCE", value });
    assert_eq!([28, 29, 30].map(since), [Ok(()), error(29), error(30)]);
    let count = |value: u8| forged(&s, |page| page[ANCHOR + at::COMPACTED_COUNT.offset] = value);
    assert_eq!(count(129), Err(SuperblockError::UnknownValue { field: "COMPACTED_COUNT", value: 129 }));
    assert!(count(1).is_err(), "a run that is not counted");
    let nowhere = forged(&s, |page| page[ANCHOR + at::COMPACTED.offset + 4] = 0xff);
    assert_eq!(nowhere, Err(SuperblockError::Places));
    let limit = s.geometry.data_blocks;
    let outside = forged(&s, |page| page[ANCHOR + at::COMPACTED.offset + 3] = 1);
    assert!(matches!(outside, Err(SuperblockError::OutOfRange { field: "LOG_TAIL", limit: l, .. }) if l == limit), "{outside:?}");
}

#[test]
fn a_live_log_has_a_log_tail() {
    let mut s = eventful();
    assert!(s.is_log_live());
    s.set_log_live(false);
    assert_eq!((s.is_log_live(), s.features.incompatible), (false, 0));
    let error = forged(&fresh(), |page| page[at_superblock::FEATURES_INCOMPATIBLE.offset] = 1);
    assert_eq!(error, Err(SuperblockError::NoLogTail));
}

#[test]
#[should_panic(expected = "NoLogTail")]
fn a_live_log_without_a_log_tail_is_a_bug() {
    let mut s = fresh();
    s.set_log_live(true);
    let _ = encoded(&s, 0);
}

#[test]
fn no_number_of_the_log_tail_is_ahead_of_the_superblock() {
    let s = eventful();
    let of =
        |field: Field, value: u64| forged(&s, |page| page[ANCHOR + field.offset..][..8].copy_from_slice(&value.to_le_bytes())).map(|_| ());
    let blocks = s.geometry.data_blocks;
    for (field, limit) in [
        (at::SEQUENCE, s.last_log_sequence + 1),
        (at::INCARNATION, s.incarnation),
        (at::EPOCH, s.last_epoch.get()),
        // There are no more units than blocks, and the first has the number 30.
        (at::FLUSHED_UPTO, 29 + blocks),
    ] {
        assert_eq!(of(field, limit), Ok(()), "{} {limit}", field.name);
        for value in [limit + 1, 1 << 62, u64::MAX - 1, u64::MAX] {
            assert_eq!(of(field, value), Err(SuperblockError::OutOfRange { field: field.name, value, limit }));
        }
    }
    let barred = |sequence: u64, incarnation: u64| {
        forged(&s, |page| {
            page[ANCHOR + at::BARRIER_SEQUENCE.offset..][..8].copy_from_slice(&sequence.to_le_bytes());
            page[ANCHOR + at::BARRIER_INCARNATION.offset..][..8].copy_from_slice(&incarnation.to_le_bytes());
        })
        .map(|_| ())
    };
    assert_eq!(barred(29 + blocks, 17), Ok(()));
    for value in [30 + blocks, u64::MAX] {
        assert_eq!(barred(value, 17), Err(SuperblockError::OutOfRange { field: "BARRIER_SEQUENCE", value, limit: 29 + blocks }));
    }
    assert_eq!(barred(30, 18), Err(SuperblockError::OutOfRange { field: "BARRIER_INCARNATION", value: 18, limit: 17 }));
    let since = of(at::COMPACTED_SINCE, u64::MAX);
    assert_eq!(since, Err(SuperblockError::UnknownValue { field: "COMPACTED_SINCE", value: u64::MAX }));
}

proptest! {
    #[test]
    fn log_tails_come_back(
        sequence in 1..COUNTER_MAX / 2, incarnation in 0..COUNTER_MAX / 2, epoch in 0..COUNTER_MAX, flushed in 0..1000u64,
        places in proptest::collection::vec((0..10_000u64, 1..=64u8), 0..=PLACES_MAX),
        barrier in proptest::option::of((0..1000u64, 0..1000u64)),
        copies in proptest::collection::vec((0..10_000u64, 1..=64u8), 0..=COMPACTED_RUNS_MAX), back in 1..1000u64,
    ) {
        let places = places.into_iter().map(|(first, blocks)| Places { first: Pbn(first), blocks }).collect();
        let barrier = barrier.map(|(behind, later)| Barrier { sequence: sequence + behind, incarnation: incarnation + later + 1 });
        let copies: Vec<_> = copies.into_iter().map(|(first, blocks)| Places { first: Pbn(first), blocks }).collect();
        let since = if copies.is_empty() { 0 } else { sequence.saturating_sub(1 + back) };
        let compacted = Compacted { since, places: if sequence < 2 { Vec::new() } else { copies } };
        let mut s = eventful();
        let flushed_upto = sequence - 1 + flushed;
        let log_tail = LogTail { sequence, incarnation, epoch: Epoch(epoch), flushed_upto, places, barrier, compacted };
        (s.last_log_sequence, s.last_epoch, s.incarnation, s.log_tail) = (sequence - 1, Epoch(epoch), incarnation + 1000, Some(log_tail));
        prop_assert_eq!(Superblock::decode(&encoded(&s, 3), 3), Ok(s));
    }
}
