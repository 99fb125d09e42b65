//! Writing: pages with their checks, and copies of the superblock.

use crate::buffer::BufferMut;
use crate::check::ReadMedium;
use crate::format::page::seal;
use crate::format::{PageContent, PageId, Superblock, copies};
use crate::interface::IoFailure;
use crate::units::Bytes;
use std::collections::BTreeSet;

/// A device that is changed while nobody serves it.
pub trait RepairMedium: ReadMedium {
    /// Writes one block at byte `at`, a multiple of 4096.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// When the device fails: then nothing since the last flush is known to be durable.
    fn flush(&mut self) -> Result<(), IoFailure>;
}

/// Writes pages, and keeps in mind which: their bits of *written* are set behind them.
pub(super) struct Writer<'a> {
    superblock: &'a Superblock,
    buffer: BufferMut,
    pub(super) written: BTreeSet<PageId>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(superblock: &'a Superblock) -> Self {
        Self { superblock, buffer: BufferMut::zeroed(1), written: BTreeSet::new() }
    }

    /// Writes a page to its place.
    pub(super) fn page<M: RepairMedium>(&mut self, medium: &mut M, id: PageId, content: &mut PageContent) -> Result<(), IoFailure> {
        seal(&self.superblock.origin, id, content, self.buffer.block_mut(0));
        medium.write(self.superblock.geometry.page_at(id), &self.buffer)?;
        self.written.insert(id);
        Ok(())
    }
}

/// Writes these copies of the superblock.
pub(super) fn superblock<M: RepairMedium>(medium: &mut M, superblock: &Superblock, which: [usize; 2]) -> Result<(), IoFailure> {
    let (places, mut buffer) = (copies(superblock.geometry.device_bytes), BufferMut::zeroed(1));
    for copy in which {
        superblock.encode(copy, buffer.block_mut(0));
        medium.write(places[copy], &buffer)?;
    }
    Ok(())
}
