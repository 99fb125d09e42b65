//! One connection's replies, from the arrival of its requests until the client has their answers.
//!
//! 1. The thread that completes a request only appends to the queue: none of its system calls waits for the client.
//! 2. One thread at a time sends: the connection's writer, or a thread that answered several requests at once (then without waiting; the
//!    writer sends what the client does not take at once). The sending thread takes all that is queued.
//! 3. The cost of a request counts from its arrival until its reply has left, so that a client that does not read its replies is no longer
//!    served.
//! 4. A broken connection drops its replies; its requests in flight run to their end.

use super::protocol::ErrorNumber;
use super::replies::Replies;
use super::socket::{Socket, Wait};
use super::transmission::Ticket;
use crate::target::{Answers, put_off};
use onefold_engine::interface::Reply;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The largest size of replies that a thread which answers sends by itself; beyond that the writer sends them, in parallel.
const SENT_AT_ONCE_MAX: usize = 64 << 10;

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
    /// An empty table of replies, with its memory.
    spare: Replies,
    /// A send that the client did not take at once.
    interrupted: Option<Replies>,
    /// The number of requests that were taken and are not yet answered.
    unanswered: u64,
    /// The cost of the requests whose replies have not left.
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

    /// Returns the cost that may still be taken before the reader has to wait.
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

    /// Waits until every request that was taken has been answered, or the connection is broken.
    pub fn wait_until_answered(&self) {
        let mut state = self.lock();
        while !state.broken && state.unanswered > 0 {
            state.reader_sleeps = true;
            state = self.room.wait(state).expect("no holder panics");
            state.reader_sleeps = false;
        }
    }

    /// Answers a request that was taken, or a piece of one; notes whether it succeeded. Never waits for the client.
    pub fn answer(self: &Arc<Self>, ticket: &Ticket, cost: u64, reply: Reply) -> bool {
        let mut well = true;
        self.append(cost, |queue| well = ticket.answer(reply, queue));
        well
    }

    /// Notes that a piece of a request is done, while others will bring the answer.
    pub fn settle(&self, cost: u64) {
        let mut state = self.lock();
        state.unanswered -= 1;
        state.in_flight -= cost;
        if state.reader_sleeps {
            self.room.notify_one();
        }
        // The writer of a broken connection waits for the last one.
        if state.ended {
            self.wake_writer(state);
        }
    }

    /// Refuses a request that was taken.
    pub fn refuse(self: &Arc<Self>, ticket: &Ticket, cost: u64, error: ErrorNumber) {
        self.append(cost, |queue| ticket.refuse(error, queue));
    }

    fn append(self: &Arc<Self>, cost: u64, encode: impl FnOnce(&mut Replies)) {
        let mut state = self.lock();
        state.unanswered -= 1;
        if state.broken {
            state.in_flight -= cost;
        } else {
            encode(&mut state.queue);
            state.queue.charge(cost);
        }
        // The sending thread looks at the queue again afterwards.
        if !state.sending && (state.queue.bytes() > SENT_AT_ONCE_MAX || !put_off(self)) {
            self.wake_writer(state);
        }
    }

    /// Notes that no more requests will come: the writer ends when the last reply has left.
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
        // This comes before the lock: it gives the data's memory back to its pool.
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

impl Answers for Outbox {
    fn send(&self) {
        let mut state = self.lock();
        if state.sending || state.queue.is_empty() {
            return;
        }
        state.sending = true;
        let mut replies = std::mem::take(&mut state.spare);
        std::mem::swap(&mut state.queue, &mut replies);
        drop(state);
        match replies.send(&self.socket, Wait::No) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                let mut state = self.lock();
                state.interrupted = Some(replies);
                self.wake_writer(state);
            }
            result => {
                let mut state = self.sent(&mut replies, result.is_ok());
                state.spare = replies;
                // The writer ends when nobody sends and no answer is left to come: it has to check.
                if state.ended || !state.queue.is_empty() {
                    self.wake_writer(state);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::negotiate::Agreement;
    use super::super::protocol::{Command, RequestHead};
    use super::*;
    use crate::target::together;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn the_writer_ends_when_another_thread_has_sent_the_last_reply() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = Arc::new(Socket::new(OwnedFd::from(ours), Duration::from_secs(5)).unwrap());
        let outbox = Arc::new(Outbox::new(socket, 1 << 20));
        let head = RequestHead { flags: 0, command: Command::Flush, cookie: 7, offset: 0, length: 0 };
        outbox.take(1, 64);
        let (tell, hear) = channel();
        let writer = outbox.clone();
        std::thread::spawn(move || {
            writer.write_all();
            tell.send(()).unwrap();
        });
        while !outbox.lock().writer_sleeps {
            std::thread::yield_now();
        }
        outbox.end();
        while !outbox.lock().writer_sleeps {
            std::thread::yield_now();
        }
        together(|| {
            outbox.answer(&Ticket::new(&head, Agreement::default()), 64, Reply::Done);
        });
        hear.recv_timeout(Duration::from_secs(5)).expect("the writer ends");
        let mut reply = [0; 16];
        theirs.read_exact(&mut reply).unwrap();
        assert_eq!(reply[8..], 7u64.to_be_bytes());
    }
}
