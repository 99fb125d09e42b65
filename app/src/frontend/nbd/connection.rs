//! One client's connection: it reads many requests at once and hands them to the target in batches.
//!
//! 1. The requests of one receive are submitted as one batch. While the connection waits (for the client, for memory, for room among the
//!    requests in flight) it holds no unsubmitted request.
//! 2. A write's bytes go to the target's memory: copied from the inbox where they are there, otherwise received straight into it.
//! 3. Nothing that a client sends, or leaves out, touches another connection.

use super::inbox::Inbox;
use super::negotiate::{Agreement, Export};
use super::outbox::Outbox;
use super::protocol::{ErrorNumber, Malformed, REQUEST_BYTES, RequestHead};
use super::socket::Socket;
use super::transmission::{Decision, Ticket, judge};
use crate::target::{Incoming, SharedTarget, together};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Failure, Op};
use onefold_engine::units::{BLOCK_BYTES, count, index};
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The size above which a payload that has not wholly come is received straight into the target's memory.
pub const DIRECT_MIN: usize = 16 << 10;
/// The slowest that a client may send a message that it has begun, in bytes a second, after the time limit that every receive has.
const SPEED_MIN: u64 = 64 << 10;

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    #[error("the client left")]
    Left,
    #[error("the server stops")]
    Stopped,
    #[error("the client left in the middle of a message")]
    CutShort,
    #[error("the client stopped in the middle of a message")]
    Stalled,
    #[error("the client sent {0}")]
    Malformed(#[from] Malformed),
    #[error("the client sent a write of {0} bytes")]
    TooLong(u32),
    #[error("a read failed whose reply had begun")]
    BrokenReply,
    #[error("the connection is lost: {0}")]
    Lost(#[from] io::Error),
}

impl End {
    /// Whether bytes may still be arriving that nobody will read.
    #[must_use]
    pub fn leaves_bytes(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::TooLong(_) | Self::Stopped)
    }
}

/// The parts of a connection.
pub struct Connection {
    pub socket: Arc<Socket>,
    pub outbox: Arc<Outbox>,
    pub target: SharedTarget,
    pub export: Arc<Export>,
    pub agreement: Agreement,
    /// The server is stopping: the connection finishes the requests that have come, and ends.
    pub stopping: Arc<AtomicBool>,
    /// The time that the client may pause within a message.
    pub stall: Duration,
}

/// The reading half of a connection.
pub struct Reader {
    pub(super) connection: Connection,
    inbox: Inbox,
    batch: Vec<Incoming>,
    batch_cost: u64,
    /// The cost of requests that may still be taken before the next look at the outbox; the batch is already subtracted.
    room: u64,
    /// The number of bytes of refused payload that are still to be thrown away.
    skip: usize,
    /// The answer to a refused request once its payload is gone: some clients take no answer while they are still sending.
    refusal: Option<(RequestHead, u64, ErrorNumber)>,
    /// The time when the client last finished a message.
    progress: Instant,
}

impl Reader {
    #[must_use]
    pub fn new(connection: Connection, receive_bytes: usize) -> Self {
        Self {
            connection,
            inbox: Inbox::new(receive_bytes.max(2 * (DIRECT_MIN + REQUEST_BYTES))),
            batch: Vec::new(),
            batch_cost: 0,
            room: 0,
            skip: 0,
            refusal: None,
            progress: Instant::now(),
        }
    }

