//! Units of the log: a sealed unit opens only at its place and with its volume's key, and bytes that no encoder writes are refused.

use super::{Page, UUID, fresh};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::unit::{at, at_slot, open, parse, slots};
use onefold_engine::format::{
    Authenticator, COUNTER_MAX, FingerprintEntry, Key, Kind, MapEntry, OldRun, PBN_MAX, Places, RECORD_BYTES_MAX, Record, SLOTS_MAX,
    UNIT_ROOM_BYTES, Unit, UnitHeader, UnitKind, UnitWriter,
};
use onefold_engine::units::{BLOCK_SIZE, Epoch, Lbn, Pbn};

pub const PLACE: Pbn = Pbn(0xa_0b0c_0d0e);

pub fn authenticator() -> Authenticator {
    Authenticator::new(&Key([7; 32]), &UUID)
}

pub fn header() -> UnitHeader {
    UnitHeader {
        kind: UnitKind::Log,
        incarnation: 0x0102_0304_0506_0708,
        sequence: 0x1112_1314_1516_1718,
        epoch: Epoch(0x2122_2324_2526_2728),
        unit: 1,
        units: 3,
        flushed_upto: 0x101,
        content_flushed: false,
    }
}

pub fn places() -> Vec<Places> {
    vec![Places { first: Pbn(5), blocks: 64 }, Places { first: Pbn(0x9_8765_4321), blocks: 1 }]
}

/// Records of several kinds.
pub fn records() -> Vec<Record> {
    let name = FingerprintEntry::of(Fingerprint::of_digest(&[0xab; 20]));
    let checksum = FingerprintEntry { kind: Kind::Checksum, ..FingerprintEntry::NONE };
    let block = |pbn, slot| MapEntry::Block { pbn: Pbn(pbn), slot };
    let run = |first: Option<u64>, blocks| OldRun { first: first.map(Pbn), blocks };
    vec![
        Record::New { lbn: Lbn(1000), pbn: Pbn(70), old: None, name },
        Record::New { lbn: Lbn(1001), pbn: Pbn(71), old: Some(Pbn(3)), name: checksum },
        Record::Link { lbn: Lbn(5), to: block(70, 0), old: Some(Pbn(4)) },
        Record::Link { lbn: Lbn(7), to: block(0x1_2345_6789, 11), old: None },
        Record::Link { lbn: Lbn(8), to: MapEntry::Zero, old: Some(Pbn(900)) },
        Record::Link { lbn: Lbn(9), to: MapEntry::Unmapped, old: None },
        Record::Extent {
            lbn: Lbn(1 << 39),
            pbn: Pbn(1 << 30),
            olds: vec![run(None, 2), run(Some(1), 1)],
            shorts: vec![1, 0x0403_0201, u32::MAX],
            is_apart: false,
        },
        Record::Clear { lbn: Lbn(0), to: MapEntry::Zero, olds: vec![run(Some(0), 1)] },
        Record::Clear { lbn: Lbn(2), to: MapEntry::Unmapped, olds: vec![run(None, 1 << 35), run(Some(77), 2)] },
        // All three count on from the runs.
        Record::Link { lbn: Lbn((1 << 35) + 4), to: block((1 << 30) + 3, 1), old: Some(Pbn(79)) },
        Record::Removed { pbn: Pbn(78), blocks: 400 },
        Record::Closing { first: 0, lost: Vec::new() },
        Record::Closing { first: 17, lost: vec![Pbn(0), Pbn(9), Pbn(300)] },
    ]
}

/// A unit with places, slots and records, and its authenticator.
pub fn eventful_unit() -> (Page, Fingerprint) {
    let mut writer = UnitWriter::new(places());
    assert_eq!(writer.push_slot(Fingerprint::of_digest(&[0xff; 20]), b"carried"), Some(1));
    assert_eq!(writer.push_slot(Fingerprint::of_digest(&[1; 20]), b"too"), Some(2));
    for (record, number) in records().into_iter().zip(0..) {
        assert_eq!(writer.record_count(), number);
        assert_eq!(writer.push(record), None);
    }
    sealed(writer, &header())
}

