//! Media: volumes as they are formatted, and what is written to them.

use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::{self, Chosen, FormatStep, Geometry, Superblock, Wish};
use onefold_engine::interface::{Promise, Promised, Reply, Segment};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, index};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for buffers.
#[derive(Default)]
pub struct Heap(AtomicUsize);

impl Heap {
    /// The number of blocks that are in use.
    pub fn blocks_out(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Home for Heap {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        self.0.fetch_add(blocks, Ordering::Relaxed);
        BufferMut::of_pool(vec![Frame::ZERO; blocks].into_boxed_slice(), 0, self)
    }

    fn give_back(&self, frames: Box<[Frame]>, _: u32) {
        self.0.fetch_sub(frames.len(), Ordering::Relaxed);
    }
}

pub fn blank(bytes: u64, logical: Option<u64>) -> Vec<u8> {
    formatted([7; 16], bytes, logical)
}

/// A blank volume of this UUID.
pub fn formatted(uuid: [u8; 16], bytes: u64, logical: Option<u64>) -> Vec<u8> {
    let geometry =
        Geometry::plan(Bytes(bytes), &Wish { logical_blocks: logical, reserve_blocks: None, guard: false, notes_blocks: 0 }).expect("fits");
    let superblock = Superblock::new(geometry, uuid, [9; 32], Algorithm::Blake3, &Settings::default());
    format_over(vec![0xA5; index(bytes)], &superblock)
}

/// A medium, formatted as this volume.
pub fn format_over(mut medium: Vec<u8>, superblock: &Superblock) -> Vec<u8> {
    for step in format::format(superblock, Bytes(medium.len() as u64), &[]) {
        match step {
            FormatStep::Zero { at, length } => medium[index(at.0)..index(at.0 + length.0)].fill(0),
            FormatStep::Write { at, page } => medium[index(at.0)..index(at.0) + BLOCK_SIZE].copy_from_slice(&page[..]),
            FormatStep::Flush => {}
        }
    }
    medium
}

/// The superblock that counts; none where the medium holds no volume that can be used.
pub fn chosen(medium: &[u8]) -> Option<Superblock> {
    Some(found(medium)?.into_service())
}

/// The superblock that counts, and the state of all copies.
pub fn found(medium: &[u8]) -> Option<Chosen> {
    let bytes = u64::try_from(medium.len()).expect("fits");
    let page = |at: Bytes| medium.get(usize::try_from(at.get()).ok()?..)?.first_chunk::<BLOCK_SIZE>();
    let front = [Bytes(0), Bytes(4096)].map(page);
    let end = format::end_copies(front, Bytes(bytes)).map(page);
    format::choose([front[0], front[1], end[0], end[1]], Bytes(bytes)).ok()
}

pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()[3]
        })
        .collect()
}

/// The blocks of a copy in an order in which the smallest index finds few of them: backwards, so that nothing leads from one to the next,
/// and the last ones late, when they are no longer the most recent ones.
pub fn backwards(blocks: u64) -> impl Iterator<Item = u64> {
    (0..blocks / 2).rev().chain((blocks / 2..blocks).rev())
}

/// Appends entries to the acknowledgement journal, which takes some once the replay has ended. A later entry for the LBN of a content frees
/// the room of that content.
pub fn remember(journal: &mut Vec<Promise>, promises: Vec<Promise>, has_ended: bool) {
    assert!(has_ended, "the replay has not ended: {promises:?}");
    for promise in promises {
        if let Promised::Link { lbn, .. } | Promised::Zero { lbn } | Promised::Content { lbn, .. } = promise.what {
            journal.retain(|before| !matches!(before.what, Promised::Content { lbn: of, .. } if of == lbn));
        }
        journal.push(promise);
    }
}

/// The bytes that a read answers.
pub fn content_of(reply: Reply) -> Vec<u8> {
    let Reply::Data(segments) = reply else { panic!("{reply:?}") };
    let mut bytes = Vec::new();
    for segment in segments {
        match segment {
            Segment::Zeroes { bytes: n } => bytes.extend(vec![0; index(n)]),
            Segment::Data { slice, start, bytes: n } => bytes.extend(&slice.bytes()[start..start + n]),
        }
    }
    bytes
}
