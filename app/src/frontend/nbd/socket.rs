//! A connected socket, of a Unix or TCP client alike.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Whether a call may wait for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    No,
    /// It may wait, at most for the socket's time limit.
    Yes,
}

/// A connected socket. Its descriptor closes when the last holder drops it; [`Socket::shut`] ends it for all of them.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Sets the socket's time limits: a call that waits longer for the client ends with `WouldBlock`.
    ///
    /// # Errors
    /// When the system refuses the limits.
    pub fn new(descriptor: OwnedFd, stall: Duration) -> io::Result<Self> {
        sockopt::set_socket_timeout(&descriptor, sockopt::Timeout::Recv, Some(stall))?;
        sockopt::set_socket_timeout(&descriptor, sockopt::Timeout::Send, Some(stall))?;
        Ok(Self(descriptor))
    }

    /// Receives what has come, at least one byte; 0 when the client will send no more.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came within the socket's time limit; otherwise the connection is lost.
    pub fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::readv(&self.0, into))?)
    }

    /// Sends some of `stretches`; returns the number of bytes.
    ///
    /// # Errors
    /// `WouldBlock` when nothing could be sent (with [`Wait::Yes`], within the socket's time limit); otherwise the connection is lost.
    pub fn send(&self, stretches: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let flags = match wait {
            Wait::No => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            Wait::Yes => SendFlags::NOSIGNAL,
        };
        Ok(rustix::io::retry_on_intr(|| rustix::net::sendmsg(&self.0, stretches, &mut SendAncillaryBuffer::default(), flags))?)
    }

    /// Whether the client has gone, or will send no more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let mut waits = [PollFd::new(&self.0, PollFlags::RDHUP)];
        // The kernel reports a hang-up unasked.
        rustix::event::poll(&mut waits, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Ends receiving: requests of the client that have not come yet never will.
    pub fn shut_receiving(&self) {
        // An error means that the client is gone, which is as good.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Read);
    }

    /// Ends the connection for all holders of the socket.
    pub fn shut(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }

    /// Ends sending and gives the client a moment to receive the last replies: a close over unread bytes would reset the connection and
    /// might lose them.
    pub fn linger(&self, patience: Duration) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
        let mut timed = Timed::new(self, patience);
        let _ = io::copy(&mut timed, &mut io::sink());
    }
}

/// The socket with a deadline for everything that is received from it.
pub struct Timed<'a> {
    socket: &'a Socket,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    #[must_use]
    pub fn new(socket: &'a Socket, limit: Duration) -> Self {
        Self { socket, deadline: Instant::now() + limit }
    }

    /// Restores the socket's own limit.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn finish(self, stall: Duration) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.socket.0, sockopt::Timeout::Recv, Some(stall))?)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sockopt::set_socket_timeout(&self.socket.0, sockopt::Timeout::Recv, Some(left))?;
        let (bytes, _) = rustix::net::recv(&self.socket.0, into, RecvFlags::empty())?;
        Ok(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(&[IoSlice::new(bytes)], Wait::Yes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
