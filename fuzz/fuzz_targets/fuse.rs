//! The FUSE front-end's parser and its decisions, with a kernel that sends anything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold::frontend::fuse::files::{Todo, decide};
use onefold::frontend::fuse::wire::{HEAD_BYTES, parse};
use onefold::target::TargetInfo;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, request)) = data.split_first() else { return };
    let info = TargetInfo { bytes: 64 << 20, request_bytes_max: 1 << 20, sector_bytes: 512, read_only: mode & 1 == 1 };
    // A write's payload is elsewhere: its length may exceed that of the head.
    let received = request.len() + usize::from(mode >> 1) * 512;
    let head = &request[..request.len().min(HEAD_BYTES)];
    let Ok(request) = parse(head, received) else { return };
    match decide(&request, &info, "disk") {
        Todo::Write { offset, bytes, .. } => {
            assert!(offset % 512 == 0 && bytes % 512 == 0 && offset + bytes <= info.bytes && !info.read_only);
        }
        Todo::Read { offset, bytes } => assert!(offset + bytes <= info.bytes),
        Todo::Clear(pieces) => {
            assert!(pieces.iter().all(|p| p.offset % 512 == 0 && p.bytes % 512 == 0 && p.offset + p.bytes <= info.bytes));
        }
        _ => {}
    }
});