pub fn sealed(writer: UnitWriter, header: &UnitHeader) -> (Page, Fingerprint) {
    let mut page = Box::new([0xee; BLOCK_SIZE]);
    let name = writer.seal(&authenticator(), header, PLACE, &mut page);
    (page, name)
}

fn opened(page: &Page) -> Unit {
    open(&authenticator(), PLACE, page).expect("a unit")
}

/// Returns whether a unit that was sound is refused after this change.
pub fn refused(writer: UnitWriter, change: impl FnOnce(&mut Page)) -> bool {
    let (mut page, _) = sealed(writer, &header());
    assert!(parse(&page).is_some(), "without the change it is a unit");
    change(&mut page);
    parse(&page).is_none()
}

#[test]
fn units_come_back() {
    let (page, authenticator) = eventful_unit();
    let unit = opened(&page);
    assert_eq!((unit.header, unit.places, unit.records), (header(), places(), records()));
    assert_eq!(unit.authenticator, authenticator);
    let slots: Vec<_> = unit.slots.into_iter().map(|slot| (slot.fingerprint, &page[slot.at])).collect();
    assert_eq!(slots, [(Fingerprint::of_digest(&[0xff; 20]), &b"carried"[..]), (Fingerprint::of_digest(&[1; 20]), b"too")]);
}

#[test]
fn the_slots_of_a_unit_are_found_up_to_the_most_that_it_may_have() {
    for number in [0, 1, SLOTS_MAX] {
        let mut writer = UnitWriter::new(places());
        (0..number).for_each(|_| assert!(writer.push_slot(Fingerprint::of_digest(&[1; 20]), b"x").is_some()));
        let (page, _) = sealed(writer, &header());
        let found = slots(&page).expect("a unit");
        assert_eq!((found.len(), found), (number, opened(&page).slots));
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (good, _) = eventful_unit();
    let authenticator = authenticator();
    for bit in 0..BLOCK_SIZE * 8 {
        let mut page = good.clone();
        page[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&authenticator, PLACE, &page), None, "bit {bit}");
    }
}

#[test]
fn a_unit_is_one_at_its_place_of_its_volume_only() {
    let (page, _) = eventful_unit();
    for pbn in [Pbn(0), PLACE + 1, PBN_MAX] {
        assert_eq!(open(&authenticator(), pbn, &page), None, "{pbn}");
    }
    assert_eq!(open(&Authenticator::new(&Key([8; 32]), &UUID), PLACE, &page), None, "another key");
    assert_eq!(open(&Authenticator::new(&Key([7; 32]), &[0; 16]), PLACE, &page), None, "another UUID");
    let superblock = fresh();
    assert!(open(&superblock.authenticator(), PLACE, &page).is_some(), "the volume's own");
}

#[test]
fn a_torn_unit_is_none() {
    let (old, _) = sealed(UnitWriter::new(places()), &header());
    let (new, _) = eventful_unit();
    for sector in 1..8 {
        let mut torn = old.clone();
        torn[..sector * 512].copy_from_slice(&new[..sector * 512]);
        assert_eq!(open(&authenticator(), PLACE, &torn), None, "{sector} sectors of the new");
    }
}

#[test]
fn clients_blocks_are_no_units() {
    for page in [[0; BLOCK_SIZE], [0xff; BLOCK_SIZE]] {
        assert_eq!((open(&authenticator(), PLACE, &page), parse(&page)), (None, None));
    }
}

