//! Writes: a request is split into blocks, and each block is placed.
//!
//! 1. A request is answered once, when its last part has its place and, where it asked for that (FUA, strong), is durable.
//! 2. A write of part of a block reads the block and lays its bytes over it. It is placed only if no other request has changed the LBN
//!    since, and the LBN still means what was read; otherwise it begins again. So sub-block writes to one LBN never lose each other's
//!    bytes. The number of the block is not enough to tell: other content, which the LBN means by then, may lie in that block.

use super::Requests;
use super::place::{Written, link};
use super::runs::lone_blocks;
use super::write_op::{Base, WholeBlock, WriteOp, WriteStage};
use crate::answers::{Answers, REPLAYED, moving};
use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::MapEntry;
use crate::interface::{Class, Failure, Request, RequestId};
use crate::io::{Arrived, Io, IoFor};
use crate::ledger::ClientWrites;
use crate::policy::Policy;
use crate::pool::{Comparison, ExpectedContent, Keys, Parts, Pool, in_slot, slot_of};
use crate::schedule::{Blocked, Task};
use crate::scheme::Scheme;
use crate::space::Space;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Lbn, Pbn, count, index};
use std::ops::Range;

/// The part of one block that a request writes.
pub(super) struct Block {
    pub request: RequestId,
    pub lbn: Lbn,
    /// The bytes, and their digest if they are a whole block.
    pub sent: Slice,
    pub digest: Digest,
    /// The range of these bytes within the block.
    pub covers: Range<usize>,
    /// The policy that its request brings.
    pub policy: Policy,
    /// It is a whole block that the filter against fragmentation does not let be linked to another one.
    pub is_lone: bool,
}

impl Requests {
    pub(super) fn begin_write(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, request: &Request) {
        let Some(payload) = &request.payload else {
            return parts.pool.space.refuse(&mut parts.pool.io, request.id, Failure::Invalid);
        };
        let first = request.offset.0 / BLOCK_BYTES;
        let end = request.offset.0 + request.length.0;
        let blocks = end.div_ceil(BLOCK_BYTES) - first;
        if count(payload.buffer.blocks()) < blocks || count(payload.digests.len()) < blocks {
            return parts.pool.space.refuse(&mut parts.pool.io, request.id, Failure::Invalid);
        }
        answers.anticipation.arrived(parts.pool.io.now());
        answers.begin(
            &mut parts.pool.io,
            &parts.pool.settings,
            request,
            ClientWrites { requests: 1, bytes: request.length.0, units: blocks },
        );
        parts.pool.space.look_for_journal(Lbn(first), &payload.buffer.block(0)[index(request.offset.0 % BLOCK_BYTES)..]);
        if blocks > 1 {
            parts.pool.index.warm(payload.digests.iter().filter_map(|digest| if let Digest::Of(fp) = digest { Some(*fp) } else { None }));
        }
        let covered = |i: u64| {
            let block_at = (first + i) * BLOCK_BYTES;
            index(request.offset.0.saturating_sub(block_at))..index((end - block_at).min(BLOCK_BYTES))
        };
        let whole = |i: usize| covered(count(i)) == (0..BLOCK_SIZE);
        let digests = (0..index(blocks)).map(|i| if whole(i) { payload.digests[i] } else { Digest::Partial });
        let lone = (parts.pool.settings.min_run > 1).then(|| lone_blocks(&mut parts.pool, Lbn(first), digests, &request.policies));
        for i in 0..blocks {
            let (sent, digest) = (payload.buffer.slice(index(i), 1), payload.digests[index(i)]);
            let is_lone = lone.as_ref().is_some_and(|lone| lone[index(i)]);
            let policy = request.policies.of(index(i));
            let block = Block { request: request.id, lbn: Lbn(first + i), sent, digest, covers: covered(i), policy, is_lone };
            self.write_block(parts, scheme, answers, block);
        }
        parts.pool.send_run();
        answers.finish_part(&mut parts.pool, request.id, None);
    }

