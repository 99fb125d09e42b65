//! Reading metadata pages in large pieces, and telling of those that are damaged.

use super::log::LiveLog;
use super::tell::{Run, Teller};
use super::{Finding, ReadMedium};
use crate::buffer::BufferMut;
use crate::format::page::{SECTORS, open};
use crate::format::{Opened, PageContent, PageId, Region, Superblock};
use crate::interface::IoFailure;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, count, index};

/// Reads a medium, and what of it belongs together in one go.
pub(super) struct Scan<'a> {
    medium: &'a mut dyn ReadMedium,
    superblock: &'a Superblock,
    buffer: BufferMut,
    written: WrittenBits,
    bytes_read: u64,
    log: LiveLog,
}

/// The page of *written* that was asked for last.
struct WrittenBits {
    page: Option<(PageId, PageContent)>,
    buffer: BufferMut,
}

/// Whether the pages of a scan are looked at for the first time, so that their damage has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    First,
    Again,
}

impl<'a> Scan<'a> {
    pub(super) fn new(medium: &'a mut dyn ReadMedium, superblock: &'a Superblock, pages: u64) -> Self {
        let written = WrittenBits { page: None, buffer: BufferMut::zeroed(1) };
        Self { medium, superblock, buffer: BufferMut::zeroed(index(pages)), written, bytes_read: 0, log: LiveLog::none(superblock) }
    }

    /// What the log says goes before what pages say from now on.
    pub(super) fn take_log(&mut self, log: LiveLog) {
        self.bytes_read += log.bytes_read;
        self.log = log;
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads blocks of the device.
    pub(super) fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        self.bytes_read += count(buffer.len());
        self.medium.read(at, buffer)
    }

    /// Visits the pages `first..end` of a region, in order. In those that cannot be read, all sectors are damaged.
    pub(super) fn pages(
        &mut self,
        region: Region,
        range: std::ops::Range<u64>,
        look: Look,
        teller: &mut Teller,
        visit: &mut dyn FnMut(&mut Teller, PageId, &Opened),
    ) {
        let (mut damaged, mut unreadable) = (Run::default(), Run::default());
        let damaged_sectors = |first, sectors| Finding::DamagedSectors { region, first, sectors };
        let unreadable_pages = |first, pages| Finding::UnreadablePages { region, first, pages };
        let mut first = range.start;
        while first < range.end {
            let pages = self.contiguous(region, first, range.end);
            let readable = self.fill(PageId { region, index: first }, pages);
            for i in 0..pages {
                let id = PageId { region, index: first + i };
                let written = region == Region::Written || self.is_written(id);
                let readable = readable.is_ok() || self.fill_one(id, i);
                let mut opened = open(&self.superblock.uuid, id, self.buffer.block(index(i)), written);
                if !readable {
                    (0..SECTORS).for_each(|sector| opened.content.lose_sector(region, sector));
                    (opened.damaged, opened.blank) = (0xff, false);
                }
                self.log.put_right(id, &mut opened);
                if look == Look::First {
                    let newer =
                        (0..SECTORS).map(|sector| (sector, opened.content.tag(sector))).filter(|(_, tag)| *tag > self.log.epoch.get());
                    newer.for_each(|(i, tag)| teller.tell(Finding::UnexpectedTag { region, sector: id.sector(i), tag }));
                    if !readable {
                        unreadable.push(id.index, 1, teller, unreadable_pages);
                    } else if opened.damaged != 0 {
                        let sectors = (0..SECTORS).filter(|sector| opened.damaged & (1 << sector) != 0);
                        sectors.for_each(|sector| damaged.push(id.sector(sector), 1, teller, damaged_sectors));
                    }
                }
                visit(teller, id, &opened);
            }
            teller.advance(pages * BLOCK_BYTES);
            first += pages;
        }
        damaged.finish(teller, damaged_sectors);
        unreadable.finish(teller, unreadable_pages);
    }

    /// How many pages from `first` on lie side by side, as far as the buffer goes.
    fn contiguous(&self, region: Region, first: u64, end: u64) -> u64 {
        let geometry = &self.superblock.geometry;
        let at = geometry.page_at(PageId { region, index: first });
        let most = (end - first).min(count(self.buffer.blocks()));
        (1..most).find(|&i| geometry.page_at(PageId { region, index: first + i }) != at + i * BLOCK_BYTES).unwrap_or(most)
    }

    fn fill(&mut self, id: PageId, pages: u64) -> Result<(), IoFailure> {
        let at = self.superblock.geometry.page_at(id);
        self.bytes_read += pages * BLOCK_BYTES;
        self.medium.read(at, &mut self.buffer.bytes_mut()[..index(pages) * BLOCK_SIZE])
    }

    /// Reads one page of a piece that could not be read as a whole.
    fn fill_one(&mut self, id: PageId, place: u64) -> bool {
        let at = self.superblock.geometry.page_at(id);
        self.bytes_read += BLOCK_BYTES;
        self.medium.read(at, &mut self.buffer.block_mut(index(place))[..]).is_ok()
    }

    /// A page's bit. Where the bits cannot be read they count as set, as they do for the engine.
    fn is_written(&mut self, id: PageId) -> bool {
        let (page, bit) = self.superblock.geometry.written_of(id);
        if let Some((cached, content)) = &self.written.page {
            if *cached == page {
                return content.bit(bit);
            }
        }
        let at = self.superblock.geometry.page_at(page);
        self.bytes_read += BLOCK_BYTES;
        let read = self.medium.read(at, self.written.buffer.bytes_mut());
        let mut content = open(&self.superblock.uuid, page, self.written.buffer.block(0), true).content;
        if read.is_err() {
            (0..SECTORS).for_each(|sector| content.lose_sector(Region::Written, sector));
        }
        let set = content.bit(bit);
        self.written.page = Some((page, content));
        set
    }
}
