//! Properties that hold for all units: what is pushed comes back, in order, however it is split, and no bytes make the reader panic.

use super::Page;
use super::unit::{authenticator, eventful_unit, header, sealed};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::unit::{at, open, parse};
use onefold_engine::format::{
    COUNTER_MAX, EXTENT_PART_BLOCKS_MAX, FingerprintEntry, Kind, MapEntry, OldRun, PBN_MAX, Places, RECORD_BYTES_MAX, Record,
    UNIT_ROOM_BYTES, Unit, UnitHeader, UnitKind, UnitWriter,
};
use onefold_engine::units::{BLOCK_SIZE, Epoch, Lbn, Pbn, index};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

const LBNS: u64 = 1 << 40;

fn lbn() -> impl Strategy<Value = Lbn> {
    prop_oneof![4 => 0..1000u64, 2 => 0..LBNS, 1 => LBNS - 3..LBNS].prop_map(Lbn)
}

fn pbn() -> impl Strategy<Value = Pbn> {
    prop_oneof![4 => 0..1000u64, 2 => 0..=PBN_MAX.get(), 1 => PBN_MAX.get() - 3..=PBN_MAX.get()].prop_map(Pbn)
}

fn old() -> impl Strategy<Value = Option<Pbn>> {
    proptest::option::of(pbn())
}

/// Runs whose lengths add up to at most `room`.
fn olds(room: u64) -> impl Strategy<Value = Vec<OldRun>> {
    let run = || (old(), prop_oneof![3 => 1..4u64, 2 => 1..=room]);
    prop_oneof![8 => vec(run(), 1..20), 1 => vec(run(), 500..1200)].prop_map(move |runs| {
        let mut left = room;
        let fitted = runs.into_iter().filter_map(move |(first, blocks)| {
            let room = first.map_or(left, |first: Pbn| left.min(PBN_MAX - first + 1));
            let blocks = blocks.min(room);
            left -= blocks;
            (blocks > 0).then_some(OldRun { first, blocks })
        });
        fitted.collect()
    })
}

fn name() -> impl Strategy<Value = FingerprintEntry> {
    let kind = prop_oneof![Just(Kind::Fingerprint), Just(Kind::Checksum)];
    (kind, any::<[u8; 20]>()).prop_map(|(kind, bytes)| FingerprintEntry { kind, value: Fingerprint::of_digest(&bytes) })
}

/// A run of new blocks in parts that a record may have, each with some short name.
fn extent(lbn: Lbn, pbn: Pbn, olds: Vec<OldRun>, seed: u32) -> Record {
    let olds: Vec<OldRun> = olds.into_iter().map(|run| OldRun { blocks: run.blocks.min(EXTENT_PART_BLOCKS_MAX), ..run }).collect();
    let shorts =
        (0..olds.iter().map(|run| run.blocks).sum()).map(|i: u64| seed.rotate_left(u32::try_from(i % 32).unwrap()).max(1)).collect();
    Record::Extent { lbn, pbn, olds, shorts, is_apart: seed % 2 == 1 }
}

fn record() -> impl Strategy<Value = Record> {
    let to =
        prop_oneof![Just(MapEntry::Zero), Just(MapEntry::Unmapped), (pbn(), 0..16u8).prop_map(|(pbn, slot)| MapEntry::Block { pbn, slot })];
    let clear = prop_oneof![Just(MapEntry::Zero), Just(MapEntry::Unmapped)];
    prop_oneof![
        (lbn(), pbn(), old(), name()).prop_map(|(lbn, pbn, old, name)| Record::New { lbn, pbn, old, name }),
        (lbn(), to, old()).prop_map(|(lbn, to, old)| Record::Link { lbn, to, old }),
        (lbn(), pbn()).prop_flat_map(|(lbn, pbn)| {
            let room = (LBNS - lbn.get()).min(PBN_MAX - pbn + 1);
            (olds(room), any::<u32>()).prop_map(move |(olds, seed)| extent(lbn, pbn, olds, seed))
        }),
        (lbn(), clear).prop_flat_map(|(lbn, to)| olds(LBNS - lbn.get()).prop_map(move |olds| Record::Clear { lbn, to, olds })),
        pbn().prop_flat_map(|pbn| (1..=PBN_MAX - pbn + 1).prop_map(move |blocks| Record::Removed { pbn, blocks })),
        (pbn(), any::<[u8; 20]>()).prop_map(|(pbn, name)| Record::Carrier { pbn, authenticator: Fingerprint::of_digest(&name) }),
        (1..=COUNTER_MAX, btree_set(pbn(), 0..1200)).prop_map(|(first, lost)| {
            let first = if lost.is_empty() { 0 } else { first };
            Record::Closing { first, lost: lost.into_iter().collect() }
        }),
    ]
}

