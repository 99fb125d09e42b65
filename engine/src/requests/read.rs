//! Reads: look up each LBN, take its content from memory or from the device, verify it, and answer.
//!
//! 1. A block is pinned while its content is being read (R7): it is not reused, so the content that arrives is what the LBN meant.
//! 2. With `verify_reads`, content that has a fingerprint or checksum is compared with it before it is given out (P6).
//!    If the table no longer has that entry, the LBN means something else, and the read begins again.
//! 3. A block with wrong content leaves the index at once, and the read fails when that is kept, so that a rewrite repairs it whenever it
//!    comes ([`crate::contents`]).

use super::Requests;
use super::read_op::{FromRun, Piece, ReadOp, RunRead};
use crate::buffer::Slice;
use crate::contents::Contents;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::MapEntry;
use crate::format::page::PageId;
use crate::format::unit;
use crate::index::Prefetched;
use crate::interface::{Class, Failure, Reply, Request, Segment};
use crate::io::{Arrived, Io, IoFor};
use crate::memory::Part;
use crate::policy::Policy;
use crate::pool::{BlockCondition, Place, in_slot};
use crate::pool::{ExpectedContent, Pool};
use crate::schedule::Task;
use crate::tables::Tables;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Lbn, Pbn, count, index};

impl Requests {
    pub fn begin_read(&mut self, pool: &mut Pool, request: Request) {
        let room = pool.memory.accountant.limit(Part::Requests) / 2;
        if self.reads_bytes > 0 && self.reads_bytes + request.length.0 > room {
            self.reads_queued.push_back(request);
            return;
        }
        pool.io.ledger.client_read(request.length);
        self.reads_bytes += request.length.0;
        let op = self.reads.insert(ReadOp::new(request));
        self.go_on_reading(pool, op);
    }

    pub fn go_on_reading(&mut self, pool: &mut Pool, op: usize) {
        let Some(read) = self.reads.get(op) else { return };
        if !read.sent && !self.resolve(pool, op) {
            return;
        }
        if self.reads[op].runs_left == 0 {
            if self.reads[op].takes_new_beginning() {
                return self.read_again(pool, op);
            }
            self.verify_and_answer(pool, op);
        }
    }

    /// Looks up what each LBN means, and reads what is not in memory. False: it waits for a map page.
    fn resolve(&mut self, pool: &mut Pool, op: usize) -> bool {
        let (offset, length) = (self.reads[op].request.offset.0, self.reads[op].request.length.0);
        let first = offset / BLOCK_BYTES;
        let blocks = (offset + length).div_ceil(BLOCK_BYTES) - first;
        while count(self.reads[op].pieces.len()) < blocks && !self.reads[op].bad {
            let lbn = Lbn(first + count(self.reads[op].pieces.len()));
            match pool.tables.lookup(&mut pool.io, lbn) {
                Ok(Some(MapEntry::Unmapped | MapEntry::Zero)) if pool.tables.proved_only().is_some() => self.reads[op].fails(),
                Ok(Some(MapEntry::Unmapped | MapEntry::Zero)) => self.reads[op].pieces.push(Piece::Zeroes),
                Ok(Some(MapEntry::Block { pbn, slot })) if pbn.0 < pool.geometry.data_blocks => self.take_block(pool, op, pbn, slot),
                Ok(_) => self.reads[op].fails(),
                Err(page) => {
                    pool.tables.wait(&mut pool.io, page, Task::Read(op));
                    return false;
                }
            }
        }
        self.send_runs(pool, op);
        true
    }

