//! Requests of clients.

use super::tables::WriteOutcome;
use super::{Cause, Dedup, Purpose, Scheme};
use crate::rivals::reads::Piece;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::interface::{Action, Class, Failure, Op, Reply, Request, RequestId};
use onefold_engine::units::{Blocks, Time};

impl<S: Scheme> Dedup<S> {
    /// Accepts a request. Reads may overtake requests that wait for space; all other requests keep their order.
    pub(super) fn request(&mut self, now: Time, request: Request, out: &mut Vec<Action>) {
        let Some((first, blocks)) = self.settings.blocks_of(&request) else {
            out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::Invalid) });
            return;
        };
        match request.op {
            Op::Read => {
                self.prefetch(&request, first, blocks);
                self.read(request.id, first, blocks, out);
            }
            Op::Extents => out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::Invalid) }),
            _ if self.failed => out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::ReadOnly) }),
            _ if self.stalled.is_empty() && self.looking.is_none() => self.admit(now, request, out),
            _ => self.stalled.push_back(request),
        }
    }

    /// Admits waiting requests, up to the first that has to wait longer, or whose look-ups read.
    pub(super) fn admit_stalled(&mut self, now: Time, out: &mut Vec<Action>) {
        for _ in 0..self.stalled.len() {
            if self.looking.is_some() {
                break;
            }
            let request = self.stalled.pop_front().expect("it was counted");
            let waiting = self.stalled.len();
            self.admit(now, request, out);
            if self.stalled.len() > waiting {
                // The request was put at the end of the queue: move it back to the head.
                self.stalled.rotate_right(1);
                break;
            }
        }
    }

    fn admit(&mut self, now: Time, request: Request, out: &mut Vec<Action>) {
        let (first, blocks) = self.settings.blocks_of(&request).expect("it was looked at before");
        let cause = if self.settings.strong() { Cause::Strong } else { Cause::Fua };
        let Some(request) = self.look_up(request, first, out) else { return };
        match request.op {
            Op::Flush => return self.wait(request.id, Cause::Flush, out),
            Op::Write if !self.room(blocks, now) => {
                if self.busy() || !self.pins.is_empty() {
                    self.counts.stalls += 1;
                    self.stalled.push_back(request);
                } else {
                    out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::NoSpace) });
                }
                return;
            }
            Op::Write => self.write(now, first, &request, out),
            Op::Discard | Op::WriteZeroes => {
                for lbn in first..first + blocks {
                    self.tables.unmap(lbn, &mut self.filling.changes);
                    self.changed(now);
                }
                if self.single && !self.filling.changes.is_empty() {
                    self.seal(Cause::Strong);
                }
            }
            Op::Read | Op::Extents => unreachable!("only changes are admitted"),
        }
        if request.fua || self.settings.strong() {
            self.wait(request.id, cause, out);
        } else {
            out.push(Action::Reply { request: request.id, reply: Reply::Done });
        }
    }

    /// Returns whether this many blocks are free of reads; otherwise frees kept blocks with the next commit.
    fn room(&mut self, blocks: u64, now: Time) -> bool {
        if self.tables.free() >= blocks + self.pins.len() as u64 {
            return true;
        }
        if self.tables.kept() > 0 && self.sealed.is_empty() {
            // Collecting a block changes two entries.
            let most = (self.scheme.changes_max().saturating_sub(self.filling.changes.len()) / 2).max(1);
            self.counts.reclaimed += self.tables.collect(most, &mut self.filling.changes);
            self.filling.since.get_or_insert(now);
        }
        if !self.filling.changes.freed.is_empty() {
            self.seal(Cause::Pressure);
        }
        false
    }

    fn write(&mut self, now: Time, first: u64, request: &Request, out: &mut Vec<Action>) {
        let payload = request.payload.as_ref().expect("a write brings its bytes");
        let mut run: Option<(u64, Slice)> = None;
        for (i, &digest) in payload.digests.iter().enumerate() {
            let pins = &self.pins;
            let (apart, changes) = (request.policies.of(i).is_apart(), &mut self.filling.changes);
            let kind = self.tables.write(first + i as u64, digest, apart, |pbn| pins.contains_key(&pbn), changes);
            match kind {
                WriteOutcome::Duplicate => self.counts.duplicates += 1,
                WriteOutcome::Unchanged => self.counts.unchanged += 1,
                WriteOutcome::Zero => self.counts.zeroes += 1,
                WriteOutcome::New(pbn) => {
                    self.counts.new += 1;
                    let slice = payload.buffer.slice(i, 1);
                    self.writing.insert(pbn, slice.clone());
                    // Neighbouring blocks are written by one command.
                    run = match run.take() {
                        Some((start, mut held)) if start + held.blocks() as u64 == pbn => match held.join(slice) {
                            None => Some((start, held)),
                            Some(apart) => {
                                self.write_content(start, held, out);
                                Some((pbn, apart))
                            }
                        },
                        Some((start, held)) => {
                            self.write_content(start, held, out);
                            Some((pbn, slice))
                        }
                        None => Some((pbn, slice)),
                    };
                }
            }
            if self.single || self.filling.changes.len() >= self.scheme.changes_max() {
                // The epoch is about to end: its content belongs to it.
                if let Some((start, held)) = run.take() {
                    self.write_content(start, held, out);
                }
            }
            self.changed(now);
            if self.single && !self.filling.changes.is_empty() {
                self.seal(Cause::Strong);
            }
        }
        if let Some((start, held)) = run {
            self.write_content(start, held, out);
        }
    }

    fn write_content(&mut self, first: u64, data: Slice, out: &mut Vec<Action>) {
        self.filling.content_left += 1;
        let io = self.in_flight.issue(Purpose::Content { epoch: self.filling.number, first, blocks: data.blocks() });
        let at = Blocks(self.tables.limits.data_first + first).bytes();
        out.push(Action::Write { io, at, data: vec![data], class: Class::Data, fua: false });
    }

    /// Notes that an entry may have changed: the epoch has begun, and may be full.
    fn changed(&mut self, now: Time) {
        if self.filling.changes.is_empty() {
            return;
        }
        self.filling.since.get_or_insert(now);
        if self.filling.changes.len() >= self.scheme.changes_max() {
            self.seal(Cause::Pressure);
        }
    }

    /// Answers the request when everything so far is durable.
    fn wait(&mut self, request: RequestId, cause: Cause, out: &mut Vec<Action>) {
        if !self.filling.changes.is_empty() {
            self.filling.wanted.get_or_insert(cause);
            self.filling.waiters.push(request);
        } else if let Some(last) = self.sealed.back_mut().or(self.committing.as_mut()) {
            last.waiters.push(request);
        } else {
            out.push(Action::Reply { request, reply: Reply::Done });
        }
    }

    fn read(&mut self, request: RequestId, first: u64, blocks: u64, out: &mut Vec<Action>) {
        let (tables, writing) = (&self.tables, &self.writing);
        let pieces = (first..first + blocks).map(|lbn| match tables.at(lbn) {
            None => Piece::Zero,
            Some(pbn) => writing.get(&pbn).map_or(Piece::At(pbn), |held| Piece::Held(held.clone())),
        });
        match self.reads.begin(request, pieces) {
            Ok(reply) => out.push(Action::Reply { request, reply }),
            Err(runs) => {
                for run in runs {
                    (run.first..run.first + run.blocks as u64).for_each(|pbn| *self.pins.entry(pbn).or_default() += 1);
                    let purpose = Purpose::Read { request, segment: run.segment, first: run.first, blocks: run.blocks };
                    out.push(Action::Read {
                        io: self.in_flight.issue(purpose),
                        at: Blocks(self.tables.limits.data_first + run.first).bytes(),
                        buffer: BufferMut::zeroed(run.blocks),
                        digest: false,
                        is_idle: false,
                        class: Class::Data,
                    });
                }
            }
        }
    }

    pub(super) fn unpin(&mut self, first: u64, blocks: usize) {
        for pbn in first..first + blocks as u64 {
            let pins = self.pins.get_mut(&pbn).expect("a read pins its blocks");
            *pins -= 1;
            if *pins == 0 {
                self.pins.remove(&pbn);
            }
        }
    }
}
