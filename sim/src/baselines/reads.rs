//! A client's read, put together from zeros, from memory and from the device.

use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::interface::{Failure, IoFailure, Reply, RequestId, Segment};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE};
use rustc_hash::FxHashMap;

/// Where one block of a read is.
pub enum Piece {
    Zero,
    /// Still in memory, on its way to the device.
    Held(Slice),
    /// At this block of the device.
    At(u64),
}

/// Neighbouring blocks of the device that a read needs.
pub struct Run {
    /// The place of its segment in the answer.
    pub segment: usize,
    pub first: u64,
    pub blocks: usize,
}

struct Job {
    segments: Vec<Segment>,
    left: usize,
    failed: bool,
}

/// Reads that wait for the device.
#[derive(Default)]
pub struct Reads {
    open: FxHashMap<u64, Job>,
}

impl Reads {
    /// Begins a read: its answer, where memory has everything, or what to read first.
    pub fn begin(&mut self, request: RequestId, pieces: impl Iterator<Item = Piece>) -> Result<Reply, Vec<Run>> {
        let (mut segments, mut runs): (Vec<Segment>, Vec<Run>) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Zero => match segments.last_mut() {
                    // A run's segment is a placeholder of no bytes: zeros never grow into it.
                    Some(Segment::Zeroes { bytes }) if *bytes > 0 => *bytes += BLOCK_BYTES,
                    _ => segments.push(Segment::Zeroes { bytes: BLOCK_BYTES }),
                },
                Piece::Held(slice) => segments.push(Segment::Data { slice, start: 0, bytes: BLOCK_SIZE }),
                Piece::At(block) => match runs.last_mut() {
                    Some(run) if run.first + run.blocks as u64 == block && run.segment + 1 == segments.len() => run.blocks += 1,
                    _ => {
                        runs.push(Run { segment: segments.len(), first: block, blocks: 1 });
                        segments.push(Segment::Zeroes { bytes: 0 });
                    }
                },
            }
        }
        if runs.is_empty() {
            return Ok(Reply::Data(segments));
        }
        self.open.insert(request.0, Job { segments, left: runs.len(), failed: false });
        Err(runs)
    }

    /// Takes in what the device had; the answer, when nothing more is missing.
    ///
    /// # Panics
    /// When the read does not wait.
    pub fn filled(&mut self, request: RequestId, segment: usize, buffer: BufferMut, result: Result<(), IoFailure>) -> Option<Reply> {
        let job = self.open.get_mut(&request.0).expect("the read waits for its runs");
        let blocks = buffer.blocks();
        job.segments[segment] = Segment::Data { slice: buffer.freeze().slice(0, blocks), start: 0, bytes: blocks * BLOCK_SIZE };
        job.failed |= result.is_err();
        job.left -= 1;
        if job.left > 0 {
            return None;
        }
        let job = self.open.remove(&request.0).expect("it was there");
        Some(if job.failed { Reply::Failed(Failure::Io) } else { Reply::Data(job.segments) })
    }
}