    /// Takes the content of a block if it is in memory. Otherwise pins the block, which becomes part of a run.
    fn take_block(&mut self, pool: &mut Pool, op: usize, pbn: Pbn, slot: u8) {
        let held = pool.space.pending.get(pbn).and_then(|f| f.content.clone());
        // After a damaged log the content has to be proved for each LBN.
        let is_trusted = pool.tables.proved_only().is_none();
        let cached = if held.is_none() && is_trusted { self.cached(&mut pool.io, &mut pool.contents, pbn) } else { None };
        if cached.is_some() {
            self.reads[op].skip(&pool.geometry, pbn);
        }
        if let Some(here) = held.or(cached) {
            self.note_what_was_here(pool, op, (pbn, slot), &here);
            match in_slot(&here, slot) {
                Some(content) => self.reads[op].pieces.push(Piece::Here(content)),
                None => self.reads[op].fails(),
            }
            return;
        }
        let along = self.reads[op].bridge_to(&pool.geometry, pbn);
        (along.start.0..along.end.0).for_each(|along| pool.space.pin(Pbn(along)));
        if self.reads[op].ask(&pool.geometry, pbn, slot) {
            pool.space.pin(pbn);
        }
    }

    fn cached(&mut self, io: &mut Io, contents: &mut Contents, pbn: Pbn) -> Option<Slice> {
        let cached = contents.cache.get(pbn);
        io.ledger.looked_in_cache(cached.is_some());
        cached
    }

    /// Reads the runs from the device, and meanwhile loads the pages with their fingerprints.
    fn send_runs(&mut self, pool: &mut Pool, op: usize) {
        let read = &mut self.reads[op];
        read.is_sent();
        if read.bad {
            return;
        }
        let runs: Vec<(Pbn, usize, bool)> = read.runs.iter().map(|r| (r.first, r.blocks, r.has_whole)).collect();
        for (run, (pbn, blocks, has_whole)) in runs.into_iter().enumerate() {
            if pool.settings.verify_reads {
                let last = pool.geometry.fingerprint_of(pbn + (count(blocks) - 1)).0;
                let first = pool.geometry.fingerprint_of(pbn).0;
                (first.index..=last.index).for_each(|index| {
                    pool.tables.ensure(&mut pool.io, PageId { index, ..first });
                });
            }
            let at = pool.geometry.block_at(pbn);
            pool.io.read(IoFor::Read { op, run }, at, blocks, pool.settings.verify_reads && has_whole, Class::Data);
        }
    }

    pub fn read_arrived(&mut self, pool: &mut Pool, op: usize, run: usize, arrived: Arrived) {
        let Arrived { buffer, digests, result } = arrived;
        let read = &mut self.reads[op];
        let blocks = buffer.blocks();
        read.run_arrived(run, (buffer.freeze().slice(0, blocks), digests));
        if result.is_err() && blocks > 1 {
            // Which of them cannot be read shows when each is read by itself.
            read.begin_block_by_block();
        } else if result.is_err() {
            let pbn = read.runs[run].first;
            pool.block_damaged(pbn, "a block cannot be read");
            self.reads[op].is_damaged(pool.contents.suspects.last_find());
        }
        self.go_on_reading(pool, op);
    }

