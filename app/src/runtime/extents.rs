//! The extents of an attached volume are counted: how far its data is broken up. A count goes over all its bytes, a part at a time.

use crate::target::{Incoming, Target};
use onefold_engine::interface::{Extent, ExtentKind, Failure, Op, Reply};
use onefold_engine::units::Pbn;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The time after which a count gives word of how far it is.
const PART: Duration = Duration::from_millis(200);
/// The most bytes of one request.
const REQUEST_BYTES: u64 = 1 << 40;

/// The result of a count so far, in bytes but for `extents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentCounts {
    /// The bytes that were looked at, from the first on.
    pub bytes: u64,
    /// Bytes of the volume.
    pub of_bytes: u64,
    /// Runs of data that lie together on the device, too.
    pub extents: u64,
    pub data_bytes: u64,
    pub zero_bytes: u64,
    pub hole_bytes: u64,
    /// Bytes whose read fails.
    pub damaged_bytes: u64,
    /// The block in which the data before byte `bytes` ends, if there is any.
    last_block: Option<u64>,
}

impl ExtentCounts {
    /// Whether it has come to the end.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.bytes >= self.of_bytes
    }

    /// Adds the next extent.
    fn add(&mut self, Extent { bytes, kind }: Extent) {
        let before = self.last_block.map(Pbn).map(|last| ExtentKind::Data { first: last, last });
        let goes_on = before.is_some_and(|before| before.with(kind).is_some());
        (self.bytes, self.last_block) = (self.bytes + bytes, None);
        match kind {
            ExtentKind::Hole => self.hole_bytes += bytes,
            ExtentKind::Zeroes => self.zero_bytes += bytes,
            ExtentKind::Damaged => self.damaged_bytes += bytes,
            ExtentKind::Data { last, .. } => {
                self.data_bytes += bytes;
                self.extents += u64::from(!goes_on);
                self.last_block = Some(last.0);
            }
        }
    }
}

/// Goes on with a count for a moment.
///
/// # Errors
/// When the volume does not tell.
pub fn count_extents(target: &dyn Target, mut so_far: ExtentCounts) -> Result<ExtentCounts, Failure> {
    let begin = Instant::now();
    so_far.of_bytes = target.info().bytes;
    while !so_far.is_whole() && begin.elapsed() < PART {
        let (tell, hear) = channel();
        let done = Box::new(move |reply| drop(tell.send(reply)));
        let (offset, length) = (so_far.bytes, (so_far.of_bytes - so_far.bytes).min(REQUEST_BYTES));
        target.submit(&mut vec![Incoming { op: Op::Extents, offset, length, buffer: None, fua: false, done }]);
        match hear.recv() {
            Ok(Reply::Extents(found)) if !found.is_empty() => found.into_iter().for_each(|extent| so_far.add(extent)),
            Ok(Reply::Failed(failure)) => return Err(failure),
            _ => return Err(Failure::Io),
        }
    }
    Ok(so_far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_goes_on_over_the_end_of_an_answer() {
        let mut counts = ExtentCounts::default();
        let data = |bytes, first, last| Extent { bytes, kind: ExtentKind::Data { first: Pbn(first), last: Pbn(last) } };
        let hole = Extent { bytes: 4096, kind: ExtentKind::Hole };
        for extent in [data(8192, 5, 6), data(4096, 7, 7), data(4096, 7, 7), data(4096, 9, 9), hole, data(4096, 10, 10)] {
            counts.add(extent);
        }
        assert_eq!((counts.extents, counts.data_bytes, counts.hole_bytes, counts.bytes), (3, 24_576, 4096, 28_672));
    }
}
