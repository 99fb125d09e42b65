//! Memory that carries content between clients and the device.
//!
//! 1. A buffer consists of whole frames, aligned to 4096 bytes, so that it can go to an O_DIRECT descriptor as it is.
//! 2. A [`BufferMut`] has one owner, who may write it. Frozen, it becomes a [`Buffer`]: shared, and never changed again (R6).
//! 3. When their last holder drops them, the frames return to their [`Home`], and with them their share of the budget.

use crate::units::{BLOCK_SIZE, count, index};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// One block of memory, aligned as a block.
#[derive(Clone)]
#[repr(C, align(4096))]
pub struct Frame(pub [u8; BLOCK_SIZE]);

impl Frame {
    /// A frame of zeros.
    pub const ZERO: Self = Self([0; BLOCK_SIZE]);
}

/// The pool from which buffers come and to which they return. The runtime has one; simulation uses plain memory.
pub trait Home: Send + Sync {
    /// Takes a buffer of `blocks` frames with arbitrary content. The caller asks the accountant first.
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut;
    /// Takes back the frames of a buffer that was dropped.
    fn give_back(&self, frames: Box<[Frame]>, tag: u32);
}

/// Frames with one owner, who may write them.
pub struct BufferMut {
    frames: Box<[Frame]>,
    tag: u32,
    home: Option<Arc<dyn Home>>,
}

impl BufferMut {
    /// Zeroed frames that belong to no pool.
    #[must_use]
    pub fn zeroed(blocks: usize) -> Self {
        Self { frames: vec![Frame::ZERO; blocks].into_boxed_slice(), tag: 0, home: None }
    }

    /// Frames of a pool. The pool chooses `tag`; it may be the index of a registered buffer.
    #[must_use]
    pub fn of_pool(frames: Box<[Frame]>, tag: u32, home: Arc<dyn Home>) -> Self {
        Self { frames, tag, home: Some(home) }
    }

    /// The number of its blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.frames.len()
    }

    /// The tag that the pool chose; 0 where there is no pool.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytes_of(&self.frames)
    }

    /// All bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytes_of_mut(&mut self.frames)
    }

    /// One block.
    #[must_use]
    pub fn block(&self, i: usize) -> &[u8; BLOCK_SIZE] {
        &self.frames[i].0
    }

    /// One block, to be written.
    pub fn block_mut(&mut self, i: usize) -> &mut [u8; BLOCK_SIZE] {
        &mut self.frames[i].0
    }

    /// Gives up the right to write it.
    #[must_use]
    pub fn freeze(self) -> Buffer {
        Buffer(Arc::new(self))
    }
}

impl Drop for BufferMut {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.frames), self.tag);
        }
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferMut({} blocks)", self.frames.len())
    }
}

/// Shared frames that do not change any more.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<BufferMut>);

impl Deref for Buffer {
    type Target = BufferMut;
    fn deref(&self) -> &BufferMut {
        &self.0
    }
}

impl Buffer {
    /// `blocks` of its blocks, from `first` on.
    ///
    /// # Panics
    /// When the buffer does not hold them.
    #[must_use]
    pub fn slice(&self, first: usize, blocks: usize) -> Slice {
        assert!(first + blocks <= self.blocks(), "slice of {blocks} from {first} in {} blocks", self.blocks());
        let short = |blocks: usize| u32::try_from(blocks).expect("a buffer in memory has fewer than 2^32 blocks");
        Slice { buffer: self.clone(), first: short(first), blocks: short(blocks) }
    }
}

/// Some neighbouring blocks of a frozen buffer.
#[derive(Clone, Debug)]
pub struct Slice {
    buffer: Buffer,
    // These are short because each block in flight has a slice.
    first: u32,
    blocks: u32,
}

impl Slice {
    /// The number of its blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        index(self.blocks.into())
    }

    fn first(&self) -> usize {
        index(self.first.into())
    }

    /// Whether it is the whole buffer that it keeps in memory.
    #[must_use]
    pub fn is_whole_buffer(&self) -> bool {
        self.blocks() == self.buffer.blocks()
    }

    /// The bytes of all of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytes_of(&self.buffer.frames[self.first()..][..self.blocks()])
    }

    /// The bytes of one of them.
    #[must_use]
    pub fn block(&self, i: usize) -> &[u8; BLOCK_SIZE] {
        assert!(i < self.blocks());
        self.buffer.block(self.first() + i)
    }

    /// The buffer and the number of the first block in it.
    #[must_use]
    pub fn place(&self) -> (&Buffer, usize) {
        (&self.buffer, self.first())
    }

    /// One of its blocks.
    #[must_use]
    pub fn nth(&self, i: usize) -> Self {
        assert!(i < self.blocks());
        self.buffer.slice(self.first() + i, 1)
    }

    /// Grows by `next` if that follows it in the same buffer; otherwise returns `next`.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        if Arc::ptr_eq(&self.buffer.0, &next.buffer.0) && self.first + self.blocks == next.first {
            self.blocks += next.blocks;
            return None;
        }
        Some(next)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        count(self.blocks() * BLOCK_SIZE)
    }
}

#[allow(unsafe_code)] // the engine's only unsafe lines: a frame is exactly its bytes
mod flat {
    use crate::buffer::Frame;
    use crate::units::BLOCK_SIZE;

    const _: () = assert!(size_of::<Frame>() == BLOCK_SIZE && align_of::<Frame>() == BLOCK_SIZE);

    pub fn bytes_of(frames: &[Frame]) -> &[u8] {
        // SAFETY: a Frame is repr(C) around its byte array, with no padding (asserted above); u8 has no invalid values.
        unsafe { std::slice::from_raw_parts(frames.as_ptr().cast(), frames.len() * BLOCK_SIZE) }
    }

    pub fn bytes_of_mut(frames: &mut [Frame]) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(frames.as_mut_ptr().cast(), frames.len() * BLOCK_SIZE) }
    }
}
use flat::{bytes_of, bytes_of_mut};
