//! Tests of the FUSE mount's file and its answers.

use super::*;
use crate::frontend::fuse::wire::InHeader;
use zerocopy::FromZeros;

const INFO: TargetInfo = TargetInfo { bytes: 1 << 20, request_bytes_max: 1 << 20, sector_bytes: 512, read_only: false };

fn on(node: u64, ask: Operation<'_>, info: &TargetInfo) -> Todo {
    let mut header = InHeader::new_zeroed();
    header.node = node;
    decide(&Request { header, ask }, info, &disk_name("a/tag"))
}

fn disk_asked(ask: Operation<'_>) -> Todo {
    on(DISK, ask, &INFO)
}

fn fallocate(offset: u64, bytes: u64, mode: u32) -> Todo {
    disk_asked(Operation::Fallocate { offset, bytes, mode })
}

fn clearing(pieces: &[(Op, u64, u64)]) -> Todo {
    Todo::Clear(pieces.iter().map(|&(op, offset, bytes)| Clearing { op, offset, bytes }).collect())
}

#[test]
fn there_is_one_file_and_it_is_called_as_the_session_is() {
    let lookup = |node, name: &'static [u8]| on(node, Operation::Lookup { name: Some(name) }, &INFO);
    let Todo::Answer(entry) = lookup(wire::ROOT, b"a-tag") else { panic!("no disk") };
    assert_eq!(entry[..8], DISK.to_ne_bytes());
    assert_eq!(lookup(wire::ROOT, b"a-tags"), Todo::Refuse(Errno::NOENT));
    assert_eq!(on(wire::ROOT, Operation::Lookup { name: None }, &INFO), Todo::Refuse(Errno::NOENT));
    assert_eq!(lookup(DISK, b"a-tag"), Todo::Refuse(Errno::NOTDIR));
    let Todo::Answer(listing) = on(wire::ROOT, Operation::ReadDir { offset: 0, bytes: 4096, plus: false }, &INFO) else {
        panic!("no listing")
    };
    assert!(listing.windows(5).any(|w| w == b"a-tag"));
    assert_eq!(on(wire::ROOT, Operation::ReadDir { offset: 3, bytes: 4096, plus: false }, &INFO), Todo::Answer(Vec::new()));
    assert_eq!(on(wire::ROOT, Operation::ReadDir { offset: u64::MAX, bytes: 4096, plus: true }, &INFO), Todo::Answer(Vec::new()));
}

#[test]
fn nothing_can_be_made_or_changed() {
    assert_eq!(on(wire::ROOT, Operation::Change, &INFO), Todo::Refuse(Errno::PERM));
    let mode_change = Operation::SetAttr { valid: 1, size: 0 };
    assert_eq!(disk_asked(mode_change), Todo::Refuse(Errno::PERM));
    assert_eq!(disk_asked(Operation::SetAttr { valid: setattr::SIZE, size: 0 }), Todo::Refuse(Errno::PERM));
    assert!(matches!(disk_asked(Operation::SetAttr { valid: setattr::SIZE | setattr::FH, size: INFO.bytes }), Todo::Answer(_)));
}

#[test]
fn reads_end_at_the_end() {
    assert_eq!(disk_asked(Operation::Read { offset: 0, bytes: 100 }), Todo::Read { offset: 0, bytes: 100 });
    assert_eq!(disk_asked(Operation::Read { offset: INFO.bytes - 10, bytes: 100 }), Todo::Read { offset: INFO.bytes - 10, bytes: 10 });
    for offset in [INFO.bytes, u64::MAX] {
        assert_eq!(disk_asked(Operation::Read { offset, bytes: 100 }), Todo::Answer(Vec::new()));
    }
    assert_eq!(on(wire::ROOT, Operation::Read { offset: 0, bytes: 1 }, &INFO), Todo::Refuse(Errno::ISDIR));
}

