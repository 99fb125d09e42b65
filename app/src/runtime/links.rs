//! The bytes of an attached volume whose content lies in given blocks, or is lost. The search goes over the map, a part at a time.
//!
//! An answer for extents joins neighbours that are slots of the same or of neighbouring blocks. Where such a run has a wanted block in it,
//! the run is halved until each half lies in one block, or in as many as it has itself.

use crate::target::{Incoming, Target};
use onefold_engine::interface::{Extent, ExtentKind, Failure, Op, Reply};
use onefold_engine::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The time after which a search gives word of how far it is.
const PART: Duration = Duration::from_millis(200);
/// The most bytes of one request, and the most stretches of an answer.
const REQUEST_BYTES: u64 = 1 << 40;
const STRETCHES_MAX: usize = 4096;
/// The most blocks that are searched for at once, so that a question stays short.
pub const PBNS_MAX: usize = 512;

/// A search for these blocks, from a byte on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSearch {
    pub from: u64,
    pub pbns: BTreeSet<u64>,
}

/// The result of a part of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksFound {
    /// The byte up to which it has come, and all bytes of the volume.
    pub upto: u64,
    pub of_bytes: u64,
    pub stretches: Vec<Stretch>,
}

/// Bytes of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    pub offset: u64,
    pub bytes: u64,
}

/// Goes on with a search for a moment.
///
/// # Errors
/// When the volume does not answer.
pub fn find_links(target: &dyn Target, search: &LinkSearch) -> Result<LinksFound, Failure> {
    let begin = Instant::now();
    let of_bytes = target.info().bytes;
    let mut found = LinksFound { upto: search.from.min(of_bytes), of_bytes, stretches: Vec::new() };
    while found.upto < of_bytes && begin.elapsed() < PART && found.stretches.len() < STRETCHES_MAX {
        for extent in extents(target, found.upto, (of_bytes - found.upto).min(REQUEST_BYTES))? {
            look_into(target, found.upto, extent, &search.pbns, &mut found.stretches)?;
            found.upto += extent.bytes;
        }
    }
    Ok(found)
}

fn extents(target: &dyn Target, offset: u64, length: u64) -> Result<Vec<Extent>, Failure> {
    let (tell, hear) = channel();
    let done = Box::new(move |reply| drop(tell.send(reply)));
    target.submit(&mut vec![Incoming { op: Op::Extents, offset, length, buffer: None, fua: false, done }]);
    match hear.recv() {
        Ok(Reply::Extents(found)) if !found.is_empty() => Ok(found),
        Ok(Reply::Failed(failure)) => Err(failure),
        _ => Err(Failure::Io),
    }
}

/// Adds the bytes of an extent whose content is wanted.
fn look_into(target: &dyn Target, offset: u64, extent: Extent, pbns: &BTreeSet<u64>, found: &mut Vec<Stretch>) -> Result<(), Failure> {
    let (first, last) = match extent.kind {
        ExtentKind::Hole | ExtentKind::Zeroes => return Ok(()),
        ExtentKind::Damaged => {
            add(found, offset, extent.bytes);
            return Ok(());
        }
        ExtentKind::Data { first, last } => (first.0, last.0),
    };
    let mut wanted = pbns.range(first..=last).peekable();
    if wanted.peek().is_none() {
        return Ok(());
    }
    if first == last {
        add(found, offset, extent.bytes);
    } else if last - first + 1 == extent.bytes.div_ceil(BLOCK_BYTES) {
        wanted.for_each(|pbn| add(found, offset + (pbn - first) * BLOCK_BYTES, BLOCK_BYTES));
    } else {
        let half = (extent.bytes / 2).next_multiple_of(BLOCK_BYTES);
        for (mut at, end) in [(offset, offset + half), (offset + half, offset + extent.bytes)] {
            while at < end {
                for part in extents(target, at, end - at)? {
                    look_into(target, at, part, pbns, found)?;
                    at += part.bytes;
                }
            }
        }
    }
    Ok(())
}

fn add(found: &mut Vec<Stretch>, offset: u64, bytes: u64) {
    match found.last_mut() {
        Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
        _ => found.push(Stretch { offset, bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetInfo;
    use onefold_engine::buffer::BufferMut;
    use onefold_engine::units::{Pbn, index};

    /// A volume whose LBNs mean these: a block, a hole, or damage. Its answers join neighbours as those of an engine do.
    struct Meanings(Vec<ExtentKind>);

    impl Target for Meanings {
        fn info(&self) -> TargetInfo {
            TargetInfo { bytes: self.0.len() as u64 * BLOCK_BYTES, request_bytes_max: 1 << 20, sector_bytes: 512, read_only: false }
        }

        fn buffer(&self, _blocks: usize) -> Result<BufferMut, Failure> {
            Err(Failure::Io)
        }

        fn submit(&self, batch: &mut Vec<Incoming>) {
            /// The most extents of an answer, so that one search needs several.
            const EXTENTS_MAX: usize = 5;
            for asked in batch.drain(..) {
                let first = index(asked.offset / BLOCK_BYTES);
                let mut found: Vec<Extent> = Vec::new();
                for &kind in &self.0[first..first + index(asked.length / BLOCK_BYTES)] {
                    let is_full = found.len() == EXTENTS_MAX;
                    match found.last_mut().and_then(|last| Some((last.kind.with(kind)?, last))) {
                        Some((kind, last)) => *last = Extent { bytes: last.bytes + BLOCK_BYTES, kind },
                        None if is_full => break,
                        None => found.push(Extent { bytes: BLOCK_BYTES, kind }),
                    }
                }
                (asked.done)(Reply::Extents(found));
            }
        }
    }

    fn found(meanings: &Meanings, pbns: &[u64]) -> Vec<u64> {
        let found = find_links(meanings, &LinkSearch { from: 0, pbns: pbns.iter().copied().collect() }).unwrap();
        assert_eq!((found.upto, found.of_bytes), (meanings.info().bytes, meanings.info().bytes));
        let lbns = |stretch: &Stretch| stretch.offset / BLOCK_BYTES..(stretch.offset + stretch.bytes) / BLOCK_BYTES;
        found.stretches.iter().flat_map(lbns).collect()
    }

    #[test]
    fn links_are_found_in_runs_that_share_blocks() {
        let mut dice = 1_u64;
        let mut meanings = Vec::new();
        let mut pbn = 10;
        for _ in 0..500 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A slot of the same block, the next block, one elsewhere, a hole, zeros, or damage.
            meanings.push(match dice >> 60 {
                0..6 => ExtentKind::Data { first: Pbn(pbn), last: Pbn(pbn) },
                6..11 => {
                    pbn += 1;
                    ExtentKind::Data { first: Pbn(pbn), last: Pbn(pbn) }
                }
                11..14 => {
                    pbn = (dice >> 20) % 60;
                    ExtentKind::Data { first: Pbn(pbn), last: Pbn(pbn) }
                }
                14 => ExtentKind::Hole,
                _ => ExtentKind::Damaged,
            });
        }
        let meanings = Meanings(meanings);
        for wanted in [vec![], vec![17], vec![11, 12, 30, 59], (0..40).collect()] {
            let is_wanted = |kind: &ExtentKind| match kind {
                ExtentKind::Data { first, .. } => wanted.contains(&first.0),
                kind => *kind == ExtentKind::Damaged,
            };
            let expected: Vec<u64> = (0..).zip(&meanings.0).filter(|(_, kind)| is_wanted(kind)).map(|(lbn, _)| lbn).collect();
            assert_eq!(found(&meanings, &wanted), expected, "{wanted:?}");
        }
    }
}