#[test]
fn headers_without_meaning_are_refused() {
    let writer = || UnitWriter::new(places());
    for (field, value) in [
        (at::MAGIC, 0),
        (at::KIND, 0),
        (at::KIND, 4),
        (at::PLACES_COUNT, 33),
        (at::SLOT_COUNT, 16),
        (at::FLAGS, 2),
        (at::FLAGS, 0x81),
        (at::RECORD_BYTES, 0xff),
        (at::UNIT, 3),
        (at::UNITS, 1),
    ] {
        assert!(refused(writer(), |page| page[field.offset] = value), "{} {value}", field.name);
    }
    // Flushed up to the unit itself, or into its epoch.
    for flushed in [0x1112_1314_1516_1718_u64, 0x1112_1314_1516_1717] {
        assert!(refused(writer(), |page| page[at::FLUSHED_UPTO.offset..][..8].copy_from_slice(&flushed.to_le_bytes())));
    }
    assert!(refused(writer(), |page| page[at::KIND.offset] = 2), "a pack with places");
    assert!(!refused(writer(), |page| page[at::FLAGS.offset] = 1), "its content may have been flushed before");
    assert!(refused(writer(), |page| page[at::KIND.offset] = 3), "a compacted unit with places");
    let is_a_unit = |kind, record: Record| {
        let mut writer = UnitWriter::new(Vec::new());
        assert_eq!(writer.push(record), None);
        parse(&sealed(writer, &UnitHeader { kind, ..header() }).0).is_some()
    };
    let (later, closing) = (Record::Later { epochs: 1 }, Record::Closing { first: 0, lost: Vec::new() });
    assert!(!is_a_unit(UnitKind::Log, later.clone()) && is_a_unit(UnitKind::Compacted, later), "a unit of the log scan is of one epoch");
    assert!(is_a_unit(UnitKind::Log, closing.clone()) && !is_a_unit(UnitKind::Compacted, closing), "closing records are not copied");
}

#[test]
fn counters_that_could_wrap_are_refused() {
    for field in [at::INCARNATION, at::SEQUENCE, at::EPOCH, at::FLUSHED_UPTO] {
        let of = |value: u64| {
            refused(UnitWriter::new(places()), |page| {
                // Whatever was flushed before it lies before it.
                page[at::SEQUENCE.offset..][..8].copy_from_slice(&COUNTER_MAX.to_le_bytes());
                page[field.offset..][..8].copy_from_slice(&value.to_le_bytes());
            })
        };
        let limit = if field == at::FLUSHED_UPTO { COUNTER_MAX - 2 } else { COUNTER_MAX };
        assert!(!of(limit), "{} {limit}", field.name);
        for value in [limit + 1, 1 << 63, u64::MAX] {
            assert!(of(value), "{} {value}", field.name);
        }
    }
}

#[test]
fn places_that_no_volume_has_are_refused() {
    let first = at::LAYOUT.bytes;
    let writer = || UnitWriter::new(places());
    assert!(refused(writer(), |page| page[first + 5] = 0), "a run of none");
    assert!(refused(writer(), |page| page[first + 5] = 65), "a run too long");
    assert!(refused(writer(), |page| page[first + 4] = 0x10), "a block of 37 bits");
    let last = UnitWriter::new(vec![Places { first: PBN_MAX, blocks: 1 }]);
    assert!(refused(last, |page| page[first + 5] = 2), "beyond the last block");
}

#[test]
fn slots_lie_at_the_end_without_gaps() {
    let writer = || {
        let mut writer = UnitWriter::new(Vec::new());
        assert_eq!(writer.push_slot(Fingerprint::of_digest(&[1; 20]), &[1; 100]), Some(1));
        assert_eq!(writer.push_slot(Fingerprint::of_digest(&[2; 20]), &[2; 100]), Some(2));
        writer
    };
    let table = at::LAYOUT.bytes;
    for slot in [table, table + at_slot::LAYOUT.bytes] {
        for (field, value) in [(at_slot::OFFSET, 0x55), (at_slot::LENGTH, 99), (at_slot::LENGTH, 0)] {
            assert!(refused(writer(), |page| page[slot + field.offset] = value), "{} {value}", field.name);
        }
        assert!(refused(writer(), |page| page[slot + at_slot::FINGERPRINT.offset + 19] |= 0x40), "159 bits");
    }
    assert!(refused(writer(), |page| page[BLOCK_SIZE - 201] = 1), "no padding");
    assert!(!refused(writer(), |page| page[BLOCK_SIZE - 200] = 1), "data may be anything");
}

