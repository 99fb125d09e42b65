//! Requests come in: they are checked, split into blocks, held back while memory is short, and answered.
//!
//! 1. A request is answered once, when its last part is in its place and, where it asked for that (FUA, strong), durable.
//! 2. Requests that have not been answered have no order between them; what was answered is seen by everything that comes later.
//! 3. A write of part of a block reads the block, lays its bytes over it, and takes its place only if nothing has changed the LBN since,
//!    and it still means what was read; else it begins again. So sub-block writes to one LBN never lose each other's bytes. The block's
//!    number alone does not tell: other content, which the LBN means by then, may have come to lie there.

use super::Requests;
use super::place::{Written, link};
use super::write_op::{WriteOp, WriteStage};
use crate::answers::{Answers, RECALLED};
use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::MapEntry;
use crate::interface::{Class, Failure, Request, RequestId};
use crate::io::{Arrived, IoFor};
use crate::schedule::{Blocked, Task};
use crate::scheme::Scheme;
use crate::space::Space;
use crate::store::{Compared, Expect, Store, in_slot, slot_of};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Lbn, Pbn, count, index};
use std::ops::Range;

/// What a request writes of one block.
pub(super) struct Block {
    pub request: RequestId,
    pub lbn: Lbn,
    /// The bytes, and their digest where they are a whole block.
    pub sent: Slice,
    pub digest: Digest,
    /// Which bytes of the block they are.
    pub covers: Range<usize>,
}

impl Requests {
    pub(super) fn begin_write(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, request: &Request) {
        let Some(payload) = &request.payload else {
            return store.refuse(request.id, Failure::Invalid);
        };
        let first = request.offset.0 / BLOCK_BYTES;
        let end = request.offset.0 + request.length.0;
        let blocks = end.div_ceil(BLOCK_BYTES) - first;
        if count(payload.buffer.blocks()) < blocks || count(payload.digests.len()) < blocks {
            return store.refuse(request.id, Failure::Invalid);
        }
        store.io.ledger.client_writes += 1;
        store.io.ledger.client_bytes += request.length.0;
        store.io.ledger.client_units += blocks;
        answers.anticipation.arrived(store.io.now);
        answers.begin(store, request);
        store.space.look_for_journal(Lbn(first), &payload.buffer.block(0)[index(request.offset.0 % BLOCK_BYTES)..]);
        store.index.warm(payload.digests.iter().filter_map(|digest| if let Digest::Of(fp) = digest { Some(*fp) } else { None }));
        for i in 0..blocks {
            let block_at = (first + i) * BLOCK_BYTES;
            let covers = index(request.offset.0.saturating_sub(block_at))..index((end - block_at).min(BLOCK_BYTES));
            let slice = payload.buffer.slice(index(i), 1);
            let digest = payload.digests[index(i)];
            self.write_block(store, scheme, answers, Block { request: request.id, lbn: Lbn(first + i), sent: slice, digest, covers });
        }
        store.send_run();
        answers.finish_part(store, request.id, None);
    }

