//! A server thread: it takes requests from the kernel, batches them, and hands them to the target.
//!
//! 1. A write's payload is received in its final place: whole blocks of [`Target::buffer`](crate::target::Target::buffer), aligned, without
//!    a copy, when it is one block or as large as the last larger one was. Any other write costs one copy, into a buffer of just its size.
//! 2. The thread waits for memory only while it holds no request that it has not submitted, since the memory may depend on those. Memory
//!    that is only kept ready is asked for without waiting.
//! 3. Memory that the kernel writes to is present before the kernel is asked. A page fault in a thread that is being killed would make the
//!    kernel fail the request with EIO, where it could have kept it for the next server.

use super::answer::{Answer, InHand, errno};
use super::channel::{Channel, Received};
use super::files::{self, Clearing, Todo};
use super::wire::{self, HEAD_BYTES, replies};
use crate::target::{Incoming, SharedTarget, TargetInfo};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Failure, Op, Reply, Segment};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, SECTOR_BYTES, count, index};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest number of requests that are submitted together: enough for fingerprints in batches of 16.
const BATCH_MAX: usize = 16;

/// The tools of one server thread.
pub struct Receiver {
    target: SharedTarget,
    info: TargetInfo,
    disk_name: Arc<str>,
    in_hand: Arc<InHand>,
    /// The channel that waits for a request.
    waiting: Arc<Channel>,
    /// The channel that takes further requests without waiting.
    draining: Arc<Channel>,
    head: [u8; HEAD_BYTES],
    /// Buffers of one block, completed before each wait.
    singles: Vec<BufferMut>,
    /// A buffer as large as the last write of several blocks.
    guess: Option<BufferMut>,
    guess_blocks: usize,
    /// A request of this batch took the guess.
    guess_gone: bool,
    /// Takes the part of a payload that neither of them takes: byte k of a payload is received at byte k of it, where it is received here
    /// at all.
    spill: BufferMut,
    request_bytes: usize,
    batch: Vec<Incoming>,
}

/// The reason why a server thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody uses the file system any more.
    Over,
    /// The kernel refuses to give requests, or the target refuses memory for them.
    Broken,
}

impl Receiver {
    /// Returns a server thread's tools: `waiting` waits for requests, `draining` does not. `disk_name`: see [`files::disk_name`].
    /// `request_bytes`: the largest write that the session agreed to.
    pub fn new(
        target: SharedTarget,
        in_hand: Arc<InHand>,
        disk_name: Arc<str>,
        request_bytes: usize,
        [waiting, draining]: [Arc<Channel>; 2],
    ) -> Self {
        let info = target.info();
        Self {
            target,
            info,
            disk_name,
            in_hand,
            waiting,
            draining,
            head: [0; HEAD_BYTES],
            singles: Vec::new(),
            guess: None,
            guess_blocks: 0,
            guess_gone: false,
            spill: present(BufferMut::zeroed(request_bytes / BLOCK_SIZE)),
            request_bytes,
            batch: Vec::new(),
        }
    }

    /// Serves until the session is over.
    pub fn run(mut self) -> End {
        loop {
            if self.refill().is_err() {
                return End::Broken;
            }
            let mut channel = Arc::clone(&self.waiting);
            while self.has_room() {
                match self.receive(&channel) {
                    Ok(Received::Request(bytes)) => self.take(&channel, bytes),
                    Ok(Received::Nothing) => break,
                    Ok(Received::Over) => {
                        self.submit();
                        return End::Over;
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot receive requests");
                        self.submit();
                        return End::Broken;
                    }
                }
                channel = Arc::clone(&self.draining);
            }
            self.submit();
        }
    }

    fn submit(&mut self) {
        if !self.batch.is_empty() {
            self.target.submit(&mut self.batch);
            self.batch.clear();
        }
    }

    /// Whether one more request can be received without a copy that more memory would avoid.
    fn has_room(&self) -> bool {
        self.batch.len() < BATCH_MAX && !self.singles.is_empty() && !self.guess_gone
    }

