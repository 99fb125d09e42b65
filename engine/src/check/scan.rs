//! The scan of metadata pages: reads them in large pieces, and reports those that are damaged.

use super::finding::Finding;
use super::log::LiveLog;
use super::medium::ReadMedium;
use super::tell::{Run, Teller};
use crate::buffer::BufferMut;
use crate::format::page::{SECTORS, open};
use crate::format::{Opened, PageContent, PageId, Region, Superblock};
use crate::interface::IoFailure;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, Epoch, count, index};
use std::rc::Rc;

/// Reads a medium, neighbouring pages of it at once.
pub(crate) struct Scan<'a> {
    medium: &'a mut dyn ReadMedium,
    superblock: &'a Superblock,
    buffer: BufferMut,
    written: WrittenBits,
    bytes_read: u64,
    log: Rc<LiveLog>,
}

/// The page of *written* that was used last.
struct WrittenBits {
    page: Option<(PageId, PageContent)>,
    buffer: BufferMut,
}

/// Whether the pages of a scan are looked at for the first time, so that their damage has to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    First,
    Again,
}

/// Damage to neighbouring pages of a region, as far as it is not reported yet.
struct Damage {
    region: Region,
    sectors: Run,
    pages: Run,
}

impl Damage {
    fn of(region: Region) -> Self {
        Self { region, sectors: Run::default(), pages: Run::default() }
    }

    /// Reports the damage of a page, and tags of epochs that never were. Nothing on the medium is newer than `newest`.
    fn report(&mut self, id: PageId, opened: &Opened, is_readable: bool, newest: Epoch, teller: &mut Teller) {
        let region = self.region;
        let tags = (0..SECTORS).map(|sector| (sector, opened.content.tag(sector)));
        let newer = tags.filter(|(_, tag)| *tag > newest.get());
        newer.for_each(|(i, tag)| teller.tell(Finding::UnexpectedTag { region, sector: id.sector(i), tag }));
        if !is_readable {
            self.pages.push(id.index, 1, teller, unreadable_pages(region));
            return;
        }
        let sectors = (0..SECTORS).filter(|sector| !opened.is_sound(*sector));
        sectors.for_each(|sector| self.sectors.push(id.sector(sector), 1, teller, damaged_sectors(region)));
    }

    /// Reports what is left.
    fn finish(&mut self, teller: &mut Teller) {
        self.sectors.finish(teller, damaged_sectors(self.region));
        self.pages.finish(teller, unreadable_pages(self.region));
    }
}

fn damaged_sectors(region: Region) -> impl Fn(u64, u64) -> Finding {
    move |first, sectors| Finding::DamagedSectors { region, first, sectors }
}

fn unreadable_pages(region: Region) -> impl Fn(u64, u64) -> Finding {
    move |first, pages| Finding::UnreadablePages { region, first, pages }
}

impl<'a> Scan<'a> {
    pub(crate) fn new(medium: &'a mut dyn ReadMedium, superblock: &'a Superblock, pages: u64) -> Self {
        let written = WrittenBits { page: None, buffer: BufferMut::zeroed(1) };
        Self {
            medium,
            superblock,
            buffer: BufferMut::zeroed(index(pages)),
            written,
            bytes_read: 0,
            log: Rc::new(LiveLog::none(superblock)),
        }
    }

    /// Puts the log's records before the content of pages from now on.
    pub(crate) fn take_log(&mut self, log: Rc<LiveLog>) {
        self.bytes_read += log.bytes_read;
        self.log = log;
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads blocks of the device.
    pub(crate) fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        self.bytes_read += count(buffer.len());
        self.medium.read(at, buffer)
    }

    /// Visits the pages of a range of a region, in order. In those that cannot be read, all sectors are damaged.
    pub(crate) fn pages(
        &mut self,
        region: Region,
        range: std::ops::Range<u64>,
        look: Look,
        teller: &mut Teller,
        visit: &mut dyn FnMut(&mut Teller, PageId, &Opened),
    ) {
        let mut damage = Damage::of(region);
        let mut first = range.start;
        while first < range.end {
            let pages = self.contiguous(region, first, range.end);
            let are_readable = self.fill(PageId { region, index: first }, pages).is_ok();
            for i in 0..pages {
                let id = PageId { region, index: first + i };
                let is_readable = are_readable || self.fill_one(id, i);
                let opened = self.open(id, i, is_readable);
                if look == Look::First {
                    damage.report(id, &opened, is_readable, self.log.epoch, teller);
                }
                visit(teller, id, &opened);
            }
            teller.advance(pages * BLOCK_BYTES);
            first += pages;
        }
        damage.finish(teller);
    }

    /// Visits one page and returns it. If it cannot be read, all its sectors are damaged.
    pub(crate) fn page(&mut self, id: PageId, teller: &mut Teller, look: Look, visit: impl FnOnce(&mut Teller, &Opened)) -> Opened {
        let is_readable = self.fill(id, 1).is_ok() || self.fill_one(id, 0);
        let opened = self.open(id, 0, is_readable);
        let mut damage = Damage::of(id.region);
        if look == Look::First {
            damage.report(id, &opened, is_readable, self.log.epoch, teller);
        }
        visit(teller, &opened);
        teller.advance(BLOCK_BYTES);
        damage.finish(teller);
        opened
    }

    /// The page that was read to a place of the buffer, with what the log says of it.
    fn open(&mut self, id: PageId, place: u64, is_readable: bool) -> Opened {
        let written = id.region == Region::Written || self.is_written(id);
        let mut opened = open(&self.superblock.origin, id, self.buffer.block(index(place)), written);
        if !is_readable {
            opened.lose(id.region);
        }
        self.log.put_right(id, &mut opened);
        opened
    }

    /// The number of pages from `first` on that lie side by side, as far as the buffer goes.
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
        let mut content = open(&self.superblock.origin, page, self.written.buffer.block(0), true).content;
        if read.is_err() {
            (0..SECTORS).for_each(|sector| content.lose_sector(Region::Written, sector));
        }
        let set = content.bit(bit);
        self.written.page = Some((page, content));
        set
    }
}
