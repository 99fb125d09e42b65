//! A request for extents that is being answered: the meaning of one LBN after the other, and the extents that they make.

use crate::format::entry::MapEntry;
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::interface::{Extent, ExtentKind, Request};
use crate::io::Io;
use crate::tables::Tables;
use crate::units::{BLOCK_BYTES, Lbn};

/// The most extents of an answer.
const EXTENTS_MAX: usize = 1024;
/// The most map pages that are looked at for an answer: those that nobody has written, and others.
const BLANK_PAGES_MAX: u64 = 4096;
const PAGES_MAX: u64 = 16;

/// A request for extents that is being answered.
pub(super) struct ExtentsOp {
    pub request: Request,
    next: Lbn,
    pub found: Vec<Extent>,
    pages: u64,
    blank_pages: u64,
}

impl ExtentsOp {
    pub fn new(request: Request) -> Self {
        let next = Lbn(request.offset.0 / BLOCK_BYTES);
        Self { request, next, found: Vec::new(), pages: 0, blank_pages: 0 }
    }

    /// Looks at the next LBNs. Returns the page that has to be read first; none: the answer is complete.
    pub fn look_up(&mut self, io: &mut Io, tables: &mut Tables, geometry: &Geometry) -> Option<PageId> {
        let end = Lbn((self.request.offset.0 + self.request.length.0).div_ceil(BLOCK_BYTES));
        while self.next < end && self.found.len() < EXTENTS_MAX && self.pages < PAGES_MAX && self.blank_pages < BLANK_PAGES_MAX {
            let (page_end, is_blank) = tables.map_page(io, self.next);
            let page_end = page_end.min(end);
            let is_settled = tables.open.is_empty() && tables.committing.is_none();
            if is_blank && is_settled && tables.proved_only().is_none() {
                self.add(page_end, ExtentKind::Hole);
                self.blank_pages += 1;
                continue;
            }
            while self.next < page_end {
                match kind_of(io, tables, geometry, self.next, is_blank) {
                    Ok(kind) => self.add(Lbn(self.next.0 + 1), kind),
                    Err(page) => return Some(page),
                }
            }
            self.pages += 1;
        }
        None
    }

    /// Adds what was asked for of the LBNs up to `end`, which are of this kind.
    fn add(&mut self, end: Lbn, kind: ExtentKind) {
        let (begin_asked, end_asked) = (self.request.offset.0, self.request.offset.0 + self.request.length.0);
        let bytes = (end.0 * BLOCK_BYTES).min(end_asked) - (self.next.0 * BLOCK_BYTES).max(begin_asked);
        self.next = end;
        match self.found.last_mut().and_then(|extent| Some((extent.kind.with(kind)?, extent))) {
            Some((kind, extent)) => *extent = Extent { bytes: extent.bytes + bytes, kind },
            None => self.found.push(Extent { bytes, kind }),
        }
    }
}

/// Returns the kind of an LBN's content. `is_blank`: nobody has written its map page. `Err`: this map page has to be read first.
fn kind_of(io: &mut Io, tables: &mut Tables, geometry: &Geometry, lbn: Lbn, is_blank: bool) -> Result<ExtentKind, PageId> {
    let uncommitted = tables.overlay(lbn).map(|(entry, _)| entry);
    // After a failure content that was not committed is not to be trusted (A5).
    if uncommitted.is_some() && io.has_failed() {
        return Ok(ExtentKind::Damaged);
    }
    let entry = match uncommitted {
        Some(entry) => Some(entry),
        None if is_blank => Some(MapEntry::Unmapped),
        None => tables.lookup(io, lbn)?,
    };
    // After a damaged log only content proves what an LBN means.
    let is_proved = tables.proved_only().is_none();
    Ok(match entry {
        Some(MapEntry::Unmapped) if is_proved => ExtentKind::Hole,
        Some(MapEntry::Zero) if is_proved => ExtentKind::Zeroes,
        Some(MapEntry::Block { pbn, .. }) if pbn.0 < geometry.data_blocks => ExtentKind::Data { first: pbn, last: pbn },
        _ => ExtentKind::Damaged,
    })
}
