//! One descriptor of a session: requests come in, answers go out, neither copied on our side.

use super::wire::replies;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

/// A descriptor of /dev/fuse.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// The result of waiting for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A request of this many bytes.
    Request(usize),
    /// There is none now (only of a channel that does not wait).
    Nothing,
    /// The session is over.
    Over,
}

/// The result of sending an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel took it, or nobody waits for any answer any more.
    Taken,
    /// The kernel knows no such request in this channel (any more).
    Unknown,
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
                // ECONNABORTED means that the end came while a request was being received.
                Ok(0) | Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Over),
                Ok(bytes) => return Ok(Received::Request(bytes)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // ENOENT: its sender gave up while it was being received.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes the kernel send again, through any channel, all requests that were taken through any channel and not answered.
    ///
    /// # Errors
    /// EINVAL from a kernel before 6.9, which lacks the call.
    pub fn resend(&self) -> Result<(), Errno> {
        rustix::io::write(&self.0, &replies::resend()).map(drop)
    }

    /// Calls [`Self::resend`] where the kernel has it.
    pub(super) fn ask_again(&self) {
        if let Err(error) = self.resend() {
            tracing::warn!(%error, "cannot have requests sent again");
        }
    }

    pub(super) fn send(&self, parts: &[IoSlice<'_>]) -> Sent {
        match rustix::io::writev(&self.0, parts) {
            // The session is over.
            Ok(_) | Err(Errno::NODEV | Errno::CONNABORTED) => {}
            // It is in another channel since it was sent again, or nobody waits for it any more.
            Err(Errno::NOENT) => return Sent::Unknown,
            // An answer of the wrong shape is a bug here. The kernel has ended the request with EIO.
            Err(error) => tracing::error!(%error, parts = parts.len(), "the kernel refused an answer"),
        }
        Sent::Taken
    }
}
