//! An opening compares what may not have been flushed with its records (L5).
//!
//! 1. Content that is not what its record says was lost in the crash; then that record is dropped.
//! 2. Or it has rotted since. Where a page that the record changes holds its epoch already, by its tag, the epoch was flushed (L2): nothing of it is
//!    dropped, for some pages would have its effects and others not. The block is damaged then, and a read of it finds that.

use super::open::READS_MAX;
use crate::buffer::BufferMut;
use crate::engine::Engine;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{self, PageId, SECTORS};
use crate::interface::{Class, IoFailure, Notice};
use crate::io::IoFor;
use crate::units::{BLOCK_SIZE, Epoch, Pbn};

/// Whether a page, as the medium has it, holds this epoch or a later one.
pub(crate) fn holds(uuid: &[u8; 16], id: PageId, bytes: &[u8; BLOCK_SIZE], epoch: Epoch) -> bool {
    let content = page::open(uuid, id, bytes, false).content;
    (0..SECTORS).any(|sector| content.tag(sector) >= epoch.get())
}

impl Engine {
    /// Reads what is to be compared; when all of it was, the opening goes on.
    pub(super) fn read_doubts(&mut self) {
        while self.log_opening().reads < READS_MAX {
            let Some((pbn, name)) = self.log_opening().doubts.pop() else { break };
            self.log_opening().reads += 1;
            let at = self.store.geometry.block_at(pbn);
            self.store.io.read(IoFor::DoubtRead { pbn, name }, at, 1, name.kind == Kind::Fingerprint, Class::Data);
        }
        let opening = self.log_opening();
        if opening.reads == 0 {
            let ended = opening.ended.as_ref().expect("the walk was read");
            opening.witnesses = ended.pages_naming(&opening.wrong).into_iter().collect();
            self.read_witnesses();
        }
    }

    /// Reads the pages that could say that nothing is to be dropped (invariant 2); when none of them does, the opening goes on.
    fn read_witnesses(&mut self) {
        while self.log_opening().reads < READS_MAX {
            let Some(id) = self.log_opening().witnesses.pop() else { break };
            self.log_opening().reads += 1;
            self.store.io.read(IoFor::WitnessRead(id), self.store.geometry.page_at(id), 1, false, id.region.into());
        }
        let opening = self.log_opening();
        if opening.reads == 0 {
            let (ended, wrong) = (opening.ended.take().expect("the walk was read"), std::mem::take(&mut opening.wrong));
            self.adopt(ended, &wrong, true);
        }
    }

    pub(crate) fn witness_arrived(&mut self, id: PageId, buffer: &BufferMut, result: Result<(), IoFailure>) {
        if result.is_err() {
            return self.opening_read_failed(IoFor::WitnessRead(id), self.store.geometry.page_at(id), false, id.region.into());
        }
        let uuid = self.store.medium.superblock.uuid;
        let Some(opening) = self.recovery.opening.as_mut() else { return };
        opening.reads -= 1;
        let epoch = opening.ended.as_ref().expect("it is adopted when all were read").epoch;
        if holds(&uuid, id, buffer.block(0), epoch) {
            opening.witnesses.clear();
            for pbn in std::mem::take(&mut opening.wrong) {
                self.store.io.notice(Notice::Damage { what: "content differs from its record, which was flushed", at: pbn.0 });
            }
        }
        self.read_witnesses();
    }

    pub(crate) fn doubt_arrived(
        &mut self,
        pbn: Pbn,
        name: FingerprintEntry,
        buffer: BufferMut,
        digests: &[Digest],
        result: Result<(), IoFailure>,
    ) {
        if result.is_err() {
            let at = self.store.geometry.block_at(pbn);
            return self.opening_read_failed(IoFor::DoubtRead { pbn, name }, at, name.kind == Kind::Fingerprint, Class::Data);
        }
        if self.recovery.opening.is_none() {
            return;
        }
        let is_right = match name.kind {
            Kind::Fingerprint => digests.first() == Some(&Digest::Of(name.value)),
            _ => self.store.keys.fingerprinter.checksum(buffer.block(0)) == name.value,
        };
        let opening = self.log_opening();
        opening.reads -= 1;
        if is_right {
            opening.again.push((pbn, buffer.freeze().slice(0, 1)));
        } else {
            opening.wrong.insert(pbn);
        }
        self.read_doubts();
    }
}
