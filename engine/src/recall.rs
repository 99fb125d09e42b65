//! What the last server had promised is applied, in order, before the first request: by the same way as writes, and committed.
//!
//! 1. One after the other: of two promises for one LBN the later one counts.
//! 2. The epoch of a promise may be durable although its server did not live to say so. What an LBN means already stays.
//! 3. A promise of a block counts if its content is proved (`proof.rs`): else the LBN stays as it is on the medium.
//! 4. The count of a block may be at its limit because the dead server's increments reached the medium and its links did not. Then its content is
//!    written again.
//! 5. A pack that a promise names and no table is born again, in the epoch that recalls it. Mode `ordered` makes no packs: what it finds in such a one
//!    is written again.
//! 6. A promise that cannot be kept is reported by the next flush.

use crate::admit::{Pending, WriteOp, WriteStage};
use crate::buffer::{BufferMut, Slice};
use crate::engine::Engine;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{Kind, MapEntry, SLOT_MAX};
use crate::format::page::PageId;
use crate::interface::{Action, Class, IoFailure, Legacy, Notice, Promised, RequestId};
use crate::io::IoFor;
use crate::io::Stage;
use crate::proof::Proofs;
use crate::schedule::Task;
use crate::space::Fresh;
use crate::store::Compared;
use crate::store::in_slot;
use crate::tables::Got;
use crate::units::{BLOCK_SIZE, Lbn, Pbn};

/// Stands for whoever wrote what is recalled.
pub(crate) const RECALLED: RequestId = RequestId(u64::MAX);

impl Engine {
    /// Hands over what the last server has left, before the first event.
    pub fn recall(&mut self, legacy: Legacy) {
        debug_assert!(self.store.io.stage == Stage::Created, "promises are recalled before anything else");
        let Legacy { promises, traces } = legacy;
        let named = promises.iter().filter_map(|what| if let Promised::Link { pbn, .. } = what { Some((*pbn, ())) } else { None });
        self.store.space.promised = named.collect();
        self.journal.proofs = Proofs::of(&promises, self.store.geometry.data_blocks);
        self.journal.traces = traces;
        self.journal.recalled = promises.into();
    }

    /// Proves recalled promises, then applies them, as far as pages in memory allow.
    pub(crate) fn go_on_recalling(&mut self) {
        if self.store.io.stage != Stage::Recalling {
            return;
        }
        match self.is_traced(self.journal.traces) {
            Err(page) => return self.store.tables.wait(&mut self.store.io, page, Task::Recall),
            // Once: what is recalled changes the sector that is the trace.
            Ok(true) => {
                self.journal.traces = [None; 2];
                self.store_is_known();
            }
            Ok(false) => self.refuse_promises(),
        }
        if !self.read_proofs() {
            return;
        }
        while let (Stage::Recalling, Some(what)) = (self.store.io.stage, self.journal.recalled.front().cloned()) {
            let (logical, data) = (self.store.geometry.logical_blocks, self.store.geometry.data_blocks);
            match what {
                Promised::Unmap { first, end } if first < end && end.0 <= logical => self.unmap(first, end),
                Promised::Zero { lbn } if lbn.0 < logical => self.set_point(lbn, MapEntry::Zero),
                Promised::Content { lbn, content } if lbn.0 < logical => return self.recall_content(lbn, content),
                Promised::Link { lbn, pbn, slot, proof } if lbn.0 < logical && pbn.0 < data && slot <= SLOT_MAX => {
                    if !self.recall_link(lbn, pbn, slot, &proof) {
                        return;
                    }
                }
                _ => self.journal.broken += 1,
            }
            self.journal.recalled.pop_front();
        }
        self.serve_when_recalled();
    }

    /// The store is not the one that the last server left.
    fn refuse_promises(&mut self) {
        self.journal.lost = true;
        self.journal.is_set_back = true;
        self.journal.traces = [None; 2];
        self.journal.recalled.clear();
        self.journal.proofs = Proofs::default();
        self.store.io.notice(Notice::SetBack);
    }

