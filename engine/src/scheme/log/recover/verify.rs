//! Verification: an opening compares content that may not have been flushed with its records (L5).
//!
//! 1. Content that differs from its record was lost in the crash; then that record is dropped.
//! 2. Or it has rotted since. Where the tag of a page that the record changes shows its epoch, that epoch was flushed (L2): none of its
//!    records are dropped, since some pages would have its effects and others not. The block is damaged then, and a read of it finds that.

use super::reading::{Contents, READS_MAX};
use super::scan::ScanEnd;
use crate::buffer::BufferMut;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::geometry::Geometry;
use crate::format::page::{self, PageId, SECTORS};
use crate::interface::{Class, Notice};
use crate::io::{Arrived, Io, IoFor};
use crate::pool::{Keys, Pool};
use crate::tables::UnlinkedRecords;
use crate::units::{BLOCK_SIZE, Epoch, Pbn};
use std::collections::BTreeSet;

/// Whether a page, as it is on the medium, holds this epoch or a later one.
pub(crate) fn holds(uuid: &[u8; 16], id: PageId, bytes: &[u8; BLOCK_SIZE], epoch: Epoch) -> bool {
    let content = page::open(uuid, id, bytes, false).content;
    (0..SECTORS).any(|sector| content.tag(sector) >= epoch.get())
}

/// A log whose end is known, and whose content is being verified.
pub(super) struct Verification {
    pub ended: ScanEnd,
    pub live: UnlinkedRecords,
    /// Units that count, and may not have been flushed: they are written again.
    pub units: Contents,
    /// Content that was found right: it is written again, too.
    pub right: Contents,
    reads: usize,
    /// New blocks whose content is to be compared, and their fingerprints.
    unverified: Vec<(Pbn, FingerprintEntry)>,
    pub wrong: BTreeSet<Pbn>,
    /// Pages that could prove that the epoch was flushed; `None` until all content is compared.
    witnesses: Option<Vec<PageId>>,
}

impl Verification {
    pub fn new(ended: ScanEnd, live: UnlinkedRecords, units: Contents) -> Self {
        Self { unverified: ended.unverified(), ended, live, units, right: Vec::new(), reads: 0, wrong: BTreeSet::new(), witnesses: None }
    }

    /// Reads the content to be compared, then the pages that could prove that nothing is to be dropped (invariant 2). Returns whether all
    /// is done.
    pub fn is_done(&mut self, io: &mut Io, geometry: &Geometry) -> bool {
        while self.reads < READS_MAX {
            let Some((pbn, name)) = self.unverified.pop() else { break };
            self.reads += 1;
            let at = geometry.block_at(pbn);
            io.read(IoFor::ReadForVerification { pbn, name }, at, 1, name.kind == Kind::Fingerprint, Class::Data);
        }
        if self.reads > 0 && self.witnesses.is_none() {
            return false;
        }
        let witnesses = self.witnesses.get_or_insert_with(|| self.ended.pages_naming(&self.wrong).into_iter().collect());
        while self.reads < READS_MAX {
            let Some(id) = witnesses.pop() else { break };
            self.reads += 1;
            io.read(IoFor::PageForVerification(id), geometry.page_at(id), 1, false, id.region.into());
        }
        self.reads == 0
    }

    /// Compares content with its record.
    pub fn content_arrived(&mut self, keys: &Keys, pbn: Pbn, name: FingerprintEntry, arrived: Arrived) {
        let is_right = name.proves(&keys.fingerprinter, arrived.digest(0), arrived.buffer.block(0));
        self.reads -= 1;
        if is_right {
            self.right.push((pbn, arrived.buffer.freeze().slice(0, 1)));
        } else {
            self.wrong.insert(pbn);
        }
    }

    /// Looks for the epoch on a page.
    pub fn page_arrived(&mut self, pool: &mut Pool, id: PageId, buffer: &BufferMut) {
        self.reads -= 1;
        if holds(&pool.medium.superblock.origin, id, buffer.block(0), self.ended.epoch) {
            self.witnesses = Some(Vec::new());
            for pbn in std::mem::take(&mut self.wrong) {
                pool.io.notice(Notice::Damage { what: "content differs from its record, which was flushed", at: pbn.0 });
                pool.contents.suspect(&mut pool.io, pbn);
            }
        }
    }
}
