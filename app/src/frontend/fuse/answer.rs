//! Requests that were taken from the kernel, and their answers.
//!
//! 1. An answer leaves through the channel that brought its request; the kernel looks for it nowhere else.
//! 2. Each request is answered exactly once: an [`Answer`] that is dropped says EIO. Or it is sent back: then the kernel has it, with its bytes, until
//!    it is asked to send again.
//! 3. What is sent again while it is in hand is not carried out a second time beside the first: a write that was answered could else be done once more
//!    over a later one. Its answer goes to where it was sent last.

use super::channel::Channel;
use super::wire::{UNIQUE_RESEND, replies};
use onefold_engine::interface::{Failure, Segment};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a request was sent last, and by which number.
#[derive(Debug)]
struct Taken {
    channel: Arc<Channel>,
    unique: u64,
}

/// The requests that were taken through any channel of a session and not answered yet.
#[derive(Debug, Default)]
pub struct InHand(Mutex<HashMap<u64, Taken>>);

impl InHand {
    /// The duty to answer request `unique`, which came through `channel`; none where somebody has that duty already.
    pub fn take(self: &Arc<Self>, channel: Arc<Channel>, unique: u64) -> Option<Answer> {
        let number = unique & !UNIQUE_RESEND;
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Taken { channel, unique });
        before.is_none().then(|| Answer { in_hand: Arc::clone(self), number })
    }

    fn release(&self, number: u64) -> Option<Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

/// The duty to answer one request.
#[derive(Debug)]
#[must_use]
pub struct Answer {
    in_hand: Arc<InHand>,
    number: u64,
}

impl Answer {
    /// Done; `payload` is what the request's operation returns.
    pub fn done(self, payload: &[u8]) {
        if let Some(Taken { channel, unique }) = self.in_hand.release(self.number) {
            let header = replies::reply_header(unique, 0, payload.len());
            channel.send(&[IoSlice::new(&header), IoSlice::new(payload)]);
        }
    }

    /// Failed.
    pub fn refuse(self, errno: Errno) {
        self.refuse_now(errno);
    }

    /// It cannot be carried out yet: the kernel keeps it, and sends it with the next [`Channel::resend`].
    pub fn send_back(self) {
        drop(self.in_hand.release(self.number));
    }

    /// Done; the bytes of `segments`, one behind the other, are what was read.
    pub fn data(self, segments: &[Segment]) {
        // The most parts that one writev takes.
        const PARTS_MAX: usize = 1024;
        let Some(Taken { channel, unique }) = self.in_hand.release(self.number) else { return };
        let mut parts = Vec::with_capacity(segments.len() + 2);
        parts.push(IoSlice::new(&[]));
        let mut bytes = 0;
        for segment in segments {
            bytes += push_segment(&mut parts, segment);
        }
        let header = replies::reply_header(unique, 0, bytes);
        if parts.len() <= PARTS_MAX {
            parts[0] = IoSlice::new(&header);
            channel.send(&parts);
        } else {
            // Never seen: more parts than blocks in the largest read.
            let flat: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            channel.send(&[IoSlice::new(&header), IoSlice::new(&flat)]);
        }
    }

    fn refuse_now(&self, errno: Errno) {
        if let Some(Taken { channel, unique }) = self.in_hand.release(self.number) {
            channel.send(&[IoSlice::new(&replies::reply_header(unique, errno.raw_os_error(), 0))]);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.refuse_now(Errno::IO);
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

/// The error number that tells of `failure`.
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

    /// A channel, and the kernel's end of it.
    fn channel() -> (Arc<Channel>, OwnedFd) {
        let (ours, kernel) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
        (Arc::new(Channel::new(ours)), kernel)
    }

    /// The number and the error of the next answer, if there is one.
    fn heard(kernel: &OwnedFd) -> Option<(u64, i32)> {
        let mut bytes = [0; 64];
        rustix::io::read(kernel, &mut bytes[..]).ok()?;
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        Some((u64::from_ne_bytes(bytes[8..16].try_into().unwrap()), error))
    }

    #[test]
    fn what_is_sent_again_while_it_is_in_hand_is_answered_once_where_it_came_last() {
        let ((one, first), (other, second)) = (channel(), channel());
        let in_hand = Arc::new(InHand::default());
        let answer = in_hand.take(one.clone(), 6).expect("it is new");
        assert!(in_hand.take(other.clone(), 6 | UNIQUE_RESEND).is_none(), "it is carried out once");
        answer.done(&[]);
        assert_eq!((heard(&first), heard(&second)), (None, Some((6 | UNIQUE_RESEND, 0))));
        // Answered, it is new when it comes once more: the answer may not have found it.
        in_hand.take(one, 6 | UNIQUE_RESEND).expect("nobody has it").refuse(Errno::NOSPC);
        assert_eq!(heard(&first), Some((6 | UNIQUE_RESEND, -Errno::NOSPC.raw_os_error())));
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