    /// Places one block of a request at once, or begins an operation that will.
    pub(super) fn write_block(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, block: Block) {
        let Block { request, lbn, sent, digest, covers, policy, is_lone } = block;
        let whole = covers == (0..BLOCK_SIZE) && digest != Digest::Partial;
        let mut blocked = None;
        if whole {
            let written = Written { request, lbn, slice: &sent, digest, compared: Comparison::Nothing, policy, is_lone };
            match link(parts, scheme, answers, &written) {
                Ok(()) => return,
                Err(why) => blocked = Some(why),
            }
        }
        self.begin_operation(&mut parts.pool, answers, Block { request, lbn, sent, digest, covers, policy, is_lone }, whole, blocked);
    }

    /// Begins an operation that places a block later: it is blocked, or it is not whole.
    #[inline(never)]
    fn begin_operation(&mut self, pool: &mut Pool, answers: &mut Answers, block: Block, whole: bool, blocked: Option<Blocked>) {
        let Block { request, lbn, sent, digest, covers, policy, is_lone } = block;
        answers.add_part(request);
        let stage = if whole {
            WriteStage::Placing(WholeBlock { content: sent.clone(), digest, base: None, compared: Comparison::Nothing, is_lone })
        } else {
            WriteStage::FindBase
        };
        let op = self.writes.insert(WriteOp { request, lbn, sent, covers, policy, stage });
        match blocked {
            Some(why) => self.write_blocked(pool, answers, op, why),
            None => pool.io.schedule.push(Task::Write(op)),
        }
    }

    /// Begins to write content that the last server had acknowledged. `base` is what the LBN means now.
    pub fn write_replayed(&mut self, io: &mut Io, lbn: Lbn, content: Slice, base: Option<MapEntry>) {
        let op = self.writes.insert(WriteOp {
            request: REPLAYED,
            lbn,
            sent: content.clone(),
            covers: 0..BLOCK_SIZE,
            policy: Policy::DEFAULT,
            stage: WriteStage::Digesting { content: content.clone(), base: base.map(|entry| Base { entry, is_pinned: false }) },
        });
        io.digest(IoFor::DigestForWrite { op }, content);
    }

    /// Begins to write what an LBN means once more, by the policy that is in force now.
    pub fn begin_move(&mut self, io: &mut Io, answers: &mut Answers, lbn: Lbn) {
        answers.begin_move(lbn);
        let (request, sent) = (moving(lbn), io.buffer(1).freeze().slice(0, 1));
        let op = self.writes.insert(WriteOp { request, lbn, sent, covers: 0..0, policy: Policy::DEFAULT, stage: WriteStage::FindBase });
        io.schedule.push(Task::Write(op));
    }

    /// Goes on with the write of a block as far as possible.
    pub fn go_on_writing(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, op: usize) {
        loop {
            let Some(write) = self.writes.get(op) else { return };
            let base = match &write.stage {
                // It waits for an event.
                WriteStage::ReadingBase { .. } | WriteStage::Digesting { .. } | WriteStage::Comparing { .. } => return,
                _ if parts.pool.io.has_failed() => return self.end_write(&mut parts.pool, answers, op, Some(Failure::ReadOnly)),
                WriteStage::FindBase => return self.find_base(&mut parts.pool, answers, op),
                WriteStage::VerifyingBase { .. } => return self.verify_base(&mut parts.pool, op),
                WriteStage::Damaged { find } => {
                    if !parts.pool.awaits_find(*find, Task::Write(op)) {
                        self.end_write(&mut parts.pool, answers, op, Some(Failure::Io));
                    }
                    return;
                }
                WriteStage::Placing(whole) => whole.base,
            };
            match base.map_or(Some(true), |base| self.base_still_holds(&mut parts.pool, answers, op, base.entry)) {
                Some(true) => {}
                Some(false) => continue,
                None => return,
            }
            let WriteOp { request, lbn, policy, stage: WriteStage::Placing(whole), .. } = &self.writes[op] else {
                unreachable!("it is at that stage")
            };
            let WholeBlock { content: slice, digest, compared, is_lone, .. } = whole;
            let (digest, compared, is_lone) = (*digest, *compared, *is_lone);
            let written = Written { request: *request, lbn: *lbn, slice, digest, compared, policy: *policy, is_lone };
            match link(parts, scheme, answers, &written) {
                Ok(()) => {
                    parts.pool.send_run();
                    return self.end_write(&mut parts.pool, answers, op, None);
                }
                Err(why) => return self.write_blocked(&mut parts.pool, answers, op, why),
            }
        }
    }

