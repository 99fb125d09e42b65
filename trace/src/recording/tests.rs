//! A recording comes back as it was written, whole or cut off, and nothing else is taken for one.

use super::block::{HEAD_BYTES, Head, Kind};
use super::{MAGIC, Reader, RecordingError, Writer};
use crate::header::{Gap, Header};
use crate::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
use onefold_engine::units::{Bytes, count};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const NEVER: Duration = Duration::MAX;
const WIDTH: usize = 16;

fn name(seed: u8) -> ContentName {
    let mut name = [0; NAME_BYTES_MAX];
    name[..WIDTH].fill(seed);
    ContentName::Of(name)
}

/// Every field, at its bounds, and repeated texts.
fn records() -> Vec<Record> {
    let mut write = Record::new(5, Op::Write, Bytes(8192), Bytes(12288));
    write.fua = true;
    write.pid = Some(u32::MAX);
    write.process = Some("jbd2/loop0-8".into());
    write.stream = Some("J".into());
    write.flags = Some("WFS".into());
    write.device = Some("8 1".into());
    write.file = Some("/a/ü".into());
    write.cgroup = Some("/a/ü".into());
    write.blocks = vec![
        Block { name: ContentName::Zero, compressed: Some(64) },
        Block { name: name(7), compressed: None },
        Block { name: ContentName::Unknown, compressed: Some(u16::MAX) },
    ];
    let mut unsized_write = Record::new(6, Op::Write, Bytes(0), Bytes(4096));
    unsized_write.process = Some("jbd2/loop0-8".into());
    unsized_write.blocks = vec![Block::named(name(9))];
    let mut mark = Record::new(u64::MAX, Op::Mark, Bytes(0), Bytes(0));
    mark.note = Some(String::new().into());
    let far = Record::new(6, Op::Read, Bytes(u64::MAX - 511), Bytes(512));
    let other = [Op::Flush, Op::Discard, Op::WriteZeroes].map(|op| Record::new(0, op, Bytes(1 << 40), Bytes(u64::MAX)));
    [vec![write, unsized_write, mark, far], other.to_vec()].concat()
}

fn header() -> Header {
    Header { width: WIDTH, clock: "monotonic".to_owned(), origin_ns: 77, ..Header::default() }
}

fn place() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("t");
    (place, path)
}

/// Writes a recording of three blocks of records and one of gaps; returns its bytes.
fn recorded(path: &Path) -> Vec<u8> {
    let mut writer = Writer::create(path, &header(), NEVER).expect("it can be made");
    for _ in 0..2 {
        records().iter().for_each(|record| writer.push(record).expect("it can be written"));
        writer.write().expect("it can be written");
    }
    writer.push_gap(Gap { time_ns: 9, requests: 4 }).expect("it can be written");
    writer.push(&records()[0]).expect("it can be written");
    let bytes = writer.finish().expect("it can be ended");
    let written = std::fs::read(path).expect("it is there");
    assert_eq!(bytes, count(written.len()));
    written
}

fn read_all(path: &Path, is_lenient: bool) -> Result<(Header, Vec<Record>, Option<u64>), RecordingError> {
    let mut reader = Reader::open(path, is_lenient)?;
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((reader.header().clone(), records, reader.cut_off_at()))
}

/// The places of all blocks, and the end of the file.
fn places(bytes: &[u8]) -> Vec<usize> {
    let mut places = vec![MAGIC.len()];
    while let Some(head) = places.last().and_then(|at| bytes.get(*at..at + HEAD_BYTES)) {
        let at = places[places.len() - 1];
        let head = Head::decode(head.try_into().expect("a head"), count(at)).expect("a sound head");
        places.push(at + HEAD_BYTES + usize::try_from(head.stored).expect("a length"));
    }
    places
}

#[test]
fn records_and_facts_come_back() {
    let (_place, path) = place();
    recorded(&path);
    let (header_read, read, cut_off_at) = read_all(&path, false).expect("it is sound");
    assert_eq!(header_read, Header { gaps: vec![Gap { time_ns: 9, requests: 4 }], ..header() });
    assert_eq!(read, [records(), records(), records()[..1].to_vec()].concat());
    assert_eq!(cut_off_at, None);
    assert!(matches!(Writer::create(&path, &header(), NEVER), Err(RecordingError::Exists { .. })));
}

#[test]
fn many_records_make_many_blocks_and_an_old_one_is_written() {
    let (_place, path) = place();
    let mut writer = Writer::create(&path, &header(), Duration::ZERO).expect("it can be made");
    let all: Vec<Record> = (0..2000).flat_map(|_| records()).collect();
    all.iter().for_each(|record| writer.push(record).expect("it can be written"));
    assert!(places(&std::fs::read(&path).expect("it is there")).len() > 5);
    let before = read_all(&path, false).expect("it is sound").1.len();
    assert!(before < all.len(), "the last ones are in memory");
    std::thread::sleep(Duration::from_millis(1001));
    writer.write_if_due().expect("it can be written");
    let (_, read, cut_off_at) = read_all(&path, false).expect("it is sound");
    assert!(read == all && cut_off_at == Some(std::fs::metadata(&path).expect("it is there").len()));
    writer.finish().expect("it can be ended");
    assert!(read_all(&path, false).expect("it is sound").1 == all);
}

