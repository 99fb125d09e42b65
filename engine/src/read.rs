//! Reads: what each LBN means → held content, read cache, device → verified → answered.
//!
//! 1. A block is pinned while its content is on the way (R7): it is not reused, so what arrives is what the LBN meant.
//! 2. With `verify_reads`, content that has a fingerprint or checksum is compared before anyone gets it (P6).
//! 3. A block whose content was found wrong leaves the index at once, so that a rewrite heals it.

use crate::buffer::{BufferMut, Slice};
use crate::engine::{Engine, IoFor};
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{Kind, MapEntry};
use crate::format::page::PageId;
use crate::interface::{Class, Failure, IoFailure, Notice, Reply, Request, Segment};
use crate::memory::Part;
use crate::pages::{Got, Task};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Lbn, Pbn, count, index};

/// What a block's content should be.
pub(crate) enum Expect {
    /// That page has to come first.
    Page(PageId),
    Unknown,
    Fingerprint(Fingerprint),
    Checksum(Fingerprint),
}

enum Piece {
    Zeroes,
    Here(Slice),
    /// Block `at` of a run that comes from the device.
    Run {
        run: usize,
        at: usize,
    },
}

struct RunRead {
    first: Pbn,
    blocks: usize,
    arrived: Option<(Slice, Vec<Digest>)>,
    failed: bool,
}

/// A read in progress.
pub(crate) struct ReadOp {
    request: Request,
    pieces: Vec<Piece>,
    runs: Vec<RunRead>,
    runs_left: usize,
    resolved: bool,
}

/// The most blocks in one command.
const RUN_BLOCKS_MAX: usize = 256;

impl Engine {
    pub(crate) fn begin_read(&mut self, request: Request) {
        let room = self.accountant.limit(Part::Requests) / 2;
        if self.reads_bytes > 0 && self.reads_bytes + request.length.0 > room {
            self.reads_queued.push_back(request);
            return;
        }
        self.ledger.client_reads += 1;
        self.ledger.client_read_bytes += request.length.0;
        self.reads_bytes += request.length.0;
        let op = self.reads.insert(ReadOp { request, pieces: Vec::new(), runs: Vec::new(), runs_left: 0, resolved: false });
        self.go_on_reading(op);
    }

    pub(crate) fn go_on_reading(&mut self, op: usize) {
        let Some(read) = self.reads.get(op) else { return };
        if !read.resolved {
            let (offset, length) = (read.request.offset.0, read.request.length.0);
            let first = offset / BLOCK_BYTES;
            let blocks = (offset + length).div_ceil(BLOCK_BYTES) - first;
            match self.resolve(first, blocks) {
                Ok(Some(entries)) => self.fetch(op, &entries),
                Ok(None) => return self.end_read(op, true),
                Err(page) => return self.wait(page, Task::Read(op)),
            }
        }
        if self.reads[op].runs_left == 0 {
            self.verify_and_answer(op);
        }
    }

    /// What the LBNs mean, all at one moment. `Ok(None)`: something there is lost or cannot be read.
    fn resolve(&mut self, first: u64, blocks: u64) -> Result<Option<Vec<MapEntry>>, PageId> {
        let mut entries = Vec::with_capacity(index(blocks));
        for i in 0..blocks {
            match self.lookup(Lbn(first + i))? {
                Some(MapEntry::Lost) | None => return Ok(None),
                Some(entry) => entries.push(entry),
            }
        }
        Ok(Some(entries))
    }

    fn fetch(&mut self, op: usize, entries: &[MapEntry]) {
        let first = self.reads[op].request.offset.0 / BLOCK_BYTES;
        let mut pieces = Vec::with_capacity(entries.len());
        let mut runs: Vec<RunRead> = Vec::new();
        let mut lost = false;
        for (i, &entry) in entries.iter().enumerate() {
            let MapEntry::Block { pbn, .. } = entry else {
                pieces.push(Piece::Zeroes);
                continue;
            };
            if let Some(held) = self.fresh.get(&pbn).and_then(|f| f.held.clone()) {
                pieces.push(Piece::Here(held));
                continue;
            }
            // After a failure the device's bytes of an uncommitted link are not to be trusted (A5).
            lost |= self.failed && self.overlay(Lbn(first + count(i))).is_some();
            lost |= pbn.0 >= self.geometry.data_blocks;
            if lost {
                break;
            }
            if let Some(cached) = self.cache.get(pbn) {
                self.ledger.cache_hits += 1;
                pieces.push(Piece::Here(cached));
                continue;
            }
            self.pin(pbn);
            match runs.last_mut() {
                Some(run) if run.first + count(run.blocks) == pbn && run.blocks < RUN_BLOCKS_MAX => run.blocks += 1,
                _ => runs.push(RunRead { first: pbn, blocks: 1, arrived: None, failed: false }),
            }
            pieces.push(Piece::Run { run: runs.len() - 1, at: runs[runs.len() - 1].blocks - 1 });
        }
        let read = &mut self.reads[op];
        read.resolved = true;
        if lost {
            runs.iter().for_each(|run| (0..run.blocks).for_each(|i| self.unpin(run.first + count(i))));
            self.reads[op].pieces.clear();
            return;
        }
        read.pieces = pieces;
        read.runs_left = runs.len();
        read.runs = runs;
        let wanted: Vec<(Pbn, usize)> = read.runs.iter().map(|r| (r.first, r.blocks)).collect();
        for (run, (pbn, blocks)) in wanted.into_iter().enumerate() {
            if self.settings.verify_reads {
                // The fingerprints come along while the content does.
                let last = self.geometry.fingerprint_of(pbn + (count(blocks) - 1)).0;
                let first = self.geometry.fingerprint_of(pbn).0;
                (first.index..=last.index).for_each(|index| {
                    self.ensure(PageId { index, ..first });
                });
            }
            let at = self.geometry.block_at(pbn);
            self.read_in(IoFor::Read { op, run }, at, blocks, self.settings.verify_reads, Class::Data);
        }
    }