#[test]
fn the_table_of_slots_has_an_end() {
    let mut writer = UnitWriter::new(Vec::new());
    for number in 1..=SLOTS_MAX {
        assert_eq!(writer.push_slot(Fingerprint::of_digest(&[3; 20]), &[7]), u8::try_from(number).ok());
    }
    assert_eq!(writer.push_slot(Fingerprint::of_digest(&[3; 20]), &[7]), None, "a slot too many");
    assert_eq!(writer.room_left(), UNIT_ROOM_BYTES - 25 * SLOTS_MAX);
    assert_eq!(opened(&sealed(writer, &header()).0).slots.len(), SLOTS_MAX);

    let mut writer = UnitWriter::new(Vec::new());
    let name = Fingerprint::of_digest(&[4; 20]);
    assert_eq!(writer.push_slot(name, &[7; UNIT_ROOM_BYTES - 23]), None, "a byte too many");
    assert_eq!(writer.push_slot(name, &[7; UNIT_ROOM_BYTES - 24]), Some(1));
    assert_eq!(writer.room_left(), 0);
    assert_eq!(writer.push(Record::Removed { pbn: Pbn(0), blocks: 1 }), Some(Record::Removed { pbn: Pbn(0), blocks: 1 }));
    let pack = UnitHeader { kind: UnitKind::Pack, ..header() };
    assert_eq!(opened(&sealed(writer, &pack).0).slots[0].at, BLOCK_SIZE - UNIT_ROOM_BYTES + 24..BLOCK_SIZE);
}

#[test]
fn records_have_these_lengths() {
    let bytes = |record: Record| {
        let mut writer = UnitWriter::new(Vec::new());
        let room = writer.room_left();
        assert_eq!(writer.push(record), None);
        room - writer.room_left()
    };
    // A volume of 64 GiB: 24 bits of LBN and PBN. One far from all others, and one right behind.
    let far = |n: u64| Pbn((1 << 24) - 1 - n);
    let name = FingerprintEntry::of(Fingerprint::of_digest(&[5; 20]));
    let lbn = Lbn((1 << 24) - 1);
    assert_eq!(bytes(Record::Link { lbn, to: MapEntry::Block { pbn: far(0), slot: 3 }, old: Some(far(1)) }), 13);
    assert_eq!(bytes(Record::New { lbn, pbn: far(0), old: Some(far(1)), name }), 33);
    assert_eq!(bytes(Record::New { lbn: Lbn(0), pbn: Pbn(0), old: None, name }), 24);
    assert_eq!(bytes(Record::Link { lbn: Lbn(0), to: MapEntry::Unmapped, old: None }), 3);
    assert_eq!(bytes(Record::Removed { pbn: Pbn(0), blocks: 127 }), 3);
    // The farthest of all.
    let (lbn, pbn) = (Lbn((1 << 40) - 1), PBN_MAX);
    let olds = vec![OldRun { first: Some(pbn), blocks: 1 }];
    let whole = vec![OldRun { first: Some(Pbn(0)), blocks: 32 }];
    let longest = [
        Record::New { lbn, pbn, old: Some(pbn), name },
        Record::Link { lbn, to: MapEntry::Block { pbn, slot: 15 }, old: Some(pbn) },
        Record::Extent { lbn, pbn, olds: olds.clone(), shorts: vec![1], is_apart: false },
        Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds: whole, shorts: vec![9; 32], is_apart: true },
        Record::Clear { lbn: Lbn(0), to: MapEntry::Zero, olds: vec![OldRun { first: None, blocks: 1 << 40 }] },
        Record::Clear { lbn, to: MapEntry::Zero, olds },
        Record::Removed { pbn, blocks: 1 },
        Record::Closing { first: COUNTER_MAX, lost: vec![PBN_MAX] },
    ];
    assert_eq!(longest.map(bytes), [RECORD_BYTES_MAX, 19, 24, 133, 9, 14, 8, 16]);
}