    fn write_blocked(&mut self, pool: &mut Pool, answers: &mut Answers, op: usize, why: Blocked) {
        match why {
            Blocked::Page(id) => pool.tables.wait(&mut pool.io, id, Task::Write(op)),
            Blocked::Space => pool.space.waiters.push_back(op),
            Blocked::Failed(failure) => self.end_write(pool, answers, op, Some(failure)),
            Blocked::Compare(pbn) | Blocked::Carrier(pbn) => {
                let stage = &mut self.writes[op].stage;
                let WriteStage::Placing(whole) = std::mem::take(stage) else {
                    unreachable!("only a block that looks for its place is compared")
                };
                pool.space.pin(pbn);
                whole.compared_with().into_iter().for_each(|before| pool.space.unpin(before));
                *stage = WriteStage::Comparing { whole, pbn, in_slots: matches!(why, Blocked::Carrier(_)) };
                // Several writes often need slots of one carrier: one read is enough for all.
                if pool.contents.compare(pbn, op) {
                    let at = pool.geometry.block_at(pbn);
                    pool.io.read(IoFor::ReadForWrite { op, pbn }, at, 1, false, Class::Data);
                }
            }
        }
    }

    /// Whether the LBN still means what was read. `Some(false)`: the write begins again. `None`: it waits for a map page, or has failed.
    fn base_still_holds(&mut self, pool: &mut Pool, answers: &mut Answers, op: usize, base: MapEntry) -> Option<bool> {
        let lbn = self.writes[op].lbn;
        match pool.tables.lookup(&mut pool.io, lbn) {
            Ok(Some(entry)) if entry == base && !pool.tables.partial_writes.is_overtaken(lbn, op) => Some(true),
            Ok(Some(_)) => {
                let write = &mut self.writes[op];
                write.unpin(&mut pool.space);
                pool.tables.partial_writes.end(lbn, op);
                write.stage = WriteStage::FindBase;
                Some(false)
            }
            Ok(None) => {
                self.end_write(pool, answers, op, Some(Failure::Io));
                None
            }
            Err(page) => {
                pool.tables.wait(&mut pool.io, page, Task::Write(op));
                None
            }
        }
    }

    /// Finds the content that a write of a part is laid over.
    fn find_base(&mut self, pool: &mut Pool, answers: &mut Answers, op: usize) {
        let lbn = self.writes[op].lbn;
        let entry = match pool.tables.lookup(&mut pool.io, lbn) {
            Ok(Some(entry)) => entry,
            Ok(None) => return self.end_write(pool, answers, op, Some(Failure::Io)),
            Err(page) => return pool.tables.wait(&mut pool.io, page, Task::Write(op)),
        };
        if self.writes[op].covers.is_empty() && entry.pbn().is_none() {
            // There is nothing to move any more.
            return self.end_write(pool, answers, op, None);
        }
        pool.tables.partial_writes.begin(lbn, op);
        match entry {
            MapEntry::Unmapped | MapEntry::Zero => self.merge(&mut pool.io, op, Base { entry, is_pinned: false }, None),
            MapEntry::Lost => self.end_write(pool, answers, op, Some(Failure::Io)),
            MapEntry::Block { pbn, slot } => {
                pool.space.pin(pbn);
                if let Some(here) = pool.in_memory(pbn).and_then(|block| in_slot(&block, slot)) {
                    self.merge(&mut pool.io, op, Base { entry, is_pinned: true }, Some(&here));
                } else {
                    self.writes[op].stage = WriteStage::ReadingBase { slot, pbn };
                    let at = pool.geometry.block_at(pbn);
                    pool.io.read(IoFor::ReadForWrite { op, pbn }, at, 1, pool.settings.verify_reads, Class::Data);
                }
            }
        }
    }

