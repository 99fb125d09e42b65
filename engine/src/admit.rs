//! Requests come in: they are checked, split into blocks, held back while memory is short, and answered.
//!
//! 1. A request is answered once, when its last part is in its place and, where it asked for that (FUA, strong), durable.
//! 2. Requests that have not been answered have no order between them; what was answered is seen by everything that comes later.
//! 3. A write of part of a block reads the block, lays its bytes over it, and takes its place only if nothing has changed the LBN since, and it still
//!    means what was read; else it begins again. So sub-block writes to one LBN never lose each other's bytes. The block's number alone does not tell:
//!    other content, which the LBN means by then, may have come to lie there.

use crate::buffer::{BufferMut, Slice};
use crate::engine::Engine;
use crate::fingerprint::Digest;
use crate::format::entry::MapEntry;
use crate::interface::{Class, Failure, Op, Reply, Request, RequestId};
use crate::io::IoFor;
use crate::memory::Part;
use crate::promise::Unspoken;
use crate::recall::RECALLED;
use crate::schedule::Blocked;
use crate::schedule::Task;
use crate::store::Compared;
use crate::store::Expect;
use crate::store::{in_slot, slot_of};
use crate::tables::Wanted;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Lbn, Pbn, SECTOR_BYTES, count, index};

/// A request that waits for its parts.
pub(crate) struct Pending {
    pub left: u64,
    pub failure: Option<Failure>,
    /// Answered only after a commit (R5), and why.
    pub durable: Option<Wanted>,
    /// What it promises, to be remembered with its acknowledgement.
    pub unspoken: Vec<Unspoken>,
}

/// How far a block's write has come.
pub(crate) enum WriteStage {
    /// The rest of the block has to be read first.
    Base,
    Reading,
    /// The block was read and waits to be verified.
    Verifying {
        buffer: Slice,
        digest: Digest,
        pbn: Pbn,
    },
    /// Merged; the digest is on its way.
    Digesting,
    /// A whole block that looks for its place.
    Place,
    /// The stored block that may be its duplicate, or hold it in a slot, is on its way.
    Comparing {
        in_slots: bool,
    },
}

/// One block's write that could not be placed at once.
pub(crate) struct WriteOp {
    pub request: RequestId,
    pub lbn: Lbn,
    /// What the client sent, and which bytes of the block it covers.
    pub sent: Slice,
    pub covers: std::ops::Range<usize>,
    /// The whole block, once it is there.
    pub whole: Option<(Slice, Digest)>,
    /// What the LBN meant when the rest of the block was read.
    pub base: Option<MapEntry>,
    /// The block under a partial write: while it is pinned, the LBN means what was read if it means this block.
    pub pinned: Option<Pbn>,
    /// The block that it was compared with, or is being.
    pub pinned_other: Option<Pbn>,
    pub compared: Compared,
    pub stage: WriteStage,
}

/// Whether such a request changes what LBNs mean: it takes records, which memory has to have room for.
fn changes(op: Op) -> bool {
    matches!(op, Op::Write | Op::Discard | Op::WriteZeroes)
}

impl Engine {
    /// Takes in a request. Everything waits until the volume is open.
    pub(crate) fn admit(&mut self, request: Request) {
        if self.store.io.stage.is_before_service() {
            self.requests.admission.push_back(request);
            return;
        }
        if changes(request.op) { self.requests.admission.push_back(request) } else { self.dispatch(request) }
    }

    /// Lets in what memory allows.
    pub(crate) fn drain_admission(&mut self) {
        if self.store.io.stage.is_before_service() {
            return;
        }
        self.admit_discards_when_full();
        while let Some(request) = self.requests.admission.front() {
            if changes(request.op) && !self.store.io.failed && self.backlogged() {
                return;
            }
            let request = self.requests.admission.pop_front().expect("it was seen in front");
            self.dispatch(request);
        }
    }

    /// Discards pass by the writes that wait for the room which only they may bring.
    fn admit_discards_when_full(&mut self) {
        if !self.store.space.is_full() {
            return;
        }
        let mut at = 0;
        while at < self.requests.admission.len() && !self.lacks_room_for_records() {
            if self.requests.admission[at].op == Op::Discard {
                let request = self.requests.admission.remove(at).expect("it was counted");
                self.dispatch(request);
            } else {
                at += 1;
            }
        }
    }

