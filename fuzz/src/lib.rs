//! Code that the fuzz targets share.

/// An engine over a medium in memory, from the engine's own tests.
#[path = "../../engine/tests/road/machine.rs"]
pub mod machine;
/// The medium that the engine runs on.
#[path = "../../engine/tests/road/media.rs"]
pub mod media;

/// Damage by an attacker, as in `./dev hostile`.
#[path = "../../app/examples/hostile/craft.rs"]
pub mod craft;

pub mod volume;

use onefold_engine::fingerprint::{Algorithm, Fingerprint};
use onefold_engine::format::superblock::at;
use onefold_engine::format::{
    Authenticator, FingerprintEntry, Geometry, Key, MapEntry, OldRun, Places, Record, Superblock, Unit, UnitHeader, UnitKind, UnitWriter,
    Wish,
};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn};

/// The place of the units of the log.
pub const PLACE: Pbn = Pbn(77);

/// Makes the authenticator of units.
pub fn authenticator() -> Authenticator {
    Authenticator::new(&Key([9; 32]), &[7; 16])
}

/// Makes the header of a unit of the log.
pub fn unit_header() -> UnitHeader {
    UnitHeader {
        kind: UnitKind::Log,
        incarnation: 1,
        sequence: 9,
        epoch: Epoch(5),
        unit: 1,
        units: 2,
        flushed_upto: 7,
        content_flushed: false,
    }
}

/// Makes a unit with records of every kind.
pub fn sound_unit() -> Box<[u8; BLOCK_SIZE]> {
    let (lbn, pbn, old) = (Lbn(3), Pbn(5), Some(Pbn(8)));
    let olds = vec![OldRun { first: None, blocks: 2 }, OldRun { first: old, blocks: 300 }];
    let records = [
        Record::New { lbn, pbn, old, name: FingerprintEntry::of(Fingerprint([1; 20])) },
        Record::Link { lbn, to: MapEntry::Block { pbn, slot: 2 }, old: None },
        Record::Link { lbn, to: MapEntry::Zero, old },
        Record::Extent { lbn, pbn, olds: vec![OldRun { first: None, blocks: 2 }], shorts: vec![1, 2], is_apart: true },
        Record::Clear { lbn, to: MapEntry::Unmapped, olds },
        Record::Removed { pbn, blocks: 7 },
        Record::Closing { first: 4, lost: vec![Pbn(0), Pbn(9)] },
    ];
    let mut writer = UnitWriter::new(vec![Places { first: Pbn(78), blocks: 60 }, Places { first: Pbn(9), blocks: 1 }]);
    assert_eq!(writer.push_slot(Fingerprint([2; 20]), b"one"), Some(1));
    assert_eq!(writer.push_slot(Fingerprint([3; 20]), b"another"), Some(2));
    records.into_iter().for_each(|record| assert_eq!(writer.push(record), None));
    sealed(writer, &unit_header())
}

/// Seals the unit of a writer.
pub fn sealed(writer: UnitWriter, header: &UnitHeader) -> Box<[u8; BLOCK_SIZE]> {
    let mut page = Box::new([0; BLOCK_SIZE]);
    let _ = writer.seal(&authenticator(), header, PLACE, &mut page);
    page
}

/// Encodes the decoded content of these bytes again.
pub fn again(unit: &Unit, bytes: &[u8; BLOCK_SIZE]) -> Box<[u8; BLOCK_SIZE]> {
    let mut writer = UnitWriter::new(unit.places.clone());
    for slot in &unit.slots {
        assert!(writer.push_slot(slot.fingerprint, &bytes[slot.at.clone()]).is_some(), "a slot that was there has room");
    }
    for record in &unit.records {
        assert_eq!(writer.push(record.clone()), None, "a record that was there has room");
    }
    sealed(writer, &unit.header)
}

/// Gives a page the checksum of a superblock with these fields.
pub fn repair_superblock(page: &mut [u8; BLOCK_SIZE]) {
    let checksum = crc32c::crc32c(&page[..at::CHECKSUM.offset]);
    page[at::CHECKSUM.offset..][..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Makes the superblock of a new volume, as copy number `copy`.
pub fn sound_superblock(copy: usize) -> Box<[u8; BLOCK_SIZE]> {
    let geometry = Geometry::plan(Bytes(64 << 20), &Wish::default()).expect("64 MiB are enough");
    let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &Settings::default());
    let mut page = Box::new([0; BLOCK_SIZE]);
    superblock.encode(copy, &mut page);
    page
}

/// Writes pieces of {position (2 bytes), length (1 byte), bytes} over a page.
pub fn overlay(page: &mut [u8; BLOCK_SIZE], mut pieces: &[u8]) {
    while let [low, high, length, tail @ ..] = pieces {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % BLOCK_SIZE;
        let length = usize::from(*length).min(tail.len()).min(BLOCK_SIZE - at);
        page[at..at + length].copy_from_slice(&tail[..length]);
        pieces = &tail[length..];
    }
}