#[test]
fn writes_stay_inside_and_on_sectors() {
    assert_eq!(disk_asked(Operation::Write { offset: 512, bytes: 1024, fua: true }), Todo::Write { offset: 512, bytes: 1024, fua: true });
    assert_eq!(
        disk_asked(Operation::Write { offset: INFO.bytes - 512, bytes: 512, fua: false }),
        Todo::Write { offset: INFO.bytes - 512, bytes: 512, fua: false }
    );
    for (offset, bytes) in [(INFO.bytes, 512), (INFO.bytes - 512, 1024), (u64::MAX - 511, 512), (u64::MAX, u32::MAX)] {
        assert_eq!(disk_asked(Operation::Write { offset, bytes, fua: false }), Todo::Refuse(Errno::NOSPC), "{offset}+{bytes}");
    }
    for (offset, bytes) in [(1, 512), (0, 100)] {
        assert_eq!(disk_asked(Operation::Write { offset, bytes, fua: false }), Todo::Refuse(Errno::INVAL));
    }
}

#[test]
fn a_hole_is_a_discard_with_zeroed_ends() {
    const HOLE: u32 = falloc::PUNCH_HOLE | falloc::KEEP_SIZE;
    assert_eq!(fallocate(4096, 8192, HOLE), clearing(&[(Op::Discard, 4096, 8192)]));
    let ends = [(Op::WriteZeroes, 512, 3584), (Op::Discard, 4096, 4096), (Op::WriteZeroes, 8192, 512)];
    assert_eq!(fallocate(512, 8192, HOLE), clearing(&ends));
    assert_eq!(fallocate(512, 1024, HOLE), clearing(&[(Op::WriteZeroes, 512, 1024)]));
    assert_eq!(fallocate(3584, 1024, HOLE), clearing(&[(Op::WriteZeroes, 3584, 1024)]));
    assert_eq!(fallocate(0, 1 << 40, HOLE), clearing(&[(Op::Discard, 0, INFO.bytes)]), "what lies beyond the end is a hole already");
    assert_eq!(fallocate(INFO.bytes, 4096, HOLE), Todo::Answer(Vec::new()));
    assert_eq!(fallocate(1, 4096, HOLE), Todo::Refuse(Errno::INVAL));
    assert_eq!(fallocate(u64::MAX, 2, HOLE), Todo::Refuse(Errno::FBIG));
}

#[test]
fn a_zeroed_range_stays_inside() {
    const ZERO: u32 = falloc::ZERO_RANGE | falloc::KEEP_SIZE;
    assert_eq!(fallocate(512, 8192, ZERO), clearing(&[(Op::WriteZeroes, 512, 8192)]));
    assert_eq!(fallocate(0, INFO.bytes + 512, ZERO), Todo::Refuse(Errno::NOSPC));
    assert_eq!(fallocate(0, 4096, 0), Todo::Refuse(Errno::OPNOTSUPP), "preallocation");
    assert_eq!(fallocate(0, 4096, 8), Todo::Refuse(Errno::OPNOTSUPP), "collapse range");
}

#[test]
fn a_read_only_target_is_not_written() {
    let info = TargetInfo { read_only: true, ..INFO };
    assert_eq!(on(DISK, Operation::Open { flags: 2 }, &info), Todo::Refuse(Errno::ROFS));
    assert!(matches!(on(DISK, Operation::Open { flags: 0 }, &info), Todo::Answer(_)));
    assert_eq!(on(DISK, Operation::Write { offset: 0, bytes: 512, fua: false }, &info), Todo::Refuse(Errno::ROFS));
    assert_eq!(on(DISK, Operation::Fallocate { offset: 0, bytes: 4096, mode: 3 }, &info), Todo::Refuse(Errno::ROFS));
}

#[test]
fn a_flush_is_passed_on_and_forgetting_is_not_answered() {
    assert_eq!(disk_asked(Operation::Sync), Todo::Flush);
    assert_eq!(disk_asked(Operation::Forget), Todo::Nothing);
    assert_eq!(disk_asked(Operation::Interrupt), Todo::Refuse(Errno::NOSYS));
    assert_eq!(disk_asked(Operation::Other), Todo::Refuse(Errno::NOSYS));
}
