//! A client's read, assembled from zeros, from memory and from the device.

use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::interface::{Failure, IoFailure, Reply, RequestId, Segment};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE};
use rustc_hash::FxHashMap;

/// The source of one block of a read.
pub enum Piece {
    Zero,
    /// The block is still in memory, and is being written to the device.
    Held(Slice),
    /// The block is at this block of the device.
    At(u64),
}

/// Neighbouring blocks of the device that a read needs.
pub struct DeviceRun {
    /// The place of the run's segment in the answer.
    pub segment: usize,
    pub first: u64,
    pub blocks: usize,
}

struct WaitingRead {
    segments: Vec<Segment>,
    left: usize,
    failed: bool,
}

/// Reads that wait for the device.
#[derive(Default)]
pub struct Reads {
    open: FxHashMap<u64, WaitingRead>,
}

impl Reads {
    /// Begins a read. Returns its answer if memory has everything, and otherwise the runs to read first.
    pub fn begin(&mut self, request: RequestId, pieces: impl Iterator<Item = Piece>) -> Result<Reply, Vec<DeviceRun>> {
        let (mut segments, mut runs): (Vec<Segment>, Vec<DeviceRun>) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Zero => match segments.last_mut() {
                    // A run's segment is an empty placeholder: zeros are never appended to it.
                    Some(Segment::Zeroes { bytes }) if *bytes > 0 => *bytes += BLOCK_BYTES,
                    _ => segments.push(Segment::Zeroes { bytes: BLOCK_BYTES }),
                },
                Piece::Held(slice) => segments.push(Segment::Data { slice, start: 0, bytes: BLOCK_SIZE }),
                Piece::At(block) => match runs.last_mut() {
                    Some(run) if run.first + run.blocks as u64 == block && run.segment + 1 == segments.len() => run.blocks += 1,
                    _ => {
                        runs.push(DeviceRun { segment: segments.len(), first: block, blocks: 1 });
                        segments.push(Segment::Zeroes { bytes: 0 });
                    }
                },
            }
        }
        if runs.is_empty() {
            return Ok(Reply::Data(segments));
        }
        self.open.insert(request.0, WaitingRead { segments, left: runs.len(), failed: false });
        Err(runs)
    }

    /// Fills in what the device returned, and returns the answer once nothing is missing.
    ///
    /// # Panics
    /// Panics if the read does not wait.
    pub fn filled(&mut self, request: RequestId, segment: usize, buffer: BufferMut, result: Result<(), IoFailure>) -> Option<Reply> {
        let waiting = self.open.get_mut(&request.0).expect("the read waits for its runs");
        let blocks = buffer.blocks();
        waiting.segments[segment] = Segment::Data { slice: buffer.freeze().slice(0, blocks), start: 0, bytes: blocks * BLOCK_SIZE };
        waiting.failed |= result.is_err();
        waiting.left -= 1;
        if waiting.left > 0 {
            return None;
        }
        let waiting = self.open.remove(&request.0).expect("it was there");
        Some(if waiting.failed { Reply::Failed(Failure::Io) } else { Reply::Data(waiting.segments) })
    }
}
