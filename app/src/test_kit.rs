//! Helpers for tests of several modules.

use crate::target::{Incoming, Target};
use onefold_engine::interface::{Failure, Op, Reply, Segment};
use onefold_engine::units::{BLOCK_SIZE, index};
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};

/// Sends one request, with these bytes where it has any, and returns its reply.
pub fn submit(target: &dyn Target, op: Op, offset: u64, length: u64, content: Option<&[u8]>, fua: bool) -> Receiver<Reply> {
    let (tell, hear) = channel();
    let skip = index(offset) % BLOCK_SIZE;
    let buffer = content.map(|content| {
        let mut buffer = target.buffer((skip + content.len()).div_ceil(BLOCK_SIZE)).unwrap();
        buffer.bytes_mut()[skip..skip + content.len()].copy_from_slice(content);
        buffer
    });
    let done = Box::new(move |reply| drop(tell.send(reply)));
    target.submit(&mut vec![Incoming { op, offset, length, buffer, fua, done }]);
    hear
}

/// Reads.
///
/// # Errors
/// The failure that the target answered.
pub fn read(target: &dyn Target, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
    match submit(target, Op::Read, offset, length, None, false).recv().unwrap() {
        Reply::Data(segments) => Ok(bytes_of(segments)),
        Reply::Failed(failure) => Err(failure),
        Reply::Done | Reply::Extents(_) => panic!("a read without data"),
    }
}

fn bytes_of(segments: Vec<Segment>) -> Vec<u8> {
    let mut all = Vec::new();
    for segment in segments {
        match segment {
            Segment::Zeroes { bytes } => all.resize(all.len() + index(bytes), 0),
            Segment::Data { slice, start, bytes } => all.extend_from_slice(&slice.bytes()[start..start + bytes]),
        }
    }
    all
}

/// Reports that the running test, or a part of it, is skipped. It avoids the capture of `eprintln!`, so that it is seen when everything
/// passes.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    writeln!(std::io::stderr(), "SKIPPED {}: {reason}", thread.name().unwrap_or("a test")).expect("stderr is open");
}
