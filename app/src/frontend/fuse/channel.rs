//! One descriptor of a session: requests come in, answers go out, neither copied on our side.
//!
//! 1. An answer leaves through the channel that brought its request; the kernel looks for it nowhere else.
//! 2. Each request is answered exactly once: an [`Answer`] that is dropped says EIO.

use super::wire::replies;
use onefold_engine::interface::{Failure, Segment};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A descriptor of /dev/fuse.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What came of waiting for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// None is there now (only of a channel that does not wait).
    Nothing,
    /// The session is over.
    Over,
}

impl Channel {
    pub const fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Takes the next request into `parts`, which must have room for the head and [`REQUEST_BYTES_MAX`](super::session::REQUEST_BYTES_MAX).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> Result<Received, Errno> {
        loop {
            match rustix::io::readv(&self.0, parts) {
                // ECONNABORTED where the end came while a request was on its way to us.
                Ok(0) | Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Over),
                Ok(bytes) => return Ok(Received::Request(bytes)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // ENOENT: its sender gave up while it was on its way.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes the kernel send again, through any channel, what was taken through any and not answered.
    ///
    /// # Errors
    /// EINVAL from a kernel before 6.9, which does not know how.
    pub fn resend(&self) -> Result<(), Errno> {
        rustix::io::write(&self.0, &replies::resend()).map(drop)
    }

    fn send(&self, parts: &[IoSlice<'_>]) {
        match rustix::io::writev(&self.0, parts) {
            // ENOENT: nobody waits for it any more. ENODEV, ECONNABORTED: the session is over.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {}
            // Our mistake, an answer of the wrong shape. The kernel has ended the request with EIO.
            Err(error) => tracing::error!(%error, parts = parts.len(), "the kernel refused an answer"),
        }
    }
}

/// The duty to answer one request.
#[derive(Debug)]
#[must_use]
pub struct Answer {
    channel: Option<Arc<Channel>>,
    unique: u64,
}

impl Answer {
    /// The duty to answer request `unique`, which came through `channel`.
    pub const fn new(channel: Arc<Channel>, unique: u64) -> Self {
        Self { channel: Some(channel), unique }
    }

    /// Done; `payload` is what the request's operation returns.
    pub fn done(mut self, payload: &[u8]) {
        if let Some(channel) = self.channel.take() {
            let header = replies::reply_header(self.unique, 0, payload.len());
            channel.send(&[IoSlice::new(&header), IoSlice::new(payload)]);
        }
    }

    /// Failed.
    pub fn refuse(mut self, errno: Errno) {
        self.refuse_now(errno);
    }

    /// Done; the bytes of `segments`, one behind the other, are what was read.
    pub fn data(mut self, segments: &[Segment]) {
        // The most parts that one writev takes.
        const PARTS_MAX: usize = 1024;
        let Some(channel) = self.channel.take() else { return };
        let mut parts = Vec::with_capacity(segments.len() + 2);
        parts.push(IoSlice::new(&[]));
        let mut bytes = 0;
        for segment in segments {
            bytes += push_segment(&mut parts, segment);
        }
        let header = replies::reply_header(self.unique, 0, bytes);
        if parts.len() <= PARTS_MAX {
            parts[0] = IoSlice::new(&header);
            channel.send(&parts);
        } else {
            // Never seen: more parts than blocks in the largest read.
            let flat: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            channel.send(&[IoSlice::new(&header), IoSlice::new(&flat)]);
        }
    }

    fn refuse_now(&mut self, errno: Errno) {
        if let Some(channel) = self.channel.take() {
            channel.send(&[IoSlice::new(&replies::reply_header(self.unique, errno.raw_os_error(), 0))]);
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
        Failure::NoSpace => Errno::NOSPC,
        Failure::ReadOnly => Errno::ROFS,
        Failure::Invalid => Errno::INVAL,
    }
}