    /// Whether a further write has to wait: for room for its records, or for those that wait already. Those that wait for a block hold back none that
    /// may need no new one; what they hold besides is bounded by what requests may bring.
    fn backlogged(&mut self) -> bool {
        let waiting = if self.store.space.is_full() {
            self.requests.writes.len() - self.store.space.waiters.len()
        } else {
            self.requests.writes.len()
        };
        waiting >= self.store.tables.pages.waiting_max() || self.lacks_room_for_records()
    }

    /// Whether a further write, or discard, has to wait for records to be committed.
    fn lacks_room_for_records(&mut self) -> bool {
        (self.open_bytes() > self.store.memory.accountant.limit(Part::Dirty) / 2 || !self.store.memory.accountant.within(Part::Dirty))
            && (self.scheme.commit.is_some() || !self.store.tables.open.is_empty())
            || self.holds_enough()
            || self.waits_for_checkpoint()
            || self.store.tables.open.is_due
            || self.journal.records().1 > self.store.settings.ring_records_max / 2
    }

    fn dispatch(&mut self, request: Request) {
        let fits = request.offset.0 % SECTOR_BYTES == 0
            && request.length.0 % SECTOR_BYTES == 0
            && request.offset.0.checked_add(request.length.0).is_some_and(|end| end <= self.logical().bytes().0);
        if !fits {
            return self.fail_request(request.id, Failure::Invalid);
        }
        if self.state.unflushed {
            return self.fail_request(request.id, Failure::Io);
        }
        if changes(request.op) && self.is_read_only() {
            return self.fail_request(request.id, Failure::ReadOnly);
        }
        match request.op {
            Op::Read => self.begin_read(request),
            Op::Write => self.begin_write(&request),
            Op::Flush => self.client_flush(request.id),
            Op::Discard => self.begin_discard(&request),
            Op::WriteZeroes => self.begin_write_zeroes(&request),
        }
    }

    pub(crate) fn begin_request(&mut self, request: &Request) {
        let strong = self.store.settings.persistence == crate::settings::Persistence::Strong;
        let durable = if request.fua { Some(Wanted::Fua) } else { strong.then_some(Wanted::Strong) };
        self.requests.pending.insert(request.id, Pending { left: 1, failure: None, durable, unspoken: Vec::new() });
    }

    fn begin_write(&mut self, request: &Request) {
        let Some(payload) = &request.payload else {
            return self.fail_request(request.id, Failure::Invalid);
        };
        let first = request.offset.0 / BLOCK_BYTES;
        let end = request.offset.0 + request.length.0;
        let blocks = end.div_ceil(BLOCK_BYTES) - first;
        if count(payload.buffer.blocks()) < blocks || count(payload.digests.len()) < blocks {
            return self.fail_request(request.id, Failure::Invalid);
        }
        self.store.io.ledger.client_writes += 1;
        self.store.io.ledger.client_bytes += request.length.0;
        self.store.io.ledger.client_units += blocks;
        self.scheme.anticipation.arrived(self.store.io.now);
        self.begin_request(request);
        self.store.space.look_for_journal(Lbn(first), &payload.buffer.block(0)[index(request.offset.0 % BLOCK_BYTES)..]);
        self.store.index.warm(payload.digests.iter().filter_map(|digest| if let Digest::Of(fp) = digest { Some(*fp) } else { None }));
        for i in 0..blocks {
            let block_at = (first + i) * BLOCK_BYTES;
            let covers = index(request.offset.0.saturating_sub(block_at))..index((end - block_at).min(BLOCK_BYTES));
            let slice = payload.buffer.slice(index(i), 1);
            self.write_block(request.id, Lbn(first + i), slice, payload.digests[index(i)], covers);
        }
        self.send_run();
        self.finish_part(request.id, None);
    }