    fn verify_and_answer(&mut self, pool: &mut Pool, op: usize) {
        if pool.io.has_failed() && self.reads_uncommitted(&pool.tables, op) {
            self.reads[op].fails();
        }
        let pieces: Vec<(usize, FromRun)> = if self.reads[op].bad { Vec::new() } else { self.reads[op].device_pieces().collect() };
        // Slots of one block mostly follow each other: the block is verified once for all of them.
        let mut judged: Option<((usize, usize), BlockCondition)> = None;
        for (piece, from) in pieces {
            // Without verification whole blocks are answered as they came.
            if piece < self.reads[op].verified || (from.slot == 0 && !pool.settings.verify_reads) {
                continue;
            }
            let pbn = self.reads[op].runs[from.run].first + count(from.at);
            let expect = if pool.settings.verify_reads { pool.expect_content(pbn) } else { ExpectedContent::Unknown };
            if let ExpectedContent::Page(page) = expect {
                return pool.tables.wait(&mut pool.io, page, Task::Read(op));
            }
            if let (ExpectedContent::Unknown, true) = (&expect, pool.settings.verify_reads) {
                match pool.tables.lookup(&mut pool.io, self.reads[op].lbn(piece)) {
                    Err(page) => return pool.tables.wait(&mut pool.io, page, Task::Read(op)),
                    Ok(Some(MapEntry::Block { pbn: now, slot })) if (now, slot) == (pbn, from.slot) => {}
                    Ok(_) => return self.read_again(pool, op),
                }
            }
            let (slice, digests) = self.reads[op].runs[from.run].arrived();
            let (block, digest) = (slice.nth(from.at), digests.get(from.at).copied().unwrap_or(Digest::Partial));
            match pool.is_proved(self.reads[op].lbn(piece), pbn, &expect, digest, block.block(0)) {
                Ok(true) => {}
                Ok(false) => {
                    self.reads[op].fails();
                    break;
                }
                Err(page) => return pool.tables.wait(&mut pool.io, page, Task::Read(op)),
            }
            let found = match judged {
                Some((at, found)) if at == (from.run, from.at) => found,
                _ => pool.judge(pbn, from.slot, &expect, digest, block.block(0)),
            };
            judged = Some(((from.run, from.at), found));
            self.name_what_was_read(pool, self.reads[op].lbn(piece), pbn, from.slot, &expect, digest);
            if found == BlockCondition::Right {
                self.note_what_was_read(pool, op, piece, (pbn, from.slot), &expect, block.block(0));
            }
            match pool.slot_as_judged(pbn, &block, from.slot, found) {
                Some(content) => self.reads[op].is_here(piece, content),
                None => {
                    pool.content_damaged(pbn);
                    self.reads[op].is_damaged(pool.contents.suspects.last_find());
                }
            }
            self.reads[op].is_verified_upto(piece + 1);
        }
        if !pool.awaits_find(self.reads[op].find, Task::Read(op)) {
            self.end_read(pool, op);
        }
    }

    /// Notes the place of content that was read from the device, and is right.
    fn note_what_was_read(
        &self,
        pool: &mut Pool,
        op: usize,
        piece: usize,
        place: Place,
        expect: &ExpectedContent,
        block: &[u8; BLOCK_SIZE],
    ) {
        let is_marked = self.reads[op].request.policies.of(piece).is_prefetched();
        if !is_marked && pool.index.is_whole() {
            return;
        }
        let fingerprint = match (place, expect) {
            ((_, 0), ExpectedContent::Fingerprint(value)) => Some(*value),
            (_, ExpectedContent::Carrier(_)) => fingerprint_in(block, place),
            _ => None,
        };
        note_place(&mut pool.prefetched, is_marked, fingerprint, place.0);
    }

    /// Notes the place of content that is in memory.
    fn note_what_was_here(&self, pool: &mut Pool, op: usize, place: Place, here: &Slice) {
        let is_marked = self.reads[op].request.policies.of(self.reads[op].pieces.len()).is_prefetched();
        if !is_marked && pool.index.is_whole() {
            return;
        }
        let fingerprint = if place.1 > 0 { fingerprint_in(here.block(0), place) } else { pool.fingerprint_here(place.0) };
        note_place(&mut pool.prefetched, is_marked, fingerprint, place.0);
    }

    /// Gives a whole block its fingerprint again, where a crash took it.
    fn name_what_was_read(&mut self, pool: &mut Pool, lbn: Lbn, pbn: Pbn, slot: u8, expect: &ExpectedContent, digest: Digest) {
        let is_nameless = match expect {
            ExpectedContent::Short(_) => true,
            ExpectedContent::Unknown => !pool.medium.policy_of(lbn, Policy::DEFAULT).is_apart(),
            _ => false,
        };
        if let (true, 0, Digest::Of(fingerprint)) = (is_nameless && pool.settings.verify_reads, slot, digest) {
            pool.restore_fingerprint(pbn, fingerprint);
        }
    }

