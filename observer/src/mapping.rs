//! Memory that is shared with the kernel.
//!
//! 1. What both sides change while the other one looks is read and written as atomic words.
//! 2. Anything else is copied out, and only where the kernel does not write: a word that it has published marks them.

#![allow(unsafe_code)] // mmap, and loads from its memory

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A part of a file of the kernel, mapped until it is dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the mapping, which no thread has a part in but by this structure.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes at `offset`.
    pub fn new(file: BorrowedFd<'_>, offset: u64, bytes: usize, is_writable: bool) -> io::Result<Self> {
        let protection = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, offset)? };
        Ok(Self { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?, bytes })
    }

    /// Returns the word at `offset`. A mapping that is not writable must only be read.
    ///
    /// # Panics
    /// Panics if it lies outside, or across a border of words.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        assert_eq!(offset % 8, 0, "a word has its own place");
        // SAFETY: it lies within the mapping and is aligned, for the mapping begins at a page; both sides use it as an atomic.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Returns the word of four bytes at `offset`, as [`Mapping::word`] does.
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        self.check(offset, 4);
        assert_eq!(offset % 4, 0, "a word has its own place");
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies bytes that the kernel has published and does not change until it is allowed to.
    ///
    /// # Panics
    /// Panics if they lie outside.
    pub fn copy(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        // SAFETY: they lie within the mapping, `out` is memory of its own, and the caller says that nobody writes them now.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), out.as_mut_ptr(), out.len()) }
    }

    fn check(&self, offset: usize, bytes: usize) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "{bytes} bytes at {offset} lie outside of {} bytes", self.bytes);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and references to it end with it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}