    /// Places one block of a request, or starts an operation that will.
    pub(super) fn write_block(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, block: Block) {
        let Block { request, lbn, sent, digest, covers } = block;
        let whole = covers == (0..BLOCK_SIZE) && digest != Digest::Partial;
        let mut blocked = None;
        if whole {
            match link(store, scheme, answers, &Written { request, lbn, slice: &sent, digest, compared: Compared::Nothing }) {
                Ok(()) => return,
                Err(why) => blocked = Some(why),
            }
        }
        answers.add_part(request);
        let op = self.writes.insert(WriteOp {
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
            Some(why) => self.write_blocked(store, answers, op, why),
            None => store.io.schedule.push(Task::Write(op)),
        }
    }

    /// Begins to write content that the last server had acknowledged, over what the LBN means.
    pub fn write_recalled(&mut self, store: &mut Store, lbn: Lbn, content: Slice, base: Option<MapEntry>) {
        let op = self.writes.insert(WriteOp {
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
        store.io.digest(IoFor::DigestForWrite { op }, content);
    }

    /// Goes on with a block's write as far as it gets.
    pub fn go_on_writing(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, op: usize) {
        loop {
            let Some(write) = self.writes.get(op) else { return };
            match write.stage {
                // Its event has yet to come.
                WriteStage::Reading | WriteStage::Digesting | WriteStage::Comparing { .. } => return,
                _ if store.io.failed => return self.end_write(store, answers, op, Some(Failure::ReadOnly)),
                WriteStage::Base => return self.find_base(store, answers, op),
                WriteStage::Verifying { .. } => return self.verify_base(store, answers, op),
                WriteStage::Place => {}
            }
            match self.base_still_holds(store, answers, op) {
                Some(true) => {}
                Some(false) => continue,
                None => return,
            }
            let write = &self.writes[op];
            let (slice, digest) = write.whole.clone().expect("a block that looks for its place is whole");
            let (request, lbn, compared) = (write.request, write.lbn, write.compared);
            match link(store, scheme, answers, &Written { request, lbn, slice: &slice, digest, compared }) {
                Ok(()) => {
                    store.send_run();
                    return self.end_write(store, answers, op, None);
                }
                Err(why) => return self.write_blocked(store, answers, op, why),
            }
        }
    }

    fn write_blocked(&mut self, store: &mut Store, answers: &mut Answers, op: usize, why: Blocked) {
        match why {
            Blocked::Page(id) => store.tables.wait(&mut store.io, id, Task::Write(op)),
            Blocked::Space => store.space.waiters.push_back(op),
            Blocked::Failed(failure) => self.end_write(store, answers, op, Some(failure)),
            Blocked::Compare(pbn) | Blocked::Carrier(pbn) => {
                self.pin_other_for(store, op, pbn);
                self.writes[op].stage = WriteStage::Comparing { in_slots: matches!(why, Blocked::Carrier(_)) };
                let waiting = store.contents.comparing.entry(pbn).or_default();
                waiting.push(op);
                // Slots of one carrier are often sought together: one read is enough for all.
                if waiting.len() == 1 {
                    let at = store.geometry.block_at(pbn);
                    store.io.read(IoFor::ReadForWrite { op, pbn }, at, 1, false, Class::Data);
                }
            }
        }
    }

    /// Whether the LBN still means what was read. `Some(false)`: the write begins again; `None`: it waits for a map page, or has ended.
    fn base_still_holds(&mut self, store: &mut Store, answers: &mut Answers, op: usize) -> Option<bool> {
        let write = &self.writes[op];
        let (Some(base), lbn) = (write.base, write.lbn) else { return Some(true) };
        match store.tables.lookup(&mut store.io, lbn) {
            Ok(Some(entry)) if entry == base && !store.tables.partial_writes.is_overtaken(lbn, op) => Some(true),
            Ok(Some(_)) => {
                self.unpin_for(store, op);
                store.tables.partial_writes.end(lbn, op);
                let write = &mut self.writes[op];
                write.whole = None;
                write.base = None;
                write.compared = Compared::Nothing;
                write.stage = WriteStage::Base;
                Some(false)
            }
            Ok(None) => {
                self.end_write(store, answers, op, Some(Failure::Io));
                None
            }
            Err(page) => {
                store.tables.wait(&mut store.io, page, Task::Write(op));
                None
            }
        }
    }

    /// Finds the block that a partial write lies over.
    fn find_base(&mut self, store: &mut Store, answers: &mut Answers, op: usize) {
        let lbn = self.writes[op].lbn;
        let entry = match store.tables.lookup(&mut store.io, lbn) {
            Ok(Some(entry)) => entry,
            Ok(None) => return self.end_write(store, answers, op, Some(Failure::Io)),
            Err(page) => return store.tables.wait(&mut store.io, page, Task::Write(op)),
        };
        self.writes[op].base = Some(entry);
        store.tables.partial_writes.begin(lbn, op);
        match entry {
            MapEntry::Unmapped | MapEntry::Zero => self.merge(store, op, None),
            MapEntry::Lost => self.end_write(store, answers, op, Some(Failure::Io)),
            MapEntry::Block { pbn, slot } => {
                self.pin_for(store, op, pbn);
                if let Some(here) = store.in_memory(pbn).and_then(|block| in_slot(&block, slot)) {
                    self.merge(store, op, Some(&here));
                } else {
                    self.writes[op].stage = WriteStage::Reading;
                    let at = store.geometry.block_at(pbn);
                    store.io.read(IoFor::ReadForWrite { op, pbn }, at, 1, store.settings.verify_reads, Class::Data);
                }
            }
        }
    }

    /// The block under a partial write, or the possible duplicate of a whole one, has arrived.
    pub fn write_base_arrived(
        &mut self,
        store: &mut Store,
        scheme: &mut Scheme,
        answers: &mut Answers,
        op: usize,
        pbn: Pbn,
        arrived: Arrived,
    ) {
        let (digest, result) = (arrived.digest(0), arrived.result);
        let slice = arrived.buffer.freeze().slice(0, 1);
        if matches!(self.writes[op].stage, WriteStage::Comparing { .. }) {
            let waiting = store.contents.comparing.remove(&pbn).expect("who compares has asked");
            return waiting
                .into_iter()
                .for_each(|op| self.other_arrived(store, scheme, answers, op, pbn, result.is_ok().then_some(&slice)));
        }
        if result.is_err() {
            return self.end_write(store, answers, op, Some(Failure::Io));
        }
        let write = &mut self.writes[op];
        write.stage = WriteStage::Verifying { buffer: slice, digest, pbn };
        self.go_on_writing(store, scheme, answers, op);
    }

    /// A possible duplicate of a whole block has arrived, if it could be read.
    fn other_arrived(
        &mut self,
        store: &mut Store,
        scheme: &mut Scheme,
        answers: &mut Answers,
        op: usize,
        pbn: Pbn,
        stored: Option<&Slice>,
    ) {
        let WriteStage::Comparing { in_slots } = self.writes[op].stage else { unreachable!("it waits for that block") };
        let compared = stored.and_then(|stored| self.compare_stored(store, op, pbn, in_slots, stored));
        if let (Some(stored), Some(Compared::SameSlot(_, _, authenticator))) = (stored, compared) {
            // The next duplicate of one of its slots need not read it.
            if matches!(store.expect_content(pbn), Expect::Carrier(value) if value == authenticator)
                && !store.contents.suspects.contains(&pbn)
            {
                store.contents.cache.fill(pbn, stored.block(0));
            }
        }
        let write = &mut self.writes[op];
        write.compared = compared.unwrap_or(Compared::Differs(pbn));
        write.stage = WriteStage::Place;
        self.go_on_writing(store, scheme, answers, op);
    }

    /// Whether a block that came from the device holds what is written, as a whole or in a slot.
    fn compare_stored(&self, store: &mut Store, op: usize, pbn: Pbn, in_slots: bool, stored: &Slice) -> Option<Compared> {
        let (whole, digest) = self.writes[op].whole.as_ref().expect("only whole blocks are compared");
        if !in_slots {
            return (whole.block(0) == stored.block(0)).then_some(Compared::Same(pbn));
        }
        let Digest::Of(fingerprint) = digest else { return None };
        let authenticator = store.authentic(pbn, stored.block(0))?;
        let slot = slot_of(stored.block(0), fingerprint)?;
        let same = in_slot(stored, slot)?.block(0) == whole.block(0);
        same.then_some(Compared::SameSlot(pbn, slot, authenticator))
    }

    fn verify_base(&mut self, store: &mut Store, answers: &mut Answers, op: usize) {
        let WriteStage::Verifying { buffer, digest, pbn } = &self.writes[op].stage else { return };
        let (buffer, digest, pbn) = (buffer.clone(), *digest, *pbn);
        let Some(MapEntry::Block { slot, .. }) = self.writes[op].base else { return };
        let expect = if store.settings.verify_reads { store.expect_content(pbn) } else { Expect::Unknown };
        if let Expect::Page(id) = expect {
            return store.tables.wait(&mut store.io, id, Task::Write(op));
        }
        match store.verified(pbn, slot, &expect, digest, &buffer) {
            Some(content) => self.merge(store, op, Some(&content)),
            None => {
                store.content_damaged(pbn);
                self.end_write(store, answers, op, Some(Failure::Io));
            }
        }
    }

    /// Lays the client's bytes over the block and has the whole fingerprinted.
    fn merge(&mut self, store: &mut Store, op: usize, base: Option<&Slice>) {
        let mut merged = store.io.buffer(1);
        match base {
            Some(slice) => merged.block_mut(0).copy_from_slice(slice.block(0)),
            None => merged.block_mut(0).fill(0),
        }
        let write = &self.writes[op];
        merged.block_mut(0)[write.covers.clone()].copy_from_slice(&write.sent.block(0)[write.covers.clone()]);
        let merged = merged.freeze().slice(0, 1);
        store.io.digest(IoFor::DigestForWrite { op }, merged.clone());
        let write = &mut self.writes[op];
        write.whole = Some((merged, Digest::Partial));
        write.stage = WriteStage::Digesting;
    }

    pub fn write_digested(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, op: usize, digest: Digest) {
        let write = &mut self.writes[op];
        write.whole.as_mut().expect("what was digested was merged").1 = digest;
        write.stage = WriteStage::Place;
        if write.request == RECALLED {
            // It may be where its LBN points to already: the index, which is empty as yet, is told to look there.
            if let (Some(MapEntry::Block { pbn, .. }), Digest::Of(fingerprint)) = (write.base, digest) {
                store.index.insert(&fingerprint, pbn);
            }
        }
        self.go_on_writing(store, scheme, answers, op);
    }

    fn pin_for(&mut self, store: &mut Store, op: usize, pbn: Pbn) {
        self.unpin_for(store, op);
        store.space.pin(pbn);
        self.writes[op].pinned = Some(pbn);
    }

    fn pin_other_for(&mut self, store: &mut Store, op: usize, pbn: Pbn) {
        store.space.pin(pbn);
        if let Some(before) = self.writes[op].pinned_other.replace(pbn) {
            store.space.unpin(before);
        }
    }

    fn unpin_for(&mut self, store: &mut Store, op: usize) {
        let write = &mut self.writes[op];
        let pinned = [write.pinned.take(), write.pinned_other.take()];
        pinned.into_iter().flatten().for_each(|pbn| store.space.unpin(pbn));
    }

    /// No block is left for those who wait for one.
    pub fn go_without_space(&mut self, store: &mut Store, answers: &mut Answers, failure: Failure) {
        while let Some(op) = store.space.waiters.pop_front() {
            if self.writes.contains(op) {
                self.end_write(store, answers, op, Some(failure));
            }
        }
        // Their places are free for those who were not let in yet, and nothing else may come to tell.
        store.io.schedule.push(Task::Admit);
    }

    /// Whether anything but writes that wait for a block holds on to blocks: it may yet free one, or let a free one be used.
    pub fn do_others_pin(&self, space: &Space) -> bool {
        let pinned_by = |w: &WriteOp| usize::from(w.pinned.is_some()) + usize::from(w.pinned_other.is_some());
        let by_waiters: usize = space.waiters.iter().filter_map(|&op| self.writes.get(op)).map(pinned_by).sum();
        let pins: u32 = space.pins.values().sum();
        count(by_waiters) < u64::from(pins)
    }

    /// The volume has failed: each write that can hear of it does, and none waits for a block any more.
    pub fn fail_writes(&self, store: &mut Store) {
        store.space.waiters.clear();
        store.io.schedule.ready.extend(self.writes.iter().map(|(op, _)| Task::Write(op)));
    }

    fn end_write(&mut self, store: &mut Store, answers: &mut Answers, op: usize, failure: Option<Failure>) {
        self.unpin_for(store, op);
        let write = self.writes.remove(op);
        store.tables.partial_writes.end(write.lbn, op);
        answers.finish_part(store, write.request, failure);
    }
}
