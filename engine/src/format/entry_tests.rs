//! Tests of entries.

use super::*;

#[test]
fn map_entries_have_these_bytes() {
    assert_eq!(MapEntry::Unmapped.encode(), [0; 5]);
    assert_eq!(MapEntry::Zero.encode(), [1, 0, 0, 0, 0]);
    assert_eq!(MapEntry::Lost.encode(), [2, 0, 0, 0, 0]);
    assert_eq!(MapEntry::Block { pbn: Pbn(0), slot: 0 }.encode(), [16, 0, 0, 0, 0]);
    assert_eq!(MapEntry::Block { pbn: Pbn(0x1_2345_6789), slot: 11 }.encode(), [0x99, 0x67, 0x45, 0x23, 0xb1]);
    assert_eq!(MapEntry::Block { pbn: PBN_MAX, slot: 15 }.encode(), [0xff; 5]);
}

#[test]
fn map_entries_come_back() {
    for entry in [
        MapEntry::Unmapped,
        MapEntry::Zero,
        MapEntry::Lost,
        MapEntry::Block { pbn: Pbn(0), slot: 0 },
        MapEntry::Block { pbn: Pbn(77), slot: 9 },
        MapEntry::Block { pbn: PBN_MAX, slot: 15 },
    ] {
        assert_eq!(MapEntry::decode(&entry.encode()), Ok(entry));
    }
}

#[test]
fn reserved_map_values_are_refused() {
    for value in 3..16 {
        assert_eq!(MapEntry::decode(&[value, 0, 0, 0, 0]), Err(BadEntry::Map { value: u64::from(value), slot: 0 }));
    }
    for value in 0..16 {
        assert!(MapEntry::decode(&[value, 0, 0, 0, 0x10]).is_err(), "value {value} has no slot 1");
    }
}

#[test]
#[should_panic(expected = "no map entry can name")]
fn a_block_beyond_36_bits_has_no_entry() {
    let _ = MapEntry::Block { pbn: PBN_MAX + 1, slot: 0 }.encode();
}

#[test]
fn fingerprint_entries_come_back() {
    let value = Fingerprint::of_digest(&[0xff; 20]);
    for kind in [Kind::Fingerprint, Kind::Checksum, Kind::Carrier] {
        for value in [value, FingerprintEntry::NONE.value] {
            let entry = FingerprintEntry { kind, value };
            assert_eq!(FingerprintEntry::decode(&entry.encode()), Ok(entry));
        }
    }
    assert_eq!(FingerprintEntry::decode(&[0; 20]), Ok(FingerprintEntry::NONE));
    assert_eq!(FingerprintEntry { kind: Kind::Fingerprint, value }.encode()[19], 0b0111_1111);
    assert_eq!(FingerprintEntry { kind: Kind::Carrier, value }.encode()[19], 0xff);
}

#[test]
fn a_suspect_entry_says_what_its_block_holds_and_names_no_duplicate() {
    let fingerprinter = Fingerprinter::new(crate::fingerprint::Algorithm::Blake3, [7; 32]);
    let (block, other) = ([3; BLOCK_SIZE], [4; BLOCK_SIZE]);
    let Digest::Of(value) = fingerprinter.digest(&block) else { panic!("it is not zero") };
    let (whole, checksum) = (FingerprintEntry::of(value), FingerprintEntry::of_checksum(fingerprinter.checksum(&block)));
    let suspect = whole.suspect();
    assert!(suspect.is_suspect() && suspect.kind != Kind::Fingerprint && suspect.short().is_none());
    assert_eq!(suspect.is_of(&fingerprinter, &block), Some(true));
    assert_eq!(suspect.is_of(&fingerprinter, &other), Some(false));
    assert!(suspect.proves(&fingerprinter, Digest::Of(value), &block));
    assert_eq!((suspect.suspect(), FingerprintEntry::decode(&suspect.encode())), (suspect, Ok(suspect)));
    for found in [whole, checksum, FingerprintEntry::of_short(value.short()), FingerprintEntry::NONE] {
        assert!(!found.is_suspect(), "{found:?}");
    }
    assert_eq!(checksum.suspect(), checksum, "nothing is found by a checksum");
}

#[test]
fn kind_none_with_a_value_is_refused() {
    let mut bytes = [0; 20];
    bytes[3] = 1;
    assert_eq!(FingerprintEntry::decode(&bytes), Err(BadEntry::Fingerprint { value: Fingerprint(bytes) }));
}