#[test]
fn a_recording_that_is_cut_off_anywhere_is_read_up_to_its_last_whole_block() {
    let (_place, path) = place();
    let whole = recorded(&path);
    let places = places(&whole);
    let counts = [0, 0, records().len(), 2 * records().len(), 2 * records().len() + 1];
    for end in 0..whole.len() {
        std::fs::write(&path, &whole[..end]).expect("it can be written");
        let blocks = places.iter().filter(|place| **place <= end).count();
        if blocks < 2 {
            assert!(matches!(read_all(&path, false), Err(RecordingError::NotARecording { .. })), "{end}");
            continue;
        }
        let (_, read, cut_off_at) = read_all(&path, false).expect("what is whole is sound");
        assert_eq!(read.len(), counts[(blocks - 1).min(4)], "cut off at {end}");
        assert!(cut_off_at.is_some(), "cut off at {end}");
        // A file system may have made the file longer before it had the data.
        std::fs::write(&path, [&whole[..places[blocks - 1]], &[0; 100]].concat()).expect("it can be written");
        assert_eq!(read_all(&path, false).expect("what is whole is sound").1.len(), read.len(), "zeros at {end}");
    }
}

#[test]
fn a_changed_byte_is_never_taken_for_what_was_written() {
    let (_place, path) = place();
    let whole = recorded(&path);
    let sound = read_all(&path, false).expect("it is sound");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&path, &bytes).expect("it can be written");
        let error = read_all(&path, false).map(|_| ()).expect_err("a changed byte");
        let place = error.to_string();
        match (&error, read_all(&path, true)) {
            // The magic number and the facts.
            (RecordingError::NotARecording { .. }, Err(_)) => assert!(at < places(&whole)[1], "{at}: {place}"),
            (RecordingError::Damaged { .. }, Err(_)) => assert!(at < places(&whole)[1], "{at}: {place}"),
            (RecordingError::Damaged { .. }, Ok((_, records, cut_off_at))) => {
                assert!(sound.1.starts_with(&records) && cut_off_at.is_some(), "{at}: {place}");
            }
            other => panic!("{at}: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    let (_place, path) = place();
    let whole = recorded(&path);
    let refused = |bytes: &[u8], wanted: &str| {
        std::fs::write(&path, bytes).expect("it can be written");
        let error = read_all(&path, false).map(|_| ()).expect_err(wanted).to_string();
        assert!(error.contains(wanted) && error.contains(&path.display().to_string()), "{wanted}: {error}");
    };
    refused(b"", "does not begin like one");
    refused(b"PAR1 and nothing else of that kind", "does not begin like one");
    refused(b"onefold trace 2\nof next year", "another version");
    refused(&[&whole[..], b"x"].concat(), "something follows the end");
    let with = |kind, content: &[u8], bytes: usize| {
        let first = places(&whole)[1];
        let head = Head::encode(kind, count(first), content, u32::try_from(bytes).expect("it fits"));
        [&whole[..first], &head, content].concat()
    };
    // Sound checksums over what nobody writes.
    refused(&with(Kind::Records, &[], 5 << 20), "for 5242880, of at most");
    refused(&with(Kind::Records, b"no zstd", 100), "does not decompress");
    let few = zstd::bulk::compress(&[7; 1000], 1).expect("it compresses");
    refused(&with(Kind::Records, &few, 1001), "instead of 1001");
    refused(&with(Kind::Records, &few, 999), "does not decompress");
    refused(&with(Kind::Gaps, b"many", 4), "gaps");
    for (content, wanted) in [
        (&[6, 0][..], "unknown operation 6"),
        (&[1], "beyond its block"),
        (&[1, 0, 0, 0, 0xff], "beyond its block"),
        (&[1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "more than 64 bits"),
        (&[1, 1, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0], "a process has the number"),
        (&[1, 2, 0, 0, 8, 1, 0], "the text 1 of 0"),
        (&[1, 2, 0, 0, 8, 0, 2, 0xff, 0xff, 0], "not UTF-8"),
        (&[1, 2, 0, 0, 8, 0, 0xff, 0xff, 3, b'a'], "beyond its block"),
        (&[1, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0x7f], "beyond its block"),
        (&[1, 0, 0, 0, 8, 2, 3], "unknown content 3"),
        (&[1, 0, 0, 0, 8, 2, 2, 1, 2], "beyond its block"),
        (&[1, 0, 0, 0, 8, 3, 0, 0x81, 0x80, 4], "has 65536 bytes"),
    ] {
        refused(&with(Kind::Records, content, content.len()), wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whoever can make checksums can write anything.
    #[test]
    fn any_content_is_read_without_a_panic(content in prop::collection::vec(prop_oneof![0u8..10, any::<u8>()], 0..60)) {
        let mut decoder = super::fields::Decoder::new(&header(), content);
        let mut names = crate::text::names::Names::default();
        while !decoder.is_over() && decoder.record(&mut names).is_ok() {}
    }
}
