//! The child's side.

use super::message::{DESCRIPTORS_MAX, LOADED, PACKET_BYTES_MAX, encode_refusal};
use super::{Order, program};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

/// Loads the BPF program for the server that has started this process, with a socket as its standard input. This is all that the process
/// is to do: it exits then. A server starts it by [`Observer::begin_in_child`](crate::Observer::begin_in_child).
///
/// A refusal is an answer, too.
///
/// # Errors
/// When nobody could be answered.
pub fn load_for_parent() -> io::Result<()> {
    // Without its server, nobody needs it. If memory is short, it goes first: the server works without.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    serve(io::stdin().as_fd())
}

fn serve(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut packet = [0; PACKET_BYTES_MAX];
    let (_, bytes) = recv(socket, &mut packet[..], RecvFlags::empty())?;
    let order = Order::decode(&packet[..bytes]).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "invalid order"))?;
    match program::load(&order) {
        Ok(loaded) => {
            let links = loaded.links.iter().map(AsFd::as_fd);
            let descriptors: Vec<BorrowedFd<'_>> = [loaded.ring.as_fd(), loaded.counts.as_fd()].into_iter().chain(links).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "the space is for all descriptors");
            sendmsg(socket, &[IoSlice::new(LOADED[usize::from(loaded.sees_wishes)])], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        Err(refused) => {
            send(socket, encode_refusal(&refused).as_bytes(), SendFlags::NOSIGNAL)?;
        }
    }
    Ok(())
}