#[test]
fn records_that_nobody_writes_are_refused() {
    let is_unit = |bytes: &[u8]| {
        let (mut page, _) = sealed(UnitWriter::new(Vec::new()), &header());
        page[at::RECORD_BYTES.offset] = u8::try_from(bytes.len()).expect("a few bytes");
        page[at::LAYOUT.bytes..][..bytes.len()].copy_from_slice(bytes);
        parse(&page).is_some()
    };
    let new = |kind: u8| [&[1, 0, 0, 0][..], &[0; 19], &[kind << 6]].concat();
    for sound in [
        &[3, 0, 0][..],
        &[0xf2, 0, 0, 0],
        &[6, 0, 2, 0],
        &[7, 0, 3, 0, 2, 1],
        &[8, 0, 1],
        &[9],
        &[5, 0, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 1],
        &[&[5, 0, 0, 64, 0][..], &[1; 128]].concat(),
        &[0x19, 1, 0],
        &[0x19, 1, 1, 0],
        &new(1),
        &new(2),
    ] {
        assert!(is_unit(sound), "{sound:x?}");
    }
    for (bytes, why) in [
        (&[0][..], "no kind"),
        (&[10, 0, 0, 0], "a kind that is kept"),
        (&[15, 0, 0, 2, 0], "a new block's link outside of compacted units"),
        (&[5, 0, 0, 2, 0, 1, 0, 0], "half a short name"),
        (&[5, 0, 0, 2, 0, 0, 0, 0, 0], "a short name of zeros"),
        (&[&[5, 0, 0, 66, 0][..], &[1; 132]].concat(), "a part of 33 blocks"),
        (&[0x13, 0, 0], "a slot of zeros"),
        (&[0x25, 0, 0, 2, 0, 1, 0, 0, 0], "a run of another kind"),
        (&[0x29, 0, 0], "a closing record of another kind"),
        (&[9, 0, 0], "a closing record that drops nothing, and more"),
        (&[0x19], "a closing record that ends too soon"),
        (&[0x19, 0, 0], "a closing record of no unit"),
        (&[0x19, 1, 1], "a closing record without its next block"),
        (&[0x19, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 8], "a lost block of 37 bits"),
        (&[3, 0], "no old"),
        (&[3, 0x80, 0, 0], "a number that is too long"),
        (&[3, 1, 0], "an LBN below 0"),
        (&[3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0], "an LBN of 41 bits"),
        (&[8, 0x80, 0x80, 0x80, 0x80, 0x80, 4, 1], "a block of 37 bits"),
        (&[8, 0, 0], "names of no block"),
        (&[8, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 2], "names of blocks beyond the last"),
        (&[6, 0, 0, 0], "a run of none"),
        (&[6, 0, 3, 0], "a run without its next part"),
        (&[6, 0, 4, 0, 0], "a byte more"),
        (&new(0), "a block without a name"),
        (&new(3), "a carrier's name"),
        (&new(1)[..23], "half a name"),
    ] {
        assert!(!is_unit(bytes), "{why}: {bytes:x?}");
    }
}