    /// Places one block of a request, or starts an operation that will.
    pub(crate) fn write_block(&mut self, request: RequestId, lbn: Lbn, sent: Slice, digest: Digest, covers: std::ops::Range<usize>) {
        let whole = covers == (0..BLOCK_SIZE) && digest != Digest::Partial;
        let mut blocked = None;
        if whole {
            match self.link(request, lbn, &sent, digest, Compared::Nothing) {
                Ok(()) => return,
                Err(why) => blocked = Some(why),
            }
        }
        self.requests.pending.get_mut(&request).expect("the request was begun").left += 1;
        let op = self.requests.writes.insert(WriteOp {
            request,
            lbn,
            whole: whole.then(|| (sent.clone(), digest)),
            sent,
            covers,
            base: None,
            pinned: None,
            pinned_other: None,
            compared: Compared::Nothing,
            stage: if whole { WriteStage::Place } else { WriteStage::Base },
        });
        match blocked {
            Some(why) => self.write_blocked(op, why),
            None => self.store.io.schedule.push(Task::Write(op)),
        }
    }

    /// Goes on with a block's write as far as it gets.
    pub(crate) fn go_on_writing(&mut self, op: usize) {
        loop {
            let Some(write) = self.requests.writes.get(op) else { return };
            match write.stage {
                // Its event has yet to come.
                WriteStage::Reading | WriteStage::Digesting | WriteStage::Comparing { .. } => return,
                _ if self.store.io.failed => return self.end_write(op, Some(Failure::ReadOnly)),
                WriteStage::Base => return self.find_base(op),
                WriteStage::Verifying { .. } => return self.verify_base(op),
                WriteStage::Place => {}
            }
            match self.base_still_holds(op) {
                Some(true) => {}
                Some(false) => continue,
                None => return,
            }
            let write = &self.requests.writes[op];
            let (slice, digest) = write.whole.clone().expect("a block that looks for its place is whole");
            let (request, lbn, compared) = (write.request, write.lbn, write.compared);
            match self.link(request, lbn, &slice, digest, compared) {
                Ok(()) => {
                    self.send_run();
                    return self.end_write(op, None);
                }
                Err(why) => return self.write_blocked(op, why),
            }
        }
    }

    fn write_blocked(&mut self, op: usize, why: Blocked) {
        match why {
            Blocked::Page(id) => self.store.tables.wait(&mut self.store.io, id, Task::Write(op)),
            Blocked::Space => self.store.space.waiters.push_back(op),
            Blocked::Failed(failure) => self.end_write(op, Some(failure)),
            Blocked::Compare(pbn) | Blocked::Carrier(pbn) => {
                self.pin_other_for(op, pbn);
                self.requests.writes[op].stage = WriteStage::Comparing { in_slots: matches!(why, Blocked::Carrier(_)) };
                let waiting = self.store.contents.comparing.entry(pbn).or_default();
                waiting.push(op);
                // Slots of one carrier are often sought together: one read is enough for all.
                if waiting.len() == 1 {
                    let at = self.store.geometry.block_at(pbn);
                    self.store.io.read(IoFor::ReadForWrite { op, pbn }, at, 1, false, Class::Data);
                }
            }
        }
    }

    /// Whether the LBN still means what was read. `Some(false)`: the write begins again; `None`: it waits for a map page, or has ended.
    fn base_still_holds(&mut self, op: usize) -> Option<bool> {
        let write = &self.requests.writes[op];
        let (Some(base), lbn) = (write.base, write.lbn) else { return Some(true) };
        match self.store.tables.lookup(&mut self.store.io, lbn) {
            Ok(Some(entry)) if entry == base && !self.requests.parts.is_overtaken(lbn, op) => Some(true),
            Ok(Some(_)) => {
                self.unpin_for(op);
                self.requests.parts.end(lbn, op);
                let write = &mut self.requests.writes[op];
                write.whole = None;
                write.base = None;
                write.compared = Compared::Nothing;
                write.stage = WriteStage::Base;
                Some(false)
            }
            Ok(None) => {
                self.end_write(op, Some(Failure::Io));
                None
            }
            Err(page) => {
                self.store.tables.wait(&mut self.store.io, page, Task::Write(op));
                None
            }
        }
    }