    /// Goes on when a block has been read: the one below a write of a part, or a possible duplicate of a whole block.
    pub fn write_base_arrived(
        &mut self,
        parts: &mut Parts,
        scheme: &mut Scheme,
        answers: &mut Answers,
        op: usize,
        pbn: Pbn,
        arrived: Arrived,
    ) {
        let (digest, result) = (arrived.digest(0), arrived.result);
        let slice = arrived.buffer.freeze().slice(0, 1);
        let WriteStage::ReadingBase { slot, .. } = self.writes[op].stage else {
            let waiting = parts.pool.contents.end_comparing(pbn);
            return waiting.into_iter().for_each(|op| self.candidate_arrived(parts, scheme, answers, op, result.is_ok().then_some(&slice)));
        };
        if result.is_err() {
            return self.base_damaged(&mut parts.pool, op, pbn, "a block cannot be read");
        }
        self.writes[op].stage = WriteStage::VerifyingBase { slot, pbn, buffer: slice, digest };
        self.go_on_writing(parts, scheme, answers, op);
    }

    /// Goes on when a possible duplicate of a whole block has been read. `stored` is none if that failed.
    fn candidate_arrived(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, op: usize, stored: Option<&Slice>) {
        let stage = &mut self.writes[op].stage;
        let WriteStage::Comparing { whole, pbn, in_slots } = std::mem::take(stage) else { unreachable!("it waits for that block") };
        let compared = stored.and_then(|stored| compare_stored(&parts.pool.keys, &whole, pbn, in_slots, stored));
        if compared.is_none() {
            parts.pool.judge_candidate(pbn, in_slots, stored);
        }
        if let (Some(stored), Some(Comparison::SameSlot(_, _, authenticator))) = (stored, compared) {
            // So the next duplicate of one of its slots need not read it.
            if matches!(parts.pool.expect_content(pbn), ExpectedContent::Carrier(value) if value == authenticator)
                && !parts.pool.contents.suspects.contains(pbn)
            {
                parts.pool.contents.cache.fill(pbn, stored.block(0), false);
            }
        }
        *stage = WriteStage::Placing(WholeBlock { compared: compared.unwrap_or(Comparison::Differs(pbn)), ..whole });
        self.go_on_writing(parts, scheme, answers, op);
    }

    fn verify_base(&mut self, pool: &mut Pool, op: usize) {
        let WriteStage::VerifyingBase { slot, pbn, buffer, digest } = &self.writes[op].stage else { return };
        let (slot, pbn, digest) = (*slot, *pbn, *digest);
        let expect = if pool.settings.verify_reads { pool.expect_content(pbn) } else { ExpectedContent::Unknown };
        if let ExpectedContent::Page(id) = expect {
            return pool.tables.wait(&mut pool.io, id, Task::Write(op));
        }
        match pool.verified(pbn, slot, &expect, digest, buffer) {
            Some(content) => {
                let entry = MapEntry::Block { pbn, slot };
                self.merge(&mut pool.io, op, Base { entry, is_pinned: true }, Some(&content));
            }
            None => self.base_damaged(pool, op, pbn, "content differs from its fingerprint"),
        }
    }

    /// Fails a write of a part, when it is kept that the block below it is damaged.
    #[cold]
    fn base_damaged(&mut self, pool: &mut Pool, op: usize, pbn: Pbn, what: &'static str) {
        pool.block_damaged(pbn, what);
        let write = &mut self.writes[op];
        write.unpin(&mut pool.space);
        write.stage = WriteStage::Damaged { find: pool.contents.suspects.last_find() };
        pool.io.schedule.push(Task::Write(op));
    }

