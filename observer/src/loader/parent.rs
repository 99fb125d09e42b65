//! The server's side.

use super::message::{DESCRIPTORS_MAX, LOADED, PACKET_BYTES_MAX, decode_refusal};
use super::{Loaded, Order};
use crate::kernel::{TYPES, is_locked_down};
use crate::refused::Refused;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType, recvmsg, send, socketpair,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Forty times as long as it takes on a machine that is not busy.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Has the program loaded by the process that `spawn` starts, with the socket as its standard input.
pub(crate) fn load(order: &Order, spawn: impl FnOnce(Stdio) -> io::Result<Child>) -> Result<Loaded, Refused> {
    if is_locked_down() {
        return Err(Refused::LockedDown);
    }
    // Kernels before 5.4 have none, and no descriptor for a process to wait for.
    std::fs::metadata(TYPES).map_err(|error| Refused::NoTypes(error.to_string()))?;
    load_within(order, spawn, TIME_MAX)
}

fn load_within(order: &Order, spawn: impl FnOnce(Stdio) -> io::Result<Child>, time_max: Duration) -> Result<Loaded, Refused> {
    let deadline = Instant::now() + time_max;
    let cannot = |what: &str, error: io::Error| Refused::Loader(format!("{what}: {error}"));
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (socket, its_socket) = pair.map_err(|error| cannot("it gets no socket", error.into()))?;
    send(&socket, order.encode().as_bytes(), SendFlags::NOSIGNAL).map_err(|error| cannot("it gets no order", error.into()))?;
    let mut loader = Loader(spawn(its_socket.into()).map_err(|error| cannot("it cannot be started", error))?);
    let status = loader.wait_until(deadline).map_err(|error| cannot("its end cannot be waited for", error))?;
    let status = status.ok_or_else(|| Refused::Loader(format!("it did not end within {time_max:?}, and was killed")))?;
    // The answer of a process that has ended waits in the socket. The other end may still be open, in the caller's command.
    receive(socket.as_fd()).map_err(|error| Refused::Loader(format!("it gave no answer ({status}): {error}")))?
}

/// Takes an answer that is there.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Result<Loaded, Refused>> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let bytes = recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, flags)?.bytes;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    let packet = &packet[..bytes];
    let Some(loaded) = LOADED.iter().position(|answer| *answer == packet) else {
        let kind = if bytes == 0 { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
        return decode_refusal(packet).map(Err).ok_or_else(|| kind.into());
    };
    let mut descriptors = descriptors.into_iter();
    match (descriptors.next(), descriptors.next(), descriptors.collect::<Vec<_>>()) {
        (Some(ring), Some(counts), links) if !links.is_empty() => Ok(Ok(Loaded { ring, counts, links, sees_wishes: loaded == 1 })),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The process that loads. It is killed and reaped when this is dropped, unless it was reaped before.
struct Loader(Child);

impl Loader {
    /// Waits for its end, and reaps it. Returns `None` if it has not ended in time.
    fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let process = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty())?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).expect("a time of seconds");
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Ok(None),
                Ok(_) => return self.0.wait().map(Some),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Neither does anything to a process that was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Task;
    use super::*;
    use crate::{Disk, Wants};
    use std::path::PathBuf;
    use std::process::Command;

    const ORDER: Order = Order {
        disk: Disk { major: 7, minor: 0 },
        wants: Wants { files: false, names: false, reads: false },
        task: Task::Observe,
        ring_bytes: 4096,
    };

    /// Has a command of the shell load, and returns why it was refused; its process is gone then.
    fn refused(script: &str, time_max: Duration) -> Refused {
        let mut process = PathBuf::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let spawn = |socket| {
            let child = command.stdin::<Stdio>(socket).spawn()?;
            process = format!("/proc/{}", child.id()).into();
            Ok(child)
        };
        let refused = load_within(&ORDER, spawn, time_max).expect_err("a shell loads no program");
        assert!(!process.exists(), "{script}: it was killed, and reaped");
        refused
    }

    #[test]
    fn a_process_that_hangs_is_killed() {
        let began = Instant::now();
        let refused = refused("exec sleep 60", Duration::from_millis(200));
        assert!(refused.to_string().ends_with("it did not end within 200ms, and was killed"), "{refused}");
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(30), "{took:?}");
    }

    #[test]
    fn a_process_that_ends_without_an_answer_is_an_error_at_once() {
        let minute = Duration::from_secs(60);
        for (script, status) in [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9 (SIGKILL)")] {
            let began = Instant::now();
            let refused = refused(script, minute);
            assert!(matches!(&refused, Refused::Loader(text) if text.contains(status)), "{script}: {refused}");
            assert!(began.elapsed() < minute / 2);
        }
        let missing = load_within(&ORDER, |socket| Command::new("/nowhere/loader").stdin(socket).spawn(), minute);
        assert!(missing.unwrap_err().to_string().contains("it cannot be started: No such file"));
    }

    #[test]
    fn an_answer_is_taken_only_whole() {
        let answers = [(&b"loaded"[..], "invalid data"), (b"types", "invalid data"), (b"", "unexpected end")];
        for (answer, error) in answers {
            let (socket, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
            send(&its, answer, SendFlags::NOSIGNAL).unwrap();
            assert!(receive(socket.as_fd()).unwrap_err().to_string().contains(error), "{answer:?}");
        }
        let (socket, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        assert_eq!(receive(socket.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        send(&its, b"types\nnone here", SendFlags::NOSIGNAL).unwrap();
        assert!(matches!(receive(socket.as_fd()), Ok(Err(Refused::NoTypes(text))) if text == "none here"));
    }
}