    /// Finds the block that a partial write lies over.
    fn find_base(&mut self, op: usize) {
        let lbn = self.requests.writes[op].lbn;
        let entry = match self.store.tables.lookup(&mut self.store.io, lbn) {
            Ok(Some(entry)) => entry,
            Ok(None) => return self.end_write(op, Some(Failure::Io)),
            Err(page) => return self.store.tables.wait(&mut self.store.io, page, Task::Write(op)),
        };
        self.requests.writes[op].base = Some(entry);
        self.requests.parts.begin(lbn, op);
        match entry {
            MapEntry::Unmapped | MapEntry::Zero => self.merge(op, None),
            MapEntry::Lost => self.end_write(op, Some(Failure::Io)),
            MapEntry::Block { pbn, slot } => {
                self.pin_for(op, pbn);
                if let Some(here) = self.store.in_memory(pbn).and_then(|block| in_slot(&block, slot)) {
                    self.merge(op, Some(&here));
                } else {
                    self.requests.writes[op].stage = WriteStage::Reading;
                    let at = self.store.geometry.block_at(pbn);
                    self.store.io.read(IoFor::ReadForWrite { op, pbn }, at, 1, self.store.settings.verify_reads, Class::Data);
                }
            }
        }
    }

    /// The block under a partial write, or the possible duplicate of a whole one, has arrived.
    pub(crate) fn write_base_arrived(
        &mut self,
        op: usize,
        pbn: Pbn,
        buffer: BufferMut,
        digests: &[Digest],
        result: Result<(), crate::interface::IoFailure>,
    ) {
        let slice = buffer.freeze().slice(0, 1);
        if matches!(self.requests.writes[op].stage, WriteStage::Comparing { .. }) {
            let waiting = self.store.contents.comparing.remove(&pbn).expect("who compares has asked");
            return waiting.into_iter().for_each(|op| self.other_arrived(op, pbn, result.is_ok().then_some(&slice)));
        }
        if result.is_err() {
            return self.end_write(op, Some(Failure::Io));
        }
        let write = &mut self.requests.writes[op];
        let digest = digests.first().copied().unwrap_or(Digest::Partial);
        write.stage = WriteStage::Verifying { buffer: slice, digest, pbn };
        self.go_on_writing(op);
    }

    /// A possible duplicate of a whole block has arrived, if it could be read.
    fn other_arrived(&mut self, op: usize, pbn: Pbn, stored: Option<&Slice>) {
        let WriteStage::Comparing { in_slots } = self.requests.writes[op].stage else { unreachable!("it waits for that block") };
        let compared = stored.and_then(|stored| self.compare_stored(op, pbn, in_slots, stored));
        if let (Some(stored), Some(Compared::SameSlot(_, _, authenticator))) = (stored, compared) {
            // The next duplicate of one of its slots need not read it.
            if matches!(self.store.expect_content(pbn), Expect::Carrier(value) if value == authenticator)
                && !self.store.contents.suspects.contains(&pbn)
            {
                self.store.contents.cache.fill(pbn, stored.block(0));
            }
        }
        let write = &mut self.requests.writes[op];
        write.compared = compared.unwrap_or(Compared::Differs(pbn));
        write.stage = WriteStage::Place;
        self.go_on_writing(op);
    }

    /// Whether a block that came from the device holds what is written, as a whole or in a slot.
    fn compare_stored(&self, op: usize, pbn: Pbn, in_slots: bool, stored: &Slice) -> Option<Compared> {
        let (whole, digest) = self.requests.writes[op].whole.as_ref().expect("only whole blocks are compared");
        if !in_slots {
            return (whole.block(0) == stored.block(0)).then_some(Compared::Same(pbn));
        }
        let Digest::Of(fingerprint) = digest else { return None };
        let authenticator = self.store.authentic(pbn, stored.block(0))?;
        let slot = slot_of(stored.block(0), fingerprint)?;
        let same = in_slot(stored, slot)?.block(0) == whole.block(0);
        same.then_some(Compared::SameSlot(pbn, slot, authenticator))
    }

    fn verify_base(&mut self, op: usize) {
        let WriteStage::Verifying { buffer, digest, pbn } = &self.requests.writes[op].stage else { return };
        let (buffer, digest, pbn) = (buffer.clone(), *digest, *pbn);
        let Some(MapEntry::Block { slot, .. }) = self.requests.writes[op].base else { return };
        let expect = if self.store.settings.verify_reads { self.store.expect_content(pbn) } else { Expect::Unknown };
        if let Expect::Page(id) = expect {
            return self.store.tables.wait(&mut self.store.io, id, Task::Write(op));
        }
        match self.store.verified(pbn, slot, &expect, digest, &buffer) {
            Some(content) => self.merge(op, Some(&content)),
            None => {
                self.store.content_damaged(pbn);
                self.end_write(op, Some(Failure::Io));
            }
        }
    }