    fn request_blocks_max(&self) -> usize {
        index((self.info.request_bytes_max / BLOCK_BYTES).clamp(1, count(self.request_bytes / BLOCK_SIZE)))
    }

    /// Takes from the target what the next batch needs. The thread holds no unsubmitted request now, so it may wait; idle memory must leave
    /// room for others' requests, so it waits for one block only.
    fn refill(&mut self) -> Result<(), Failure> {
        debug_assert!(self.batch.is_empty(), "waiting for memory with {} requests in hand", self.batch.len());
        if self.singles.is_empty() {
            self.singles.push(present(self.target.buffer(1)?));
        }
        while self.singles.len() < BATCH_MAX.min(self.request_blocks_max().div_ceil(4)) {
            let Some(buffer) = self.target.try_buffer(1) else { break };
            self.singles.push(present(buffer));
        }
        self.guess_gone = false;
        if self.guess.as_ref().map_or(0, BufferMut::blocks) != self.guess_blocks {
            self.guess = None;
            if self.guess_blocks > 0 {
                self.guess = self.target.try_buffer(self.guess_blocks).map(present);
            }
        }
        Ok(())
    }

    /// Receives a request: its head, then its payload's first block into a buffer of one block, its next blocks into the guess, the rest
    /// into `spill`.
    fn receive(&mut self, channel: &Channel) -> Result<Received, Errno> {
        let single = self.singles.last_mut().expect("has_room").bytes_mut();
        let guessed: &mut [u8] = self.guess.as_mut().map_or(&mut [], |guess| &mut guess.bytes_mut()[BLOCK_SIZE..]);
        let spilled = &mut self.spill.bytes_mut()[BLOCK_SIZE + guessed.len()..];
        channel.receive(&mut [IoSliceMut::new(&mut self.head), IoSliceMut::new(single), IoSliceMut::new(guessed), IoSliceMut::new(spilled)])
    }