    pub(crate) fn read_arrived(&mut self, op: usize, run: usize, buffer: BufferMut, digests: Vec<Digest>, result: Result<(), IoFailure>) {
        let read = &mut self.reads[op];
        let blocks = buffer.blocks();
        read.runs[run].arrived = Some((buffer.freeze().slice(0, blocks), digests));
        read.runs[run].failed = result.is_err();
        read.runs_left -= 1;
        self.go_on_reading(op);
    }

    fn verify_and_answer(&mut self, op: usize) {
        let read = &self.reads[op];
        if read.pieces.is_empty() {
            return self.end_read(op, true);
        }
        let mut bad = read.runs.iter().any(|run| run.failed);
        if self.settings.verify_reads && !bad {
            for run in 0..self.reads[op].runs.len() {
                let (first, blocks) = (self.reads[op].runs[run].first, self.reads[op].runs[run].blocks);
                for i in 0..blocks {
                    let pbn = first + count(i);
                    let expect = self.expect_content(pbn);
                    if let Expect::Page(page) = expect {
                        return self.wait(page, Task::Read(op));
                    }
                    let (slice, digests) = self.reads[op].runs[run].arrived.as_ref().expect("every run has arrived");
                    let (block, digest) = (slice.nth(i), digests.get(i).copied().unwrap_or(Digest::Partial));
                    if !self.content_is(&expect, digest, block.block(0)) {
                        self.content_damaged(pbn);
                        bad = true;
                    }
                }
            }
        }
        self.end_read(op, bad);
    }

    fn end_read(&mut self, op: usize, bad: bool) {
        let read = self.reads.remove(op);
        let request = read.request;
        self.reads_bytes -= request.length.0;
        for run in &read.runs {
            for i in 0..run.blocks {
                let pbn = run.first + count(i);
                if let (false, Some((slice, _))) = (bad, &run.arrived) {
                    self.cache.fill(pbn, slice.block(i));
                }
                self.unpin(pbn);
            }
        }
        let reply = if bad { Reply::Failed(Failure::Io) } else { Reply::Data(segments(&request, &read.pieces, &read.runs)) };
        self.reply(request.id, reply);
        if let Some(next) = self.reads_queued.pop_front() {
            self.begin_read(next);
        }
    }

    /// What a block's content should be, as the fingerprint table or a birth says.
    pub(crate) fn expect_content(&mut self, pbn: Pbn) -> Expect {
        let known = self.fresh.get(&pbn).filter(|f| f.waits).map(|f| (f.kind, f.fingerprint));
        let (kind, value) = match known {
            Some(known) => known,
            None => {
                let (page, at) = self.geometry.fingerprint_of(pbn);
                match self.ensure(page) {
                    Got::Wait => return Expect::Page(page),
                    Got::Unreadable => return Expect::Unknown,
                    Got::Ready => {
                        let entry = self.pages.expect(page).content.fingerprint(at);
                        (entry.kind, entry.value)
                    }
                }
            }
        };
        match kind {
            Kind::Fingerprint => Expect::Fingerprint(value),
            Kind::Checksum if value != Fingerprint([0; 20]) => Expect::Checksum(value),
            _ => Expect::Unknown,
        }
    }

    /// Whether a block's bytes are what they should be.
    pub(crate) fn content_is(&self, expect: &Expect, digest: Digest, block: &[u8; BLOCK_SIZE]) -> bool {
        match expect {
            Expect::Fingerprint(value) => digest == Digest::Of(*value),
            Expect::Checksum(value) => self.fingerprinter.checksum(block) == *value,
            Expect::Unknown | Expect::Page(_) => true,
        }
    }

    /// A block's content is not what its fingerprint says (P6).
    pub(crate) fn content_damaged(&mut self, pbn: Pbn) {
        self.notice(Notice::Damage { what: "content differs from its fingerprint", at: pbn.0 });
        if let Expect::Fingerprint(value) = self.expect_content(pbn) {
            self.index.remove(&value, pbn);
        }
        self.suspects.insert(pbn);
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
            Piece::Run { run, at } => runs[*run].arrived.as_ref().expect("every run has arrived").0.nth(*at),
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
