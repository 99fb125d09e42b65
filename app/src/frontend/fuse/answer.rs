//! Requests that were taken from the kernel, and their answers.
//!
//! 1. An answer leaves through a channel that brought its request; the kernel looks for it nowhere else. A request that came more than once
//!    has one number in one channel for the kernel, and no thread knows which copy was the last: an answer is tried in each place until the
//!    kernel takes it.
//! 2. Each request is answered exactly once: an [`Answer`] that is dropped reports EIO. Or it is sent back: then the kernel has it, with
//!    its bytes, until it is asked to send again.
//! 3. A copy of a request in hand is not carried out beside the first, nor is a copy that a thread examines only after the other was
//!    answered: otherwise an answered write could be repeated over a later one.
//! 4. When a request is sent back whose copy was already dropped, it is asked for once more: the kernel believes that the copy is in hand.

use super::channel::{Channel, Sent};
use super::wire::{UNIQUE_RESEND, replies};
use onefold_engine::interface::{Failure, Segment};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The number of answered requests that are kept: more than there are copies between the kernel and a thread's next line.
const ANSWERED_MAX: usize = 4096;
/// The time after which a request is asked for once more, when it was sent back in vain.
const ASK_AFTER: Duration = Duration::from_millis(100);

/// The channel by which a request came, and its number there.
#[derive(Clone, Debug)]
struct ReplyAddress {
    channel: Arc<Channel>,
    unique: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The places of each request in hand, in the order in which they were seen.
    open: HashMap<u64, Vec<ReplyAddress>>,
    /// The newest requests that the kernel had sent again, and whose answer it took since.
    answered: BTreeSet<u64>,
    /// The channel of a request that was sent back after its copy had been dropped.
    lost: Weak<Channel>,
    /// The session is over.
    is_over: bool,
}

/// The requests that were taken through any channel of a session and not answered yet.
#[derive(Debug, Default)]
pub struct InHand {
    state: Mutex<State>,
    changed: Condvar,
}

impl InHand {
    /// Takes the duty to answer request `unique`, which came through `channel`; none where another thread has that duty, or had it.
    pub fn take(self: &Arc<Self>, channel: Arc<Channel>, unique: u64) -> Option<Answer> {
        let number = unique & !UNIQUE_RESEND;
        let mut state = self.state();
        if state.answered.contains(&number) {
            return None;
        }
        let places = state.open.entry(number).or_default();
        places.push(ReplyAddress { channel, unique });
        (places.len() == 1).then(|| Answer { in_hand: Arc::clone(self), number, is_owed: true })
    }

    /// Answers a request, in the one of its places where the kernel looks for it.
    fn answer(&self, number: u64, send: impl Fn(&Channel, u64) -> Sent) {
        for tried in 0.. {
            let mut state = self.state();
            let Some(place) = state.open.get(&number).and_then(|places| places.get(tried)).cloned() else {
                // Nobody waits for it any more, or it is sent again and no thread has examined it yet: then it comes as a new one.
                state.open.remove(&number);
                return;
            };
            drop(state);
            if send(&place.channel, place.unique) == Sent::Taken {
                let mut state = self.state();
                let was_sent_again = state.open.remove(&number).is_some_and(|places| places.len() > 1) || place.unique & UNIQUE_RESEND != 0;
                return state.note_answered(number, was_sent_again);
            }
        }
    }

    /// Leaves a request with the kernel.
    fn send_back(&self, number: u64) {
        let mut state = self.state();
        let places = state.open.remove(&number).unwrap_or_default();
        if let [_, .., last] = &places[..] {
            state.lost = Arc::downgrade(&last.channel);
            self.changed.notify_all();
        }
    }

    /// Has requests sent again that were sent back after their copies had been dropped. It waits between two calls, since each makes copies
    /// of all requests.
    pub fn ask_for_lost(&self) {
        loop {
            let is_idle = |state: &mut State| state.lost.strong_count() == 0 && !state.is_over;
            let state = self.changed.wait_while(self.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
            let (mut state, _) =
                self.changed.wait_timeout_while(state, ASK_AFTER, |state| !state.is_over).unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return;
            }
            let channel = std::mem::take(&mut state.lost).upgrade();
            drop(state);
            channel.into_iter().for_each(|channel| channel.ask_again());
        }
    }