    /// Lays the client's bytes over the block, and asks for the digest of the whole.
    fn merge(&mut self, io: &mut Io, op: usize, base: Base, below: Option<&Slice>) {
        let mut merged = io.buffer(1);
        match below {
            Some(slice) => merged.block_mut(0).copy_from_slice(slice.block(0)),
            None => merged.block_mut(0).fill(0),
        }
        let write = &mut self.writes[op];
        merged.block_mut(0)[write.covers.clone()].copy_from_slice(&write.sent.block(0)[write.covers.clone()]);
        let content = merged.freeze().slice(0, 1);
        io.digest(IoFor::DigestForWrite { op }, content.clone());
        write.stage = WriteStage::Digesting { content, base: Some(base) };
    }

    /// Goes on when the digest of a merged block has arrived.
    pub fn write_digested(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, op: usize, digest: Digest) {
        let write = &mut self.writes[op];
        let WriteStage::Digesting { content, base } = std::mem::take(&mut write.stage) else { unreachable!("it waits for its digest") };
        // A part of a block is a run of one. What was acknowledged has passed the filter already.
        let is_lone = parts.pool.settings.min_run > 1 && write.request != REPLAYED;
        write.stage = WriteStage::Placing(WholeBlock { content, digest, base, compared: Comparison::Nothing, is_lone });
        if write.request == REPLAYED {
            // The block that the LBN means may hold this content already. The index is still empty, so the block is entered.
            if let (Some(pbn), Digest::Of(fingerprint)) = (base.and_then(|base| base.entry.pbn()), digest) {
                parts.pool.index.insert(&fingerprint, pbn);
            }
        }
        self.go_on_writing(parts, scheme, answers, op);
    }

    /// Fails all writes that wait for a block, since there is none.
    pub fn go_without_space(&mut self, pool: &mut Pool, answers: &mut Answers, failure: Failure) {
        while let Some(op) = pool.space.waiters.pop_front() {
            if self.writes.contains(op) {
                self.end_write(pool, answers, op, Some(failure));
            }
        }
        // Requests that wait for admission can go on, and there may be no other event that lets them.
        pool.io.schedule.push(Task::Admit);
    }

    /// Whether blocks are pinned by others than the writes that wait for a block. Unpinned, such a block may become free, or usable.
    pub fn do_others_pin(&self, space: &Space) -> bool {
        let by_waiters: usize = space.waiters.iter().filter_map(|&op| self.writes.get(op)).map(WriteOp::pins).sum();
        let pins = space.pins();
        count(by_waiters) < pins
    }

    /// Lets all writes go on that can, after the volume has failed. They fail, and none waits for a block any more.
    pub fn fail_writes(&self, io: &mut Io, space: &mut Space) {
        space.waiters.clear();
        io.schedule.extend(self.writes.iter().map(|(op, _)| Task::Write(op)));
    }

    fn end_write(&mut self, pool: &mut Pool, answers: &mut Answers, op: usize, failure: Option<Failure>) {
        let write = self.writes.remove(op);
        write.unpin(&mut pool.space);
        pool.tables.partial_writes.end(write.lbn, op);
        answers.finish_part(pool, write.request, failure);
    }
}

/// Compares a written block with a stored one, or with a slot of it. None: they differ.
fn compare_stored(keys: &Keys, whole: &WholeBlock, pbn: Pbn, in_slots: bool, stored: &Slice) -> Option<Comparison> {
    let content = whole.content.block(0);
    if !in_slots {
        return (content == stored.block(0)).then_some(Comparison::Same(pbn));
    }
    let Digest::Of(fingerprint) = &whole.digest else { return None };
    let authenticator = keys.authentic(pbn, stored.block(0))?;
    let slot = slot_of(stored.block(0), fingerprint)?;
    let same = in_slot(stored, slot)?.block(0) == content;
    same.then_some(Comparison::SameSlot(pbn, slot, authenticator))
}