    /// Begins a read again whose block was overwritten while it was read, and has no entry any more to verify it by. What the LBN means now
    /// is as good an answer, and can be verified.
    fn read_again(&mut self, pool: &mut Pool, op: usize) {
        let runs = self.reads[op].begin_again();
        runs.iter().for_each(|run| (0..run.blocks).for_each(|i| pool.space.unpin(run.first + count(i))));
        self.go_on_reading(pool, op);
    }

    /// Whether it needs content from the device for an LBN that was changed since the last commit. After a failure that content is not to
    /// be trusted (A5).
    fn reads_uncommitted(&self, tables: &Tables, op: usize) -> bool {
        let read = &self.reads[op];
        let mut pieces = read.pieces.iter().enumerate();
        pieces.any(|(i, piece)| !matches!(piece, Piece::Here(_)) && tables.overlay(read.lbn(i)).is_some())
    }

    fn end_read(&mut self, pool: &mut Pool, op: usize) {
        let read = self.reads.remove(op);
        let request = read.request;
        self.reads_bytes -= request.length.0;
        let is_alone = request.length.0 <= BLOCK_BYTES;
        for run in &read.runs {
            for i in 0..run.blocks {
                let pbn = run.first + count(i);
                let is_verified = !read.bad && !run.along.contains(&pbn) && !pool.contents.suspects.contains(pbn);
                if let (true, Some((slice, _))) = (is_verified, &run.arrived) {
                    pool.contents.cache.fill(pbn, slice.block(i), is_alone);
                }
                pool.space.unpin(pbn);
            }
        }
        let reply = if read.bad { Reply::Failed(Failure::Io) } else { Reply::Data(segments(&request, &read.pieces, &read.runs)) };
        pool.io.reply(request.id, reply);
        if let Some(next) = self.reads_queued.pop_front() {
            self.begin_read(pool, next);
        }
    }
}

/// The fingerprint of the content of a slot, in its carrier.
fn fingerprint_in(carrier: &[u8; BLOCK_SIZE], (_, slot): Place) -> Option<Fingerprint> {
    unit::fingerprints(carrier).get(usize::from(slot).checked_sub(1)?).copied()
}

/// Notes that a block has this content, if it may be written again: by a hint, or because it is in the sample.
fn note_place(prefetched: &mut Prefetched, is_marked: bool, fingerprint: Option<Fingerprint>, pbn: Pbn) {
    if let Some(fingerprint) = fingerprint.filter(|fingerprint| is_marked || Prefetched::samples(fingerprint)) {
        prefetched.note(fingerprint, pbn);
    }
}

/// The bytes that were asked for, in order.
fn segments(request: &Request, pieces: &[Piece], runs: &[RunRead]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let (begin, end) = (request.offset.0, request.offset.0 + request.length.0);
    let first = begin / BLOCK_BYTES;
    for (i, piece) in pieces.iter().enumerate() {
        let at = (first + count(i)) * BLOCK_BYTES;
        let from = begin.max(at) - at;
        let bytes = end.min(at + BLOCK_BYTES) - at - from;
        let slice = match piece {
            Piece::Zeroes => {
                if let Some(Segment::Zeroes { bytes: so_far }) = segments.last_mut() {
                    *so_far += bytes;
                } else {
                    segments.push(Segment::Zeroes { bytes });
                }
                continue;
            }
            Piece::Here(slice) => slice.clone(),
            Piece::Run(from) => runs[from.run].arrived().0.nth(from.at),
        };
        if let Some(Segment::Data { slice: before, start, bytes: so_far }) = segments.last_mut() {
            if *start + *so_far == before.blocks() * BLOCK_SIZE && from == 0 {
                match before.join(slice) {
                    None => *so_far += index(bytes),
                    Some(slice) => segments.push(Segment::Data { slice, start: 0, bytes: index(bytes) }),
                }
                continue;
            }
        }
        segments.push(Segment::Data { slice, start: index(from), bytes: index(bytes) });
    }
    segments
}