    /// False: something has to come first.
    fn recall_link(&mut self, lbn: Lbn, pbn: Pbn, slot: u8, proof: &Fingerprint) -> bool {
        let to = MapEntry::Block { pbn, slot };
        match self.store.tables.lookup(&mut self.store.io, lbn) {
            Ok(Some(now)) if now == to => return true,
            Ok(_) => {}
            Err(page) => {
                self.store.tables.wait(&mut self.store.io, page, Task::Recall);
                return false;
            }
        }
        if !self.journal.proofs.has(pbn, slot, proof) {
            self.journal.broken += 1;
            return true;
        }
        let (page, _) = self.store.geometry.refs_of(pbn);
        let takes_link = match self.store.tables.ensure(&mut self.store.io, page) {
            Got::Wait => Err(page),
            Got::Unreadable => Ok(false),
            Got::Ready if self.store.tables.refs_now(pbn) >= self.store.space.link_limit(&self.store.tables) => Ok(false),
            Got::Ready => self.is_carrier_known(pbn, slot),
        };
        match takes_link {
            Err(page) => {
                self.store.tables.wait(&mut self.store.io, page, Task::Recall);
                false
            }
            Ok(false) => {
                self.recall_copy(lbn, pbn, slot);
                false
            }
            Ok(true) => {
                self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, 1);
                self.store.tables.open.refs_pages.insert(page.index);
                self.set_point(lbn, to);
                true
            }
        }
    }

    /// Whether a slot of a block can be linked to: its carrier is in the tables, or is a pack that is born here and now. `Err`: a page has to come first.
    fn is_carrier_known(&mut self, pbn: Pbn, slot: u8) -> Result<bool, PageId> {
        let Some(authenticator) = self.journal.proofs.unnamed_pack(pbn).filter(|_| slot > 0) else { return Ok(true) };
        if self.store.space.fresh.get(pbn).is_some_and(|fresh| fresh.waits) {
            return Ok(true);
        }
        let (page, at) = self.store.geometry.fingerprint_of(pbn);
        let entry = match self.store.tables.ensure(&mut self.store.io, page) {
            Got::Wait => return Err(page),
            Got::Unreadable => return Ok(false),
            Got::Ready => self.store.tables.pages.expect(page).content.fingerprint(at),
        };
        if entry.kind == Kind::Carrier && entry.value == authenticator && !self.store.tables.is_losing_its_name(pbn) {
            return Ok(true);
        }
        if self.scheme.log.is_none() || self.store.tables.refs_now(pbn) > 0 {
            return Ok(false);
        }
        self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, 1);
        self.store.tables.open.births.push(pbn);
        self.let_epoch_of_packs_go();
        let epoch = self.store.tables.open.number.0;
        self.store.space.fresh.insert(pbn, Fresh { kind: Kind::Carrier, fingerprint: authenticator, epoch, held: None, waits: true });
        Ok(true)
    }

    /// A block takes no link any more: what it holds is read, to be written again.
    fn recall_copy(&mut self, lbn: Lbn, pbn: Pbn, slot: u8) {
        if !self.requests.pending.contains_key(&RECALLED) {
            self.requests.pending.insert(RECALLED, Pending { left: 1, failure: None, durable: None, unspoken: Vec::new() });
            let at = self.store.geometry.block_at(pbn);
            self.store.io.read(IoFor::ReadForRecall { pbn, slot, lbn }, at, 1, true, Class::Data);
        }
    }

    pub(crate) fn copy_arrived(
        &mut self,
        lbn: Lbn,
        pbn: Pbn,
        slot: u8,
        buffer: BufferMut,
        digests: &[Digest],
        result: Result<(), IoFailure>,
    ) {
        self.requests.pending.remove(&RECALLED);
        if result.is_err() && self.journal.proofs.is_tried_again(pbn) {
            return self.store.io.schedule.push(Task::Recall);
        }
        let Some(Promised::Link { proof, .. }) = self.journal.recalled.front() else { return };
        let block = buffer.freeze().slice(0, 1);
        let is_right = match slot {
            0 => digests.first() == Some(&Digest::Of(*proof)),
            _ => self.store.authentic(pbn, block.block(0)).is_some(),
        };
        match in_slot(&block, slot).filter(|_| result.is_ok() && is_right) {
            Some(content) => self.recall_content(lbn, content),
            None => self.content_is_recalled(false),
        }
    }

    /// Begins to write what was acknowledged. The next promise follows when it has found its place.
    fn recall_content(&mut self, lbn: Lbn, content: Slice) {
        if self.requests.pending.contains_key(&RECALLED) {
            return;
        }
        let base = match self.store.tables.lookup(&mut self.store.io, lbn) {
            Ok(base) => base,
            Err(page) => return self.store.tables.wait(&mut self.store.io, page, Task::Recall),
        };
        self.requests.pending.insert(RECALLED, Pending { left: 1, failure: None, durable: None, unspoken: Vec::new() });
        let op = self.requests.writes.insert(WriteOp {
            request: RECALLED,
            lbn,
            sent: content.clone(),
            covers: 0..BLOCK_SIZE,
            whole: Some((content.clone(), Digest::Partial)),
            base,
            pinned: None,
            pinned_other: None,
            compared: Compared::Nothing,
            stage: WriteStage::Digesting,
        });
        self.store.io.digest(IoFor::DigestForWrite { op }, content);
    }

    /// What is recalled may be where its LBN points to already: the index, which is empty as yet, is told to look there.
    pub(crate) fn look_where_it_was(&mut self, op: usize) {
        let write = &self.requests.writes[op];
        if let (Some(MapEntry::Block { pbn, .. }), Some((_, Digest::Of(fingerprint)))) = (write.base, &write.whole) {
            self.store.index.insert(fingerprint, pbn);
        }
    }

    /// Recalled content has found its place, or never will.
    pub(crate) fn content_is_recalled(&mut self, good: bool) {
        self.store.io.schedule.push(Task::Recall);
        if !good && !self.store.io.failed {
            // There was no block for a copy; but what made room for others, a recount, may have made room for a link.
            if self.takes_link_now() {
                return;
            }
            self.journal.broken += 1;
        }
        self.journal.recalled.pop_front();
    }

    /// Whether the next promise names a block whose count was at its limit, and is not any more.
    fn takes_link_now(&mut self) -> bool {
        let Some(&Promised::Link { pbn, .. }) = self.journal.recalled.front() else { return false };
        let (page, _) = self.store.geometry.refs_of(pbn);
        self.store.tables.pages.get(page).is_some() && self.store.tables.refs_now(pbn) < self.store.space.link_limit(&self.store.tables)
    }

    /// Serves once everything recalled is durable.
    pub(crate) fn serve_when_recalled(&mut self) {
        let is_checked = self.journal.traces == [None; 2];
        let done = is_checked && self.journal.recalled.is_empty() && self.store.tables.open.is_empty() && self.scheme.commit.is_none();
        if self.store.io.stage != Stage::Recalling || !(done || self.store.io.failed) {
            return;
        }
        if self.journal.broken > 0 {
            self.journal.lost = true;
            let writes = std::mem::take(&mut self.journal.broken);
            self.store.io.notice(Notice::AcknowledgedLost { writes });
        }
        if self.store.io.failed {
            // What was applied may not be durable: no answer that the next opening might contradict (P7). The promises stand.
            self.state.unflushed = true;
        } else {
            self.store.io.out.push(Action::Recalled);
            if self.journal.is_set_back {
                // The next server is not to look for what this store lacks.
                self.store.io.out.push(Action::Forget { epoch: self.store.medium.superblock.last_epoch, traces: [None; 2] });
            }
        }
        self.store.space.promised.clear();
        self.journal.proofs = Proofs::default();
        self.serve();
    }
}