    /// Takes in hand the request that was just received through `channel`.
    fn take(&mut self, channel: &Arc<Channel>, received: usize) {
        let head = self.head;
        let request = match wire::parse(&head, received) {
            Ok(request) => request,
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    self.in_hand.take(Arc::clone(channel), unique).into_iter().for_each(|answer| answer.refuse(Errno::INVAL));
                }
                return;
            }
        };
        let todo = files::decide(&request, &self.info, &self.disk_name);
        if todo == Todo::Nothing {
            return;
        }
        let Some(answer) = self.in_hand.take(Arc::clone(channel), request.header.unique) else { return };
        match todo {
            Todo::Nothing => unreachable!("returned above"),
            Todo::Answer(bytes) => answer.done(&bytes),
            Todo::Refuse(error) => answer.refuse(error),
            Todo::Read { offset, bytes } => self.read(answer, offset, bytes),
            Todo::Write { offset, bytes, fua } => self.write(answer, offset, index(bytes), fua),
            Todo::Flush => self.push(Op::Flush, 0, 0, None, false, Box::new(|reply| finish(answer, reply, &[]))),
            Todo::Clear(pieces) => self.clear(answer, &pieces),
        }
    }

    fn push(&mut self, op: Op, offset: u64, length: u64, buffer: Option<BufferMut>, fua: bool, done: Box<dyn FnOnce(Reply) + Send>) {
        self.batch.push(Incoming { op, offset, length, buffer, fua, done });
    }

    fn clear(&mut self, answer: Answer, pieces: &[Clearing]) {
        let gather = Gather::new(answer, pieces.len());
        for (part, piece) in pieces.iter().enumerate() {
            let gather = Arc::clone(&gather);
            self.push(
                piece.op,
                piece.offset,
                piece.bytes,
                None,
                false,
                Box::new(move |reply| gather.part(part, reply, |answer, _| answer.done(&[]))),
            );
        }
    }

    /// Reads whole sectors and cuts out the requested bytes, in parts where the target takes no request that large.
    fn read(&mut self, answer: Answer, offset: u64, bytes: u64) {
        let (from, end) = (offset - offset % SECTOR_BYTES, (offset + bytes).next_multiple_of(SECTOR_BYTES));
        let skip = offset - from;
        let part_bytes = count(self.request_blocks_max()) * BLOCK_BYTES;
        if end - from <= part_bytes {
            let cut = skip != 0 || end - from != bytes;
            let done = move |reply| match reply {
                Reply::Data(segments) if cut => answer.data(&cut_out(segments, skip, bytes)),
                reply => finish(answer, reply, &[]),
            };
            return self.push(Op::Read, from, end - from, None, false, Box::new(done));
        }
        let ranges = split(from, end, part_bytes);
        let gather = Gather::new(answer, ranges.len());
        for (part, (at, length)) in ranges.into_iter().enumerate() {
            let gather = Arc::clone(&gather);
            let done = move |reply| gather.part(part, reply, |answer, segments| answer.data(&cut_out(segments, skip, bytes)));
            self.push(Op::Read, at, length, None, false, Box::new(done));
        }
    }

    /// Passes on a write whose payload was just received.
    fn write(&mut self, answer: Answer, offset: u64, bytes: usize, fua: bool) {
        let whole = offset % BLOCK_BYTES == 0 && bytes % BLOCK_SIZE == 0;
        let blocks = bytes / BLOCK_SIZE;
        let taken = match &mut self.guess {
            _ if whole && blocks == 1 => self.singles.pop(),
            Some(guess) if whole && guess.blocks() == blocks => {
                guess.bytes_mut()[..BLOCK_SIZE].copy_from_slice(self.singles.last().expect("has_room").bytes());
                self.guess_gone = true;
                self.guess.take()
            }
            _ => None,
        };
        let written = replies::write_out(u32::try_from(bytes).expect("a write is at most 1 MiB"));
        if let Some(buffer) = taken {
            let done = move |reply| finish(answer, reply, &written);
            return self.push(Op::Write, offset, count(bytes), Some(buffer), fua, Box::new(done));
        }
        self.write_copied(answer, offset, bytes, fua, written);
        if whole && blocks > 1 && blocks <= self.request_blocks_max() {
            self.guess_blocks = blocks;
        }
    }

    /// Passes on a write that was received in pieces: copies it into buffers of the right size, in parts where the target takes no request
    /// that large.
    fn write_copied(&mut self, answer: Answer, offset: u64, bytes: usize, fua: bool, written: [u8; 8]) {
        // In a block-aligned part, a part of the largest size has no unused bytes.
        let part_bytes = count(self.request_blocks_max()) * BLOCK_BYTES;
        let lead = offset % BLOCK_BYTES;
        let ranges: Vec<_> = split(offset - lead, offset + count(bytes), part_bytes);
        let gather = Gather::new(answer, ranges.len());
        for (part, (at, length)) in ranges.into_iter().enumerate() {
            let unused = if part == 0 { lead } else { 0 };
            let (first, length) = (at + unused, length - unused);
            // The last parts may have to wait for memory that the first ones hold.
            self.submit();
            let Ok(mut buffer) = self.target.buffer(index((unused + length).div_ceil(BLOCK_BYTES))) else {
                for left in part..gather.parts() {
                    gather.part(left, Reply::Failed(Failure::Io), |_, _| {});
                }
                return;
            };
            let unused = index(unused);
            self.copy_payload(index(first - offset), &mut buffer.bytes_mut()[unused..unused + index(length)]);
            let gather = Arc::clone(&gather);
            let done = move |reply| gather.part(part, reply, |answer, _| answer.done(&written));
            self.push(Op::Write, first, length, Some(buffer), fua, Box::new(done));
        }
    }

    /// Copies the payload from byte `from` on to its final place.
    fn copy_payload(&self, mut from: usize, mut to: &mut [u8]) {
        let single = self.singles.last().expect("it was received there").bytes();
        let guess = self.guess.as_ref().map_or(&[][..], BufferMut::bytes);
        let spill = self.spill.bytes();
        while !to.is_empty() {
            let source = match from {
                f if f < BLOCK_SIZE => &single[f..],
                f if f < guess.len() => &guess[f..],
                f => &spill[f..],
            };
            let n = source.len().min(to.len());
            let (now, later) = to.split_at_mut(n);
            now.copy_from_slice(&source[..n]);
            (from, to) = (from + n, later);
        }
    }
}