    /// Serves until the end.
    pub fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.receive() {
                return end;
            }
            self.room = self.connection.outbox.room();
            let taken = self.take_requests();
            self.submit();
            if let Err(end) = taken {
                return end;
            }
        }
    }

    fn receive(&mut self) -> Result<(), End> {
        loop {
            if self.connection.stopping.load(Ordering::Relaxed) {
                return Err(End::Stopped);
            }
            let within = self.skip > 0 || !self.inbox.is_empty();
            if within && self.progress.elapsed() > self.connection.stall * 2 {
                return Err(End::Stalled);
            }
            match self.connection.socket.receive(&mut [IoSliceMut::new(self.inbox.vacant())]) {
                Ok(0) if within => return Err(End::CutShort),
                Ok(0) => return Err(End::Left),
                Ok(bytes) => {
                    self.inbox.filled(bytes);
                    if !within {
                        self.progress = Instant::now();
                    }
                    return Ok(());
                }
                // A client that asks for nothing may stay as long as it likes.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && !within => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(End::Stalled),
                Err(e) => return Err(End::Lost(e)),
            }
        }
    }

    /// Takes every request that is whole in the inbox.
    fn take_requests(&mut self) -> Result<(), End> {
        loop {
            self.skip -= self.inbox.discard(self.skip);
            if self.skip == 0 {
                if let Some((head, cost, error)) = self.refusal.take() {
                    self.refuse(&head, cost, error);
                }
            }
            let Some(bytes) = self.inbox.peek::<REQUEST_BYTES>() else { return Ok(()) };
            let head = RequestHead::parse(bytes)?;
            let decision = judge(&head, &self.connection.export, self.connection.agreement);
            let payload = if let Decision::Serve { op: Op::Write, .. } = decision { index(u64::from(head.length)) } else { 0 };
            if payload > 0 && payload <= DIRECT_MIN && self.inbox.len() < REQUEST_BYTES + payload {
                return Ok(());
            }
            self.inbox.discard(REQUEST_BYTES);
            self.progress = Instant::now();
            self.take(&head, decision)?;
        }
    }

    fn take(&mut self, head: &RequestHead, decision: Decision) -> Result<(), End> {
        let is_long = head.length > self.connection.export.piece_max;
        let cost = match decision {
            Decision::Disconnect => return Err(End::Left),
            Decision::Serve { op: Op::Write, fua } if is_long => return self.write_in_pieces(head, fua),
            Decision::Serve { op: Op::Read, .. } if is_long => return self.read_in_pieces(head),
            Decision::Serve { op: Op::Read | Op::Write, .. } => Ticket::cost(head.length),
            _ => Ticket::cost(0),
        };
        self.make_room(cost);
        match decision {
            Decision::Disconnect => Err(End::Left),
            Decision::Close { error } => {
                self.refuse(head, cost, error);
                Err(End::TooLong(head.length))
            }
            Decision::Refuse { error, payload } => {
                self.refuse_later(head, error, index(u64::from(payload)));
                Ok(())
            }
            Decision::Serve { op, fua } => {
                let mut buffer = None;
                if op == Op::Write {
                    match self.buffer(head.offset, head.length) {
                        Ok(empty) => self.payload(head.offset, head.length, buffer.insert(empty))?,
                        Err(failure) => {
                            self.refuse_later(head, failure.into(), index(u64::from(head.length)));
                            return Ok(());
                        }
                    }
                }
                let ticket = Ticket::new(head, self.connection.agreement);
                let outbox = Arc::clone(&self.connection.outbox);
                let done = Box::new(move |reply| {
                    outbox.answer(&ticket, cost, reply);
                });
                let (offset, length) = (head.offset, u64::from(head.length));
                self.admit(cost, Incoming { op, offset, length, buffer, fua, done });
                Ok(())
            }
        }
    }

    /// Waits until a request of this cost may be taken.
    pub(super) fn make_room(&mut self, cost: u64) {
        if self.room < cost {
            self.submit();
            self.room = self.connection.outbox.wait_for_room(cost);
        }
    }

    /// Updates the room that is left. No request may be waiting to be submitted.
    pub(super) fn look_for_room(&mut self) {
        self.room = self.connection.outbox.room();
    }

    /// Answers with `error` once the `payload` bytes that follow have been thrown away.
    pub(super) fn refuse_later(&mut self, head: &RequestHead, error: ErrorNumber, payload: usize) {
        self.refusal = Some((*head, Ticket::cost(0), error));
        self.skip = payload;
    }

    /// Returns memory for `length` bytes that are to be written at `offset`.
    pub(super) fn buffer(&mut self, offset: u64, length: u32) -> Result<BufferMut, Failure> {
        let blocks = index((offset % BLOCK_BYTES + u64::from(length)).div_ceil(BLOCK_BYTES));
        if let Some(buffer) = self.connection.target.try_buffer(blocks) {
            return Ok(buffer);
        }
        self.submit();
        self.connection.target.buffer(blocks)
    }

    /// Moves the next `length` bytes of a write, which go to `offset`, into `buffer`, and receives those that have not come.
    pub(super) fn payload(&mut self, offset: u64, length: u32, buffer: &mut BufferMut) -> Result<(), End> {
        let (start, length) = (index(offset % BLOCK_BYTES), index(u64::from(length)));
        let mut missing = &mut buffer.bytes_mut()[start..start + length];
        let here = self.inbox.copy(missing);
        missing = &mut missing[here..];
        if missing.is_empty() {
            return Ok(());
        }
        self.submit();
        let limit = self.connection.stall + Duration::from_secs(count(length) / SPEED_MIN);
        while !missing.is_empty() {
            // The bytes after the payload arrive in the inbox, which is empty now: after a large one only the next request's head, since
            // its payload, likely as large, is to go to the target's memory without passing through here.
            let wanted = missing.len();
            let mut behind = self.inbox.vacant();
            if length > DIRECT_MIN {
                behind = &mut behind[..REQUEST_BYTES];
            }
            let received = match self.connection.socket.receive(&mut [IoSliceMut::new(&mut *missing), IoSliceMut::new(behind)]) {
                Ok(0) => return Err(End::CutShort),
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(End::Stalled),
                Err(e) => return Err(End::Lost(e)),
            };
            if self.progress.elapsed() > limit {
                return Err(End::Stalled);
            }
            self.inbox.filled(received.saturating_sub(wanted));
            missing = &mut missing[received.min(wanted)..];
        }
        self.progress = Instant::now();
        Ok(())
    }

    /// Adds a request, or a piece of one, to the batch.
    pub(super) fn admit(&mut self, cost: u64, request: Incoming) {
        debug_assert!(request.buffer.is_some() == (request.op == Op::Write));
        self.room = self.room.saturating_sub(cost);
        self.batch_cost += cost;
        self.batch.push(request);
    }

    fn refuse(&mut self, head: &RequestHead, cost: u64, error: ErrorNumber) {
        self.room = self.room.saturating_sub(cost);
        self.connection.outbox.take(1, cost);
        self.connection.outbox.refuse(&Ticket::new(head, self.connection.agreement), cost, error);
    }

    pub(super) fn submit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let Connection { outbox, target, .. } = &self.connection;
        outbox.take(count(self.batch.len()), self.batch_cost);
        self.batch_cost = 0;
        together(|| target.submit(&mut self.batch));
        self.batch.clear();
    }
}