fn places() -> impl Strategy<Value = Vec<Places>> {
    let run = (pbn(), 1..=64u8).prop_map(|(first, blocks)| {
        let blocks = u64::from(blocks).min(PBN_MAX - first + 1);
        Places { first, blocks: u8::try_from(blocks).unwrap() }
    });
    vec(run, 0..=32)
}

/// Splits a record into records of one part each.
fn parts(record: &Record) -> Vec<Record> {
    let mut done = 0;
    let mut each = |olds: &[OldRun], make: &dyn Fn(u64, OldRun) -> Record| -> Vec<Record> {
        let part = |run: &OldRun| {
            done += run.blocks;
            make(done - run.blocks, *run)
        };
        olds.iter().map(part).collect()
    };
    match record {
        Record::Extent { lbn, pbn, olds, shorts, is_apart } => each(olds, &|n, run| {
            let shorts = shorts[index(n)..index(n + run.blocks)].to_vec();
            Record::Extent { lbn: *lbn + n, pbn: *pbn + n, olds: vec![run], shorts, is_apart: *is_apart }
        }),
        Record::NewRun { lbn, pbn, olds } => each(olds, &|n, run| Record::NewRun { lbn: *lbn + n, pbn: *pbn + n, olds: vec![run] }),
        Record::Clear { lbn, to, olds } => each(olds, &|n, run| Record::Clear { lbn: *lbn + n, to: *to, olds: vec![run] }),
        Record::Closing { first, lost } if !lost.is_empty() => {
            lost.iter().map(|&pbn| Record::Closing { first: *first, lost: vec![pbn] }).collect()
        }
        _ => vec![record.clone()],
    }
}

/// Encodes a decoded unit again. Its authenticator is zero, as in `without_authenticator`.
fn again(unit: &Unit, bytes: &Page) -> Page {
    let mut writer = UnitWriter::new(unit.places.clone());
    for slot in &unit.slots {
        assert!(writer.push_slot(slot.fingerprint, &bytes[slot.at.clone()]).is_some());
    }
    for record in &unit.records {
        assert_eq!(writer.push(record.clone()), None);
    }
    without_authenticator(sealed(writer, &unit.header).0)
}

fn without_authenticator(mut page: Page) -> Page {
    page[at::AUTHENTICATOR.offset..][..at::AUTHENTICATOR.width].fill(0);
    page
}