    /// Ends the session: [`Self::ask_for_lost`] returns.
    pub fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note_answered(&mut self, number: u64, was_sent_again: bool) {
        if was_sent_again && self.answered.insert(number) && self.answered.len() > ANSWERED_MAX {
            // Numbers grow, so the first is the oldest.
            self.answered.pop_first();
        }
    }
}

/// The duty to answer one request.
#[derive(Debug)]
#[must_use]
pub struct Answer {
    in_hand: Arc<InHand>,
    number: u64,
    is_owed: bool,
}

impl Answer {
    /// Reports success; `payload` is what the request's operation returns.
    pub fn done(self, payload: &[u8]) {
        self.settle(|channel, unique| {
            let header = replies::reply_header(unique, 0, payload.len());
            channel.send(&[IoSlice::new(&header), IoSlice::new(payload)])
        });
    }

    /// Reports a failure.
    pub fn refuse(self, errno: Errno) {
        self.settle(|channel, unique| refuse(channel, unique, errno));
    }

    /// Leaves a request that cannot be carried out yet with the kernel, which sends it again at the next [`Channel::resend`].
    pub fn send_back(mut self) {
        self.is_owed = false;
        self.in_hand.send_back(self.number);
    }

    /// Reports success of a read; its data are the bytes of `segments`, one after the other.
    pub fn data(self, segments: &[Segment]) {
        self.settle(|channel, unique| send_data(channel, unique, segments));
    }

    fn settle(mut self, send: impl Fn(&Channel, u64) -> Sent) {
        // From here on another request may have the number.
        self.is_owed = false;
        self.in_hand.answer(self.number, send);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.is_owed {
            self.in_hand.answer(self.number, |channel, unique| refuse(channel, unique, Errno::IO));
        }
    }
}

fn refuse(channel: &Channel, unique: u64, errno: Errno) -> Sent {
    channel.send(&[IoSlice::new(&replies::reply_header(unique, errno.raw_os_error(), 0))])
}

fn send_data(channel: &Channel, unique: u64, segments: &[Segment]) -> Sent {
    // One writev takes no more parts than this.
    const PARTS_MAX: usize = 1024;
    let mut parts = Vec::with_capacity(segments.len() + 2);
    parts.push(IoSlice::new(&[]));
    let mut bytes = 0;
    for segment in segments {
        bytes += push_segment(&mut parts, segment);
    }
    let header = replies::reply_header(unique, 0, bytes);
    if parts.len() <= PARTS_MAX {
        parts[0] = IoSlice::new(&header);
        channel.send(&parts)
    } else {
        // This does not happen: there would be more parts than blocks in the largest read.
        let flat: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        channel.send(&[IoSlice::new(&header), IoSlice::new(&flat)])
    }
}

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

fn push_segment<'a>(parts: &mut Vec<IoSlice<'a>>, segment: &'a Segment) -> usize {
    match *segment {
        Segment::Data { ref slice, start, bytes } => {
            parts.push(IoSlice::new(&slice.bytes()[start..start + bytes]));
            bytes
        }
        Segment::Zeroes { bytes } => {
            let bytes = usize::try_from(bytes).expect("a read is at most 1 MiB");
            let mut left = bytes;
            while left > 0 {
                let n = left.min(ZEROS.len());
                parts.push(IoSlice::new(&ZEROS[..n]));
                left -= n;
            }
            bytes
        }
    }
}

