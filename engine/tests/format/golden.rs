//! The bytes of this format version, pinned. A change here is a change of the format: it needs a new version number (`docs/format.md`).
//! The values come from a second encoder, written in Python from `docs/format.md` alone, not from the code under test.

use super::unit::eventful_unit;
use super::{UUID, encoded, eventful, fresh};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::page::seal;
use onefold_engine::format::{FingerprintEntry, Kind, MapEntry, PageContent, PageId, Region, StartSettings};
use onefold_engine::settings::Compression;
use onefold_engine::units::{BLOCK_SIZE, Pbn, count};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().concat()
}

fn sealed(region: Region, fill: impl Fn(&mut PageContent, usize)) -> [u8; BLOCK_SIZE] {
    let mut page = PageContent::empty();
    (0..usize::try_from(region.entries_per_page()).unwrap()).for_each(|i| fill(&mut page, i));
    (0..8).for_each(|sector| page.set_tag(sector, 0x1122_3344_5566_7700 + count(sector)));
    let mut bytes = [0; BLOCK_SIZE];
    seal(&UUID, PageId { region, index: 0x0a0b_0c0d }, &mut page, &mut bytes);
    bytes
}

fn small(i: usize) -> u8 {
    u8::try_from(i % 251).unwrap()
}

#[test]
fn a_written_page() {
    let bytes = sealed(Region::Written, |page, i| page.set_bit(i, i % 9 < 2));
    assert_eq!(hex(&bytes[..12]), "03060c183060c0800103060c");
    assert_eq!(hex(&bytes[500..512]), "0077665544332211f67aea8a");
    assert_eq!(crc32c::crc32c(&bytes), 0x30fa_ea70);
}

#[test]
fn a_refs_page() {
    let bytes = sealed(Region::Refs, |page, i| page.set_refs(i, small(i)));
    assert_eq!(hex(&bytes[..4]), "00010203");
    assert_eq!(hex(&bytes[500..512]), "007766554433221188c9948b");
    assert_eq!(crc32c::crc32c(&bytes), 0x9cd4_8bcf);
}

#[test]
fn a_fingerprints_page() {
    let kinds = [Kind::Fingerprint, Kind::Checksum, Kind::Carrier];
    let bytes = sealed(Region::Fingerprints, |page, i| {
        page.set_fingerprint(i, FingerprintEntry { kind: kinds[i % 3], value: Fingerprint::of_digest(&[small(i); 20]) });
    });
    assert_eq!(hex(&bytes[..40]), ["00".repeat(19), "40".into(), "01".repeat(19), "81".into()].concat());
    assert_eq!(hex(&bytes[500..512]), "007766554433221191469811");
    assert_eq!(crc32c::crc32c(&bytes), 0xdd53_2dd4);
}

/// The entries of blocks that were found damaged: kind 2 with its highest bit set; kind 3 without slots.
#[test]
fn entries_of_suspects() {
    let suspect = |kind, byte: u8| hex(&FingerprintEntry { kind, value: Fingerprint::of_digest(&[byte; 20]) }.suspect().encode());
    assert_eq!(suspect(Kind::Fingerprint, 0x13), ["13".repeat(19), "b3".into()].concat());
    assert_eq!(suspect(Kind::Checksum, 0x13), ["13".repeat(19), "93".into()].concat(), "no duplicate is found by it");
    assert_eq!(suspect(Kind::Carrier, 0x13), ["13".repeat(8), "00".repeat(11), "c0".into()].concat());
    assert_eq!(hex(&FingerprintEntry::NONE.suspect().encode()), "00".repeat(20));
}

#[test]
fn a_map_page() {
    let bytes = sealed(Region::Map, |page, i| {
        page.set_map(
            i,
            match i % 4 {
                0 => MapEntry::Unmapped,
                1 => MapEntry::Zero,
                2 => MapEntry::Lost,
                _ => MapEntry::Block { pbn: Pbn(count(i) << 24), slot: small(i) % 16 },
            },
        );
    });
    assert_eq!(hex(&bytes[..20]), "0000000000010000000002000000001000000330");
    assert_eq!(hex(&bytes[500..512]), "0077665544332211ada301a3");
    assert_eq!(crc32c::crc32c(&bytes), 0x1631_bd99);
}

#[test]
fn superblocks() {
    let page = encoded(&fresh(), 0);
    assert_eq!(hex(&page[..56]), ["4f4e45464f4c44000400000000000000", &"00".repeat(24), &hex(&UUID)].concat());
    // The checksum stands for all the rest. A checksum over a page that includes its own checksum would be a constant.
    assert_eq!(hex(&page[4092..]), "9e0dbfa2");
    assert_eq!(hex(&encoded(&eventful(), 3)[4092..]), "caa55534");
}