#[test]
fn what_no_log_says_is_a_bug() {
    let name = FingerprintEntry::of(Fingerprint::of_digest(&[5; 20]));
    let run = |blocks| OldRun { first: None, blocks };
    for record in [
        Record::Link { lbn: Lbn(0), to: MapEntry::Lost, old: None },
        Record::Link { lbn: Lbn(0), to: MapEntry::Block { pbn: Pbn(0), slot: 16 }, old: None },
        Record::Link { lbn: Lbn(1 << 40), to: MapEntry::Zero, old: None },
        Record::Link { lbn: Lbn(0), to: MapEntry::Zero, old: Some(PBN_MAX + 1) },
        Record::New { lbn: Lbn(0), pbn: Pbn(0), old: None, name: FingerprintEntry::NONE },
        Record::New { lbn: Lbn(0), pbn: Pbn(0), old: None, name: FingerprintEntry { kind: Kind::Carrier, ..name } },
        Record::New { lbn: Lbn(0), pbn: PBN_MAX + 1, old: None, name },
        Record::New { lbn: Lbn(1 << 40), pbn: Pbn(0), old: None, name },
        Record::New { lbn: Lbn(0), pbn: Pbn(0), old: Some(PBN_MAX + 1), name },
        Record::NewLink { lbn: Lbn(0), to: MapEntry::Zero, old: None },
        Record::NewLink { lbn: Lbn(0), to: MapEntry::Block { pbn: PBN_MAX + 1, slot: 0 }, old: None },
        Record::NewLink { lbn: Lbn(0), to: MapEntry::Block { pbn: Pbn(0), slot: 16 }, old: None },
        Record::NewLink { lbn: Lbn(1 << 40), to: MapEntry::Block { pbn: Pbn(0), slot: 0 }, old: None },
        Record::NewLink { lbn: Lbn(0), to: MapEntry::Block { pbn: Pbn(0), slot: 0 }, old: Some(PBN_MAX + 1) },
        Record::Carrier { pbn: PBN_MAX + 1, authenticator: name.value },
        Record::Carrier { pbn: Pbn(0), authenticator: Fingerprint([0xff; 20]) },
        Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds: Vec::new(), shorts: Vec::new(), is_apart: false },
        Record::Extent { lbn: Lbn(0), pbn: PBN_MAX, olds: vec![run(2)], shorts: vec![1, 1], is_apart: false },
        Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds: vec![run(1), run(0)], shorts: vec![1], is_apart: false },
        Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds: vec![run(33)], shorts: vec![1; 33], is_apart: false },
        Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds: vec![run(2)], shorts: vec![1], is_apart: false },
        Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds: vec![run(2)], shorts: vec![1, 0], is_apart: false },
        Record::Extent { lbn: Lbn((1 << 40) - 1), pbn: Pbn(0), olds: vec![run(2)], shorts: vec![1, 1], is_apart: false },
        Record::NewRun { lbn: Lbn(0), pbn: PBN_MAX, olds: vec![run(2)] },
        Record::NewRun { lbn: Lbn((1 << 40) - 1), pbn: Pbn(0), olds: vec![run(2)] },
        Record::Clear { lbn: Lbn(0), to: MapEntry::Block { pbn: Pbn(0), slot: 0 }, olds: vec![run(1)] },
        Record::Clear { lbn: Lbn(1), to: MapEntry::Zero, olds: vec![run(1 << 40)] },
        Record::Clear { lbn: Lbn(1), to: MapEntry::Zero, olds: vec![run(1), run(u64::MAX)] },
        Record::Clear { lbn: Lbn(0), to: MapEntry::Zero, olds: vec![OldRun { first: Some(PBN_MAX), blocks: 2 }] },
        Record::Removed { pbn: PBN_MAX, blocks: 2 },
        Record::Removed { pbn: Pbn(0), blocks: 0 },
        Record::Closing { first: 1, lost: Vec::new() },
        Record::Closing { first: 0, lost: vec![Pbn(1)] },
        Record::Closing { first: 1, lost: vec![Pbn(1), Pbn(1)] },
        Record::Closing { first: 1, lost: vec![PBN_MAX + 1] },
        Record::Closing { first: COUNTER_MAX + 1, lost: vec![Pbn(1)] },
        Record::Later { epochs: 0 },
        Record::Later { epochs: COUNTER_MAX + 1 },
    ] {
        let shown = format!("{record:?}");
        let pushed = std::panic::catch_unwind(|| drop(UnitWriter::new(Vec::new()).push(record)));
        assert!(pushed.is_err(), "{shown}");
    }
}
