//! One connection's replies, from the moment that its requests are taken until the client has their answers.
//!
//! 1. Whoever completes a request only appends to the queue: no system call of theirs waits for the client.
//! 2. One thread at a time sends: the connection's writer, or its reader right after a batch (then without waiting; what the client does not
//!    take at once is left to the writer). Whoever sends takes all that is queued.
//! 3. What a request costs counts from its arrival until its reply has left, so that a client that does not read its replies stops being served.
//! 4. A connection that broke swallows its replies; its requests in flight run to their end.

use super::protocol::ErrorNumber;
use super::replies::Replies;
use super::socket::{Socket, Wait};
use super::transmission::Ticket;
use onefold_engine::interface::Reply;
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

thread_local! {
    /// The outbox whose reader is submitting a batch on this thread. It sends what the batch left in the queue when it comes back.
    static SUBMITTING: Cell<*const Outbox> = const { Cell::new(std::ptr::null()) };
}

/// Memory of replies that may wait for the reader's return, in bytes; beyond that the writer is woken.
const CORKED_MAX: u64 = 1 << 20;

pub struct Outbox {
    socket: Arc<Socket>,
    in_flight_max: u64,
    state: Mutex<State>,
    /// The writer waits here.
    work: Condvar,
    /// The reader waits here.
    room: Condvar,
}

#[derive(Default)]
struct State {
    queue: Replies,
    /// A reader's send that the client did not take at once.
    interrupted: Option<Replies>,
    /// Requests taken and not yet answered.
    unanswered: u64,
    /// What the requests taken cost whose replies have not left.
    in_flight: u64,
    sending: bool,
    writer_sleeps: bool,
    reader_sleeps: bool,
    /// No more requests will come.
    ended: bool,
    broken: bool,
}

impl Outbox {
    #[must_use]
    pub fn new(socket: Arc<Socket>, in_flight_max: u64) -> Self {
        Self { socket, in_flight_max, state: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
    }

    /// How much more may be taken before the reader has to wait.
    pub fn room(&self) -> u64 {
        self.in_flight_max.saturating_sub(self.lock().in_flight)
    }

    /// Waits until a request of this cost may be taken: it fits, or nothing else is in flight. Returns the room then left, itself included.
    pub fn wait_for_room(&self, cost: u64) -> u64 {
        let mut state = self.lock();
        while !state.broken && state.in_flight > 0 && state.in_flight + cost > self.in_flight_max {
            state.reader_sleeps = true;
            state = self.room.wait(state).expect("no holder panics");
            state.reader_sleeps = false;
        }
        self.in_flight_max.saturating_sub(state.in_flight).max(cost)
    }

    /// Takes requests: each will be answered once.
    pub fn take(&self, requests: u64, cost: u64) {
        let mut state = self.lock();
        state.unanswered += requests;
        state.in_flight += cost;
    }

    /// Answers a request that was taken. Never waits for the client.
    pub fn answer(&self, ticket: &Ticket, cost: u64, reply: Reply) {
        self.append(cost, |queue| ticket.answer(reply, queue));
    }

    /// Refuses a request that was taken.
    pub fn refuse(&self, ticket: &Ticket, cost: u64, error: ErrorNumber) {
        self.append(cost, |queue| ticket.refuse(error, queue));
    }

    fn append(&self, cost: u64, encode: impl FnOnce(&mut Replies)) {
        let mut state = self.lock();
        state.unanswered -= 1;
        if state.broken {
            state.in_flight -= cost;
        } else {
            encode(&mut state.queue);
            state.queue.charge(cost);
        }
        let corked = SUBMITTING.get() == std::ptr::from_ref(self) && state.queue.cost() < CORKED_MAX;
        // Whoever sends looks at the queue again afterwards.
        if !corked && !state.sending {
            self.wake_writer(state);
        }
    }

    /// Runs `submit` with the promise that the replies to what it completes on this thread go out together, right after it.
    pub fn together(&self, spare: &mut Replies, submit: impl FnOnce()) {
        SUBMITTING.set(self);
        submit();
        SUBMITTING.set(std::ptr::null());
        self.send_now(spare);
    }

    fn send_now(&self, spare: &mut Replies) {
        let mut state = self.lock();
        if state.sending || state.queue.is_empty() {
            return;
        }
        state.sending = true;
        std::mem::swap(&mut state.queue, spare);
        drop(state);
        match spare.send(&self.socket, Wait::No) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                let mut state = self.lock();
                state.interrupted = Some(std::mem::take(spare));
                self.wake_writer(state);
            }
            result => {
                let state = self.sent(spare, result.is_ok());
                if !state.queue.is_empty() {
                    self.wake_writer(state);
                }
            }
        }
    }

    /// Says that no more requests will come: the writer ends when the last reply has left.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.wake_writer(state);
    }

    /// Sends replies until the end, or until the client is gone and all its requests have been answered.
    pub fn write_all(&self) {
        let mut replies = Replies::default();
        let mut state = self.lock();
        loop {
            if let Some(interrupted) = state.interrupted.take() {
                replies = interrupted;
            } else if !state.sending && !state.queue.is_empty() {
                state.sending = true;
                std::mem::swap(&mut state.queue, &mut replies);
            } else if state.ended && state.unanswered == 0 && !state.sending {
                return;
            } else {
                state.writer_sleeps = true;
                state = self.work.wait(state).expect("no holder panics");
                state.writer_sleeps = false;
                continue;
            }
            drop(state);
            let result = replies.send(&self.socket, Wait::Yes);
            state = self.sent(&mut replies, result.is_ok());
        }
    }

    fn sent(&self, replies: &mut Replies, well: bool) -> MutexGuard<'_, State> {
        let cost = replies.cost();
        // Before the lock: this gives the data's memory back to its pool.
        replies.clear();
        let mut state = self.lock();
        state.sending = false;
        state.in_flight -= cost;
        if !well && !state.broken {
            state.broken = true;
            state.in_flight -= state.queue.cost();
            state.queue.clear();
            self.socket.shut();
        }
        if state.reader_sleeps {
            self.room.notify_one();
        }
        state
    }

    fn wake_writer(&self, mut state: MutexGuard<'_, State>) {
        if state.writer_sleeps {
            state.writer_sleeps = false;
            drop(state);
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}
