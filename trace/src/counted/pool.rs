//! Memory that is reused, so that a run of millions of blocks allocates little.

use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::BLOCK_BYTES;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest number of frames that are kept for later use where memory is no matter: 32 MiB.
const FRAMES_KEPT_MAX: usize = 8192;

#[derive(Default)]
struct FreeFrames {
    /// Frames of one block each: by far the most.
    ones: Vec<Box<[Frame]>>,
    by_blocks: FxHashMap<usize, Vec<Box<[Frame]>>>,
    frames: usize,
}

impl FreeFrames {
    fn take(&mut self, blocks: usize) -> Option<Box<[Frame]>> {
        let kept = if blocks == 1 { self.ones.pop() } else { self.by_blocks.get_mut(&blocks).and_then(Vec::pop) };
        self.frames -= kept.as_ref().map_or(0, |frames| frames.len());
        kept
    }

    fn keep(&mut self, frames: Box<[Frame]>, most: usize) {
        if self.frames + frames.len() > most {
            return;
        }
        self.frames += frames.len();
        match frames.len() {
            1 => self.ones.push(frames),
            blocks => self.by_blocks.entry(blocks).or_default().push(frames),
        }
    }
}

/// A pool of frames. New frames are zeros, others are as their last user left them.
pub struct Pool {
    free: Mutex<FreeFrames>,
    /// The most frames that are kept.
    kept_max: usize,
    /// The accountant that gets back the share of the budget that a buffer was given.
    charged: Option<Arc<Accountant>>,
}

impl Pool {
    /// Makes a pool whose buffers are accounted for by other means.
    #[must_use]
    pub fn plain() -> Arc<Self> {
        Self::keeping(FRAMES_KEPT_MAX)
    }

    /// Makes the same, of which at most this many frames are kept for later use.
    #[must_use]
    pub fn keeping(frames: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), kept_max: frames, charged: None })
    }

    /// Makes a pool of requests' buffers: their share returns with them.
    #[must_use]
    pub fn of_requests(accountant: Arc<Accountant>) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), kept_max: FRAMES_KEPT_MAX, charged: Some(accountant) })
    }
}

impl Home for Pool {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).take(blocks);
        BufferMut::of_pool(kept.unwrap_or_else(|| vec![Frame::ZERO; blocks].into_boxed_slice()), 0, self)
    }

    fn give_back(&self, frames: Box<[Frame]>, _: u32) {
        if let Some(accountant) = &self.charged {
            accountant.give(Part::Requests, frames.len() as u64 * BLOCK_BYTES);
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).keep(frames, self.kept_max);
    }
}