/// All other bytes are as without them, and without them the bytes are as they were before there were any.
#[test]
fn the_defaults_that_came_later() {
    let (made, mut other) = (fresh(), fresh());
    let start = StartSettings { compression: Compression::Off, memory_bytes: 0x0102_0304_0506, full_wait_s: 300, ..made.settings.clone() };
    other.set_defaults(start);
    let (before, after) = (encoded(&made, 0), encoded(&other, 0));
    assert_eq!((hex(&after[32..40]), hex(&after[222..224])), ("2000000000000000".to_owned(), "0200".to_owned()));
    assert_eq!(hex(&after[4007..4019]), "06050403020100002d010000");
    let changed = [32..40, 222..223, 4007..4019, 4092..4096];
    assert!((0..4096).all(|i| before[i] == after[i] || changed.iter().any(|part| part.contains(&i))));
    other.set_defaults(StartSettings { full_wait_s: 0, ..made.settings.clone() });
    assert_eq!(hex(&encoded(&other, 0)[4007..4019]), "000000000000000001000000");
}

#[test]
fn a_log_tail() {
    let page = encoded(&eventful(), 0);
    let fields = "1e00000000000000100000000000000012000000000000001d00000000000000021c0000000040540b00000001";
    assert_eq!(hex(&page[2792..2838]), [fields, "00"].concat());
}

#[test]
fn a_log_unit() {
    let (page, name) = eventful_unit();
    assert_eq!(hex(&page[..50]), "314c4f4701020200870008070605040302011817161514131211282726252423222101010000000000000100000003000000");
    assert_eq!(hex(&page[50..70]), "0e323baebf57043b9641fd8bc15080cb4ffcf66b");
    assert_eq!(hex(&name.0), "0e323baebf57043bf2ffffff1f10101000000000", "64 bits, and two tags of 32");
    assert_eq!(hex(&page[70..82]), "050000000040214365870901");
    assert_eq!(hex(&page[82..130]), ["f90f0700", &"ff".repeat(19), "3ff60f0300", &"01".repeat(20)].concat());
    let new = [["01d00f8c0100", &"ab".repeat(19), "6b"].concat(), ["01000007", &"00".repeat(19), "80"].concat()];
    let run = "05ecffffffff1f939eabb41c0500010000000102030402880effffffff";
    let others =
        ["02c90f0301b202849dabb424000300ff0d040000", run, "06858080808020020407028180808080020004990112000001080390030919110111c404"]
            .concat();
    assert_eq!(hex(&page[130..265]), [new.concat(), others].concat());
    assert_eq!(hex(&page[4086..]), "746f6f63617272696564");
    assert_eq!(crc32c::crc32c(&page[..]), 0x1c1e_3f9e);
}

/// Returns a UUID that gives an empty sector the check 0, as one in 2^32 does. CRC is linear, so elimination finds one.
fn uuid_with_check_0(id: PageId) -> [u8; 16] {
    let check = |word: u32| {
        let mut uuid = UUID;
        uuid[..4].copy_from_slice(&word.to_le_bytes());
        let mut bytes = [0; BLOCK_SIZE];
        seal(&uuid, id, &mut PageContent::empty(), &mut bytes);
        (u32::from_le_bytes(bytes[508..512].try_into().unwrap()), uuid)
    };
    let (base, _) = check(0);
    let (mut wanted, mut word) = (base, 0);
    let mut rows: Vec<(u32, u32)> = (0..32).map(|i| (check(1 << i).0 ^ base, 1 << i)).collect();
    for bit in 0..32 {
        let Some(at) = rows.iter().position(|(sum, _)| (sum >> bit) & 1 == 1) else { panic!("bit {bit} of the check never changes") };
        let (sum, from) = rows.swap_remove(at);
        rows.iter_mut().filter(|(other, _)| (other >> bit) & 1 == 1).for_each(|row| *row = (row.0 ^ sum, row.1 ^ from));
        if (wanted >> bit) & 1 == 1 {
            (wanted, word) = (wanted ^ sum, word ^ from);
        }
    }
    check(word).1
}

#[test]
fn a_sealed_sector_is_never_all_zero() {
    let id = PageId { region: Region::Map, index: 3 };
    let uuid = uuid_with_check_0(id);
    let mut bytes = [0; BLOCK_SIZE];
    seal(&uuid, id, &mut PageContent::empty(), &mut bytes);
    assert_eq!(hex(&bytes[508..512]), "01000000", "1 stands for 0");
    assert_eq!(onefold_engine::format::page::open(&uuid, id, &bytes, true).damaged, 0);
}