/// Returns the error number of `failure`.
#[must_use]
pub const fn errno(failure: Failure) -> Errno {
    match failure {
        Failure::Io => Errno::IO,
        Failure::NoSpace | Failure::Full => Errno::NOSPC,
        Failure::ReadOnly => Errno::ROFS,
        Failure::Invalid => Errno::INVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    /// Returns a channel, and the kernel's end of it.
    fn channel() -> (Arc<Channel>, OwnedFd) {
        let (ours, kernel) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
        (Arc::new(Channel::new(ours)), kernel)
    }

    /// Returns the number and the error of the next answer, if there is one.
    fn heard(kernel: &OwnedFd) -> Option<(u64, i32)> {
        let mut bytes = [0; 64];
        rustix::io::read(kernel, &mut bytes[..]).ok()?;
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        Some((u64::from_ne_bytes(bytes[8..16].try_into().unwrap()), error))
    }

    #[test]
    fn what_is_sent_again_while_it_is_in_hand_is_carried_out_once() {
        let ((one, first), (other, second)) = (channel(), channel());
        let in_hand = Arc::new(InHand::default());
        let answer = in_hand.take(one.clone(), 6).expect("it is new");
        assert!(in_hand.take(other.clone(), 6 | UNIQUE_RESEND).is_none(), "it is carried out once");
        answer.done(&[]);
        // Unlike the kernel, these channels take any answer.
        assert_eq!((heard(&first), heard(&second)), (Some((6, 0)), None));
        assert!(in_hand.take(one, 6 | UNIQUE_RESEND).is_none(), "a copy that is looked at late is of the past");
    }

    /// Two threads examine copies in another order than they received them.
    #[test]
    fn an_answer_goes_to_whichever_copy_the_kernel_knows() {
        let ((one, _first), (other, _second)) = (channel(), channel());
        for latest in [6, 6 | UNIQUE_RESEND] {
            let in_hand = Arc::new(InHand::default());
            let mut answer = in_hand.take(other.clone(), 6 | UNIQUE_RESEND).expect("it is new");
            assert!(in_hand.take(one.clone(), 6).is_none(), "somebody has it");
            answer.is_owed = false;
            in_hand.answer(6, |_, unique| if unique == latest { Sent::Taken } else { Sent::Unknown });
            assert!(in_hand.state().open.is_empty() && in_hand.state().answered.contains(&6), "{latest:x}");
        }
    }

    #[test]
    fn what_the_kernel_knows_by_no_copy_is_new_when_it_comes_again() {
        let (one, kernel) = channel();
        let in_hand = Arc::new(InHand::default());
        let mut answer = in_hand.take(one.clone(), 6).expect("it is new");
        answer.is_owed = false;
        in_hand.answer(6, |_, _| Sent::Unknown);
        in_hand.take(one, 6 | UNIQUE_RESEND).expect("nobody has it").refuse(Errno::NOSPC);
        assert_eq!(heard(&kernel), Some((6 | UNIQUE_RESEND, -Errno::NOSPC.raw_os_error())));
    }

    /// The kernel believes that the copy is in hand, and no further event would call for another.
    #[test]
    fn what_is_sent_back_after_its_copy_was_dropped_is_asked_for() {
        let (one, kernel) = channel();
        let in_hand = Arc::new(InHand::default());
        let answer = in_hand.take(one.clone(), 8).expect("it is new");
        assert!(in_hand.take(one.clone(), 8 | UNIQUE_RESEND).is_none(), "somebody has it");
        answer.send_back();
        let asking = std::thread::spawn({
            let in_hand = in_hand.clone();
            move || in_hand.ask_for_lost()
        });
        let give_up = Instant::now() + Duration::from_secs(20);
        let mut bytes = [0; 16];
        while rustix::io::read(&kernel, &mut bytes[..]).is_err() {
            assert!(Instant::now() < give_up, "nobody asks for it");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(bytes, replies::resend());
        in_hand.end();
        asking.join().unwrap();
    }
    #[test]
    fn what_is_sent_back_is_not_answered_and_comes_again_as_new() {
        let (one, kernel) = channel();
        let in_hand = Arc::new(InHand::default());
        in_hand.take(one.clone(), 8).expect("it is new").send_back();
        assert_eq!(heard(&kernel), None);
        assert_eq!(Arc::strong_count(&one), 1, "no answer is owed");
        drop(in_hand.take(one, 8 | UNIQUE_RESEND).expect("it is new"));
        assert_eq!(heard(&kernel), Some((8 | UNIQUE_RESEND, -Errno::IO.raw_os_error())), "what is forgotten says EIO");
    }
}