proptest! {
    #[test]
    fn what_is_pushed_until_full_comes_back_in_order(records in vec(record(), 1..150), places in places(), is_compacted: bool) {
        let (header, places) = if is_compacted {
            (UnitHeader { kind: UnitKind::Compacted, ..header() }, Vec::new())
        } else {
            (header(), places)
        };
        let fitting = |record| match record {
            Record::Closing { first, .. } if is_compacted => Record::Later { epochs: first.max(1) },
            Record::Extent { lbn, pbn, olds, .. } if is_compacted => Record::NewRun { lbn, pbn, olds },
            Record::Link { lbn, to: to @ MapEntry::Block { .. }, old } if is_compacted && lbn.get() % 2 == 0 => {
                Record::NewLink { lbn, to, old }
            }
            other => other,
        };
        let records: Vec<Record> = records.into_iter().map(fitting).collect();
        let mut waiting: Vec<Record> = records.iter().rev().cloned().collect();
        let mut read = Vec::new();
        while !waiting.is_empty() {
            let mut writer = UnitWriter::new(places.clone());
            let mut pushed = 0;
            while let Some(record) = waiting.pop() {
                let rest = writer.push(record.clone());
                pushed += u32::from(rest.as_ref() != Some(&record));
                if let Some(rest) = rest {
                    prop_assert!(writer.room_left() < RECORD_BYTES_MAX + index(4 * EXTENT_PART_BLOCKS_MAX), "it was full");
                    waiting.push(rest);
                    break;
                }
            }
            prop_assert_eq!(writer.record_count(), pushed);
            let room_left = writer.room_left();
            let (page, name) = sealed(writer, &header);
            let unit = open(&authenticator(), super::unit::PLACE, &page).expect("a unit");
            prop_assert_eq!(unit.authenticator, name);
            prop_assert_eq!(unit.header, header);
            prop_assert_eq!(&unit.places, &places);
            prop_assert_eq!(unit.records.len(), usize::try_from(pushed).unwrap());
            prop_assert!(page[BLOCK_SIZE - room_left..].iter().all(|&b| b == 0), "the room that is left is empty");
            prop_assert_eq!(again(&unit, &page), without_authenticator(page));
            read.extend(unit.records);
        }
        let expected: Vec<Record> = records.iter().flat_map(parts).collect();
        prop_assert_eq!(read.iter().flat_map(parts).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn slots_come_back(data in vec((any::<[u8; 20]>(), vec(any::<u8>(), 1..2000)), 0..20), records in vec(record(), 0..20)) {
        let mut writer = UnitWriter::new(Vec::new());
        let mut kept = Vec::new();
        for (digest, bytes) in &data {
            let name = Fingerprint::of_digest(digest);
            let room = writer.room_left();
            match writer.push_slot(name, bytes) {
                Some(number) => {
                    kept.push((name, bytes.as_slice()));
                    prop_assert_eq!(usize::from(number), kept.len());
                    prop_assert_eq!(writer.room_left(), room - bytes.len() - 24);
                }
                None => prop_assert!(kept.len() == 15 || room < bytes.len() + 24),
            }
        }
        records.into_iter().for_each(|record| drop(writer.push(record)));
        let (page, _) = sealed(writer, &header());
        let unit = open(&authenticator(), super::unit::PLACE, &page).expect("a unit");
        let read: Vec<_> = unit.slots.iter().map(|slot| (slot.fingerprint, &page[slot.at.clone()])).collect();
        prop_assert_eq!(read, kept);
        prop_assert_eq!(again(&unit, &page), without_authenticator(page.clone()));
    }

    #[test]
    fn headers_come_back(
        kind in proptest::sample::select(vec![UnitKind::Log, UnitKind::Pack, UnitKind::Compacted]),
        incarnation in 0..=COUNTER_MAX, ahead in 1..1u64 << 40, epoch in 0..=COUNTER_MAX, unit: u32, more in 1..1000u32,
        flushed_upto in 0..1u64 << 60, content_flushed: bool, pbn in pbn(),
    ) {
        let unit = unit.min(u32::MAX - more);
        let sequence = flushed_upto + u64::from(unit) + ahead;
        let (epoch, units) = (Epoch(epoch), unit + more);
        let header = UnitHeader { kind, incarnation, sequence, epoch, unit, units, flushed_upto, content_flushed };
        let mut page = Box::new([0; BLOCK_SIZE]);
        let name = UnitWriter::new(Vec::new()).seal(&authenticator(), &header, pbn, &mut page);
        let unit = open(&authenticator(), pbn, &page).expect("a unit");
        prop_assert_eq!((unit.header, unit.authenticator), (header, name));
        prop_assert!(open(&authenticator(), Pbn(pbn.get() ^ 1), &page).is_none());
    }

    /// The authenticator is not checked here. Changes aim at the front, where the lengths and the records are.
    #[test]
    fn no_unit_makes_its_reader_panic(
        changes in vec((prop_oneof![3 => 0..240usize, 1 => 0..BLOCK_SIZE], any::<u8>()), 0..6),
        random in proptest::option::weighted(0.2, vec(any::<u8>(), UNIT_ROOM_BYTES)),
    ) {
        let (mut page, _) = eventful_unit();
        if let Some(random) = random {
            page[BLOCK_SIZE - UNIT_ROOM_BYTES..].copy_from_slice(&random);
        }
        changes.into_iter().for_each(|(at, byte)| page[at] = byte);
        if let Some(unit) = parse(&page) {
            prop_assert_eq!(again(&unit, &page), without_authenticator(page), "one unit has one encoding");
        }
    }

    /// The records of the unit are arbitrary bytes.
    #[test]
    fn no_records_make_their_reader_panic(bytes in vec(prop_oneof![3 => 0..10u8, 2 => any::<u8>()], 0..60)) {
        let (mut page, _) = sealed(UnitWriter::new(Vec::new()), &header());
        page[at::RECORD_BYTES.offset] = u8::try_from(bytes.len()).unwrap();
        page[at::LAYOUT.bytes..][..bytes.len()].copy_from_slice(&bytes);
        if let Some(unit) = parse(&page) {
            prop_assert_eq!(again(&unit, &page), without_authenticator(page), "one record has one encoding");
        }
    }
}
