//! The answers that every target gives to a request before it examines it any closer.

use crate::target::{Incoming, TargetInfo};
use onefold_engine::interface::{Failure, Op, Reply};
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES, count};

/// Returns the answer to a request that needs no work: an invalid one, or an empty one.
#[must_use]
pub fn verdict(info: &TargetInfo, request: &Incoming) -> Option<Reply> {
    let Incoming { op, offset, length, .. } = *request;
    if op == Op::Flush {
        return None;
    }
    let is_misaligned = offset % SECTOR_BYTES != 0 || length % SECTOR_BYTES != 0;
    if is_misaligned || length > info.bytes || offset > info.bytes - length {
        return Some(Reply::Failed(Failure::Invalid));
    }
    if info.read_only && !matches!(op, Op::Read | Op::Extents) {
        return Some(Reply::Failed(Failure::ReadOnly));
    }
    if length == 0 {
        return Some(match op {
            Op::Read => Reply::Data(Vec::new()),
            Op::Extents => Reply::Extents(Vec::new()),
            _ => Reply::Done,
        });
    }
    let bytes_needed = offset % BLOCK_BYTES + length;
    let has_memory = request.buffer.as_ref().is_some_and(|buffer| count(buffer.bytes().len()) >= bytes_needed);
    (op == Op::Write && !has_memory).then_some(Reply::Failed(Failure::Invalid))
}
