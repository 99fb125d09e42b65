//! An opening compares what may not have been flushed with its records (L5).
//!
//! 1. Content that is not what its record says was lost in the crash; then that record is dropped.
//! 2. Or it has rotted since. Where a page that the record changes holds its epoch already, by its tag, the epoch was flushed (L2): nothing
//!    of it is dropped, for some pages would have its effects and others not. The block is damaged then, and a read of it finds that.

use super::reading::{Contents, READS_MAX};
use super::walk::Ended;
use crate::buffer::BufferMut;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{self, PageId, SECTORS};
use crate::interface::{Class, Notice};
use crate::io::{Arrived, IoFor};
use crate::store::Store;
use crate::tables::Unchained;
use crate::units::{BLOCK_SIZE, Epoch, Pbn};
use std::collections::BTreeSet;

/// Whether a page, as the medium has it, holds this epoch or a later one.
pub(crate) fn holds(uuid: &[u8; 16], id: PageId, bytes: &[u8; BLOCK_SIZE], epoch: Epoch) -> bool {
    let content = page::open(uuid, id, bytes, false).content;
    (0..SECTORS).any(|sector| content.tag(sector) >= epoch.get())
}

/// A log whose end is known, and what of it is being compared.
pub(super) struct Doubting {
    pub ended: Ended,
    pub live: Unchained,
    /// Units that count, though nobody knows that they were flushed: to be written again.
    pub units: Contents,
    /// Content that was compared and is right: to be written again, too.
    pub right: Contents,
    reads: usize,
    /// New blocks whose content is to be compared, and what it should be.
    doubts: Vec<(Pbn, FingerprintEntry)>,
    pub wrong: BTreeSet<Pbn>,
    /// Pages that could say that nothing is to be dropped for that; none before all content was compared.
    witnesses: Option<Vec<PageId>>,
}

impl Doubting {
    pub fn new(ended: Ended, live: Unchained, units: Contents) -> Self {
        Self { doubts: ended.doubtful(), ended, live, units, right: Vec::new(), reads: 0, wrong: BTreeSet::new(), witnesses: None }
    }

    /// Reads what is to be compared, then the pages that could say that nothing is to be dropped (invariant 2). Whether all was.
    pub fn is_done(&mut self, store: &mut Store) -> bool {
        while self.reads < READS_MAX {
            let Some((pbn, name)) = self.doubts.pop() else { break };
            self.reads += 1;
            let at = store.geometry.block_at(pbn);
            store.io.read(IoFor::ReadForVerification { pbn, name }, at, 1, name.kind == Kind::Fingerprint, Class::Data);
        }
        if self.reads > 0 && self.witnesses.is_none() {
            return false;
        }
        let witnesses = self.witnesses.get_or_insert_with(|| self.ended.pages_naming(&self.wrong).into_iter().collect());
        while self.reads < READS_MAX {
            let Some(id) = witnesses.pop() else { break };
            self.reads += 1;
            store.io.read(IoFor::PageForVerification(id), store.geometry.page_at(id), 1, false, id.region.into());
        }
        self.reads == 0
    }

    /// Content that was doubted has arrived.
    pub fn content_arrived(&mut self, store: &Store, pbn: Pbn, name: FingerprintEntry, arrived: Arrived) {
        let is_right = match name.kind {
            Kind::Fingerprint => arrived.digest(0) == Digest::Of(name.value),
            _ => store.keys.fingerprinter.checksum(arrived.buffer.block(0)) == name.value,
        };
        self.reads -= 1;
        if is_right {
            self.right.push((pbn, arrived.buffer.freeze().slice(0, 1)));
        } else {
            self.wrong.insert(pbn);
        }
    }

    /// A page has arrived that may hold the epoch.
    pub fn page_arrived(&mut self, store: &mut Store, id: PageId, buffer: &BufferMut) {
        self.reads -= 1;
        if holds(&store.medium.superblock.uuid, id, buffer.block(0), self.ended.epoch) {
            self.witnesses = Some(Vec::new());
            for pbn in std::mem::take(&mut self.wrong) {
                store.io.notice(Notice::Damage { what: "content differs from its record, which was flushed", at: pbn.0 });
            }
        }
    }
}
