//! Comparing what a read brought, and what the engine says about extents, with the oracle.

use super::{Client, ReplyEffects, Waiting};
use crate::checkers::faults::FaultState;
use crate::checkers::oracle::Oracle;
use crate::ground::content::Content;
use crate::ground::violation::{Violation, violation};
use onefold_engine::interface::{Extent, ExtentKind, Segment};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE};

impl Client {
    /// Checks an answer about extents: bytes that are called a hole, or zeros, may be read as zeros.
    pub(super) fn check_extents(
        &self,
        waiting: &Waiting,
        extents: &[Extent],
        oracle: &Oracle,
        faults: FaultState,
    ) -> Result<ReplyEffects, Violation> {
        let (end, mut at) = (waiting.offset + waiting.length, waiting.offset);
        for &Extent { bytes, kind } in extents {
            let after = at + bytes;
            if bytes == 0 || after > end {
                return Err(violation!("interface: {extents:?} of byte {} over {}", waiting.offset, waiting.length));
            }
            if kind == ExtentKind::Damaged && !faults.errors {
                return Err(violation!("interface: byte {at} over {bytes} is said to be damaged"));
            }
            let is_zero = matches!(kind, ExtentKind::Hole | ExtentKind::Zeroes);
            for &mark in waiting.marks.iter().filter(|mark| is_zero && mark.lbn * BLOCK_BYTES < after && (mark.lbn + 1) * BLOCK_BYTES > at)
            {
                let (from, to) = (at.max(mark.lbn * BLOCK_BYTES), after.min((mark.lbn + 1) * BLOCK_BYTES));
                let zeros = &[0; BLOCK_SIZE][..usize::try_from(to - from).expect("within a block")];
                if !oracle.may_read(mark, usize::try_from(from % BLOCK_BYTES).expect("within a block"), zeros) {
                    return Err(violation!("P2: LBN {} is {kind:?}, where {} is allowed", mark.lbn, oracle.describe(mark.lbn)));
                }
            }
            at = after;
        }
        if at == waiting.offset {
            return Err(violation!("interface: no extent of byte {} over {}", waiting.offset, waiting.length));
        }
        Ok(ReplyEffects::default())
    }

    /// Checks the bytes of a read.
    pub(super) fn check_data(&self, waiting: &Waiting, segments: &[Segment], oracle: &Oracle) -> Result<ReplyEffects, Violation> {
        let mut bytes = Vec::with_capacity(usize::try_from(waiting.length).expect("a read fits memory"));
        for segment in segments {
            match segment {
                Segment::Zeroes { bytes: n } => bytes.resize(bytes.len() + usize::try_from(*n).expect("a read fits memory"), 0),
                Segment::Data { slice, start, bytes: n } => bytes.extend_from_slice(&slice.bytes()[*start..*start + *n]),
            }
        }
        if bytes.len() as u64 != waiting.length {
            return Err(violation!("interface: {} bytes to a read of {}", bytes.len(), waiting.length));
        }
        let mut raised = ReplyEffects::default();
        let mut at = usize::try_from(waiting.offset % BLOCK_BYTES).expect("within a block");
        let mut rest = &bytes[..];
        for &mark in &waiting.marks {
            let (found, after) = rest.split_at(rest.len().min(BLOCK_SIZE - at));
            if !oracle.may_read(mark, at, found) {
                let block = Content::zero().patched(at, found);
                return Err(violation!(
                    "P2: LBN {} reads {block:?} at byte {at}+{}, where {} is allowed",
                    mark.lbn,
                    found.len(),
                    oracle.describe(mark.lbn)
                ));
            }
            raised.learnt.push((mark, at, found.to_vec()));
            (rest, at) = (after, 0);
        }
        Ok(raised)
    }
}
