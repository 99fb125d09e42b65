//! One descriptor of a session: requests come in, answers go out, neither copied on our side.

use super::wire::replies;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

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

/// What became of an answer.
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

    /// [`Self::resend`] where it is known to the kernel.
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
            // Our mistake, an answer of the wrong shape. The kernel has ended the request with EIO.
            Err(error) => tracing::error!(%error, parts = parts.len(), "the kernel refused an answer"),
        }
        Sent::Taken
    }
}