    /// Lays the client's bytes over the block and has the whole fingerprinted.
    fn merge(&mut self, op: usize, base: Option<&Slice>) {
        let mut merged = self.store.io.buffer(1);
        match base {
            Some(slice) => merged.block_mut(0).copy_from_slice(slice.block(0)),
            None => merged.block_mut(0).fill(0),
        }
        let write = &self.requests.writes[op];
        merged.block_mut(0)[write.covers.clone()].copy_from_slice(&write.sent.block(0)[write.covers.clone()]);
        let merged = merged.freeze().slice(0, 1);
        self.store.io.digest(IoFor::DigestForWrite { op }, merged.clone());
        let write = &mut self.requests.writes[op];
        write.whole = Some((merged, Digest::Partial));
        write.stage = WriteStage::Digesting;
    }

    pub(crate) fn write_digested(&mut self, op: usize, digest: Digest) {
        let write = &mut self.requests.writes[op];
        write.whole.as_mut().expect("what was digested was merged").1 = digest;
        write.stage = WriteStage::Place;
        if write.request == RECALLED {
            self.look_where_it_was(op);
        }
        self.go_on_writing(op);
    }

    fn pin_for(&mut self, op: usize, pbn: Pbn) {
        self.unpin_for(op);
        self.store.space.pin(pbn);
        self.requests.writes[op].pinned = Some(pbn);
    }

    fn pin_other_for(&mut self, op: usize, pbn: Pbn) {
        self.store.space.pin(pbn);
        if let Some(before) = self.requests.writes[op].pinned_other.replace(pbn) {
            self.store.space.unpin(before);
        }
    }

    fn unpin_for(&mut self, op: usize) {
        let write = &mut self.requests.writes[op];
        let pinned = [write.pinned.take(), write.pinned_other.take()];
        pinned.into_iter().flatten().for_each(|pbn| self.store.space.unpin(pbn));
    }

    /// No block is left for it.
    pub(crate) fn go_without_space(&mut self, op: usize, failure: Failure) {
        if self.requests.writes.contains(op) {
            self.end_write(op, Some(failure));
        }
    }

    fn end_write(&mut self, op: usize, failure: Option<Failure>) {
        self.unpin_for(op);
        let write = self.requests.writes.remove(op);
        self.requests.parts.end(write.lbn, op);
        self.finish_part(write.request, failure);
    }

    /// One part of a request is in its place (or never will be).
    pub(crate) fn finish_part(&mut self, request: RequestId, failure: Option<Failure>) {
        let pending = self.requests.pending.get_mut(&request).expect("a request ends with its last part");
        pending.failure = pending.failure.or(failure);
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        let pending = self.requests.pending.remove(&request).expect("it was just there");
        if request == RECALLED {
            return self.content_is_recalled(pending.failure.is_none());
        }
        match pending.failure {
            Some(failure) => self.fail_request(request, failure),
            None => match pending.durable {
                Some(why) => self.wait_for_commit(request, why),
                None => {
                    self.remember(pending.unspoken);
                    self.store.io.reply(request, Reply::Done);
                }
            },
        }
    }

    /// After a failed write or flush: whoever waits for durability hears of it (A5).
    pub(crate) fn fail_writers(&mut self) {
        self.release_unsent_content();
        let mut waiters = std::mem::take(&mut self.store.tables.open.waiters);
        if let Some(epoch) = &mut self.store.tables.committing {
            waiters.append(&mut epoch.waiters);
        }
        waiters.into_iter().for_each(|request| self.fail_request(request, Failure::Io));
        let stuck: Vec<usize> = self.requests.writes.iter().map(|(op, _)| op).collect();
        self.store.space.waiters.clear();
        stuck.into_iter().for_each(|op| self.store.io.schedule.push(Task::Write(op)));
        let held: Vec<Pbn> = self.store.contents.content_waiters.keys().copied().collect();
        held.into_iter().for_each(|pbn| self.content_arrived_for_waiters(pbn, false));
    }
}