/// Makes every page of a buffer present: see invariant 3.
fn present(mut buffer: BufferMut) -> BufferMut {
    for i in 0..buffer.blocks() {
        buffer.block_mut(i)[0] = 0;
    }
    buffer
}

/// Answers a request that went to the target in one part.
fn finish(answer: Answer, reply: Reply, payload: &[u8]) {
    match reply {
        Reply::Done => answer.done(payload),
        Reply::Data(segments) => answer.data(&segments),
        // FUSE asks for none.
        Reply::Extents(_) => fail(answer, Failure::Io),
        Reply::Failed(failure) => fail(answer, failure),
    }
}

/// Answers a request that failed, or sends it back where it is to be tried again.
fn fail(answer: Answer, failure: Failure) {
    if failure == Failure::Full { answer.send_back() } else { answer.refuse(errno(failure)) }
}

/// Splits the range from `from` to `end` into parts of `part_bytes`: the beginning of each, and its length.
fn split(from: u64, end: u64, part_bytes: u64) -> Vec<(u64, u64)> {
    (from..end).step_by(index(part_bytes)).map(|at| (at, part_bytes.min(end - at))).collect()
}

/// Returns `bytes` of the segments' bytes, from `skip` on.
fn cut_out(segments: Vec<Segment>, mut skip: u64, mut bytes: u64) -> Vec<Segment> {
    let mut kept = Vec::with_capacity(segments.len());
    for segment in segments {
        let has = match segment {
            Segment::Zeroes { bytes } => bytes,
            Segment::Data { bytes, .. } => count(bytes),
        };
        let from = skip.min(has);
        let keep = bytes.min(has - from);
        (skip, bytes) = (skip - from, bytes - keep);
        match segment {
            _ if keep == 0 => {}
            Segment::Zeroes { .. } => kept.push(Segment::Zeroes { bytes: keep }),
            Segment::Data { slice, start, .. } => kept.push(Segment::Data { slice, start: start + index(from), bytes: index(keep) }),
        }
    }
    kept
}

/// A request that went to the target in several parts: it is answered when all of them are.
struct Gather(Mutex<Parts>);

struct Parts {
    answer: Option<Answer>,
    left: usize,
    failure: Option<Failure>,
    read: Vec<Vec<Segment>>,
}

impl Gather {
    fn new(answer: Answer, parts: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Parts { answer: Some(answer), left: parts, failure: None, read: vec![Vec::new(); parts] })))
    }

    fn parts(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read.len()
    }

    /// Notes the answer to part `part`; `success` answers the whole when it was the last and none has failed.
    fn part(&self, part: usize, reply: Reply, success: impl FnOnce(Answer, Vec<Segment>)) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            Reply::Done | Reply::Extents(_) => {}
            Reply::Data(segments) => parts.read[part] = segments,
            // A failed part is not retried because another part may be.
            Reply::Failed(Failure::Full) => parts.failure = parts.failure.or(Some(Failure::Full)),
            Reply::Failed(failure) => parts.failure = Some(failure),
        }
        parts.left -= 1;
        if parts.left > 0 {
            return;
        }
        let (answer, failure, read) = (parts.answer.take(), parts.failure, std::mem::take(&mut parts.read));
        drop(parts);
        match (answer, failure) {
            (Some(answer), None) => success(answer, read.into_iter().flatten().collect()),
            (Some(answer), Some(failure)) => fail(answer, failure),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
