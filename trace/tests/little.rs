//! The memory that the writer of a recording needs: a recorder shares its memory with the server that it records.

#![allow(unsafe_code)]

use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::Bytes;
use onefold_trace::header::Header;
use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
use onefold_trace::recording::{WRITER_BYTES, Writer};
use std::time::Duration;

/// Returns the bytes that the allocator has given to the process.
fn allocated() -> usize {
    // SAFETY: the function has no arguments and returns numbers only.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

fn write(n: u64, blocks: u64) -> Record {
    let mut seed = n;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed
    };
    let name = |place: u64| {
        let mut name = [0; NAME_BYTES_MAX];
        for part in name[..16].chunks_mut(8) {
            part.copy_from_slice(&random().wrapping_add(place).to_le_bytes());
        }
        Block { name: ContentName::Of(name), compressed: Some(u16::try_from(place % 64).unwrap() * 64) }
    };
    let named = (0..blocks).map(name).collect();
    Record { blocks: named, ..Record::new(n * 12_345, Op::Write, Bytes(n * 40_503 % (1 << 20) * 4096), Bytes(blocks * 4096)) }
}

/// Writes a recording and returns the most memory that it took, in bytes.
fn most(records: u64, blocks: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let before = allocated();
    let header = Header { algorithm: Some(Algorithm::Blake3), width: 16, ..Header::default() };
    let mut writer = Writer::create(&folder.path().join("t"), &header, Duration::from_millis(1)).unwrap();
    let mut most = 0;
    for n in 0..records {
        writer.push(&write(n, blocks)).unwrap();
        writer.write_if_due().unwrap();
        most = most.max(allocated() - before);
    }
    writer.finish().unwrap();
    most
}

#[test]
fn a_small_writer_stays_within_its_limit() {
    let (small, large) = (most(300_000, 1), most(6_000, 256));
    assert!(small.max(large) <= WRITER_BYTES, "small writes {small}, large ones {large}");
    assert!(small.min(large) >= WRITER_BYTES / 2, "the limit is more than twice the need: small writes {small}, large ones {large}");
}
