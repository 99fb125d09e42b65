//! FUSE and a loop device: a block device for the whole system, on any kernel with FUSE.
//!
//! A small file system with one file, called by the volume's UUID, and on that file a loop device. Three processes take part:
//!
//! - the *supervisor* ([`supervisor`]) holds the session: it mounts, does the handshake, starts the server and starts another when it dies.
//!   When it dies itself, the server starts another supervisor;
//! - the *server* ([`Fuse`]) inherits the session's descriptors and answers requests ([`receive`] → [`files`] → the target → [`answer`]);
//! - the helpers ([`attach_loop`], [`loopdev::detach`]) use the file system from outside. Neither supervisor nor server may, or nobody
//!   would be left to answer.
//!
//! The file system is in no directory: only the loop device keeps it, and when that goes (`onefold detach`, `losetup -d`), all goes.
//!
//! 1. A request is answered by the server that took it or, if that one dies, by the next, to which the kernel sends it again. A write may
//!    thus be carried out twice, but never be lost.
//! 2. Memory: each thread has 1 MiB of its own to receive into; memory that is held for longer comes from the target's budget.
//! 3. The order of the end: loop device, file system, server (which then closes its volume), supervisor.

pub mod answer;
pub mod channel;
mod crew;
mod door;
pub mod files;
pub mod helper;
pub mod loopdev;
pub mod process;
pub mod receive;
pub mod session;
pub mod supervisor;
pub mod wire;

pub use door::FuseLoop;

use self::answer::InHand;
use self::channel::Channel;
use self::receive::{End, Receiver};
use self::session::system;
use crate::abort::AbortOnPanic;
use crate::error::Error;
use crate::supervision::start::Start;
use crate::target::SharedTarget;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The name of the front-end in plans and records.
const NAME: &str = "fuse";

/// The number of threads of a server. Two keep both cores of a small machine busy; more were not faster.
pub const THREADS: usize = 2;

/// The stack of a thread. Receivers need little of it, and with mlockall(2) all of it may be locked.
const STACK_BYTES: usize = 256 << 10;

/// The arguments of a server.
pub struct Config {
    /// The session's descriptors, [`session::CHANNELS_A_THREAD`] for each thread.
    pub channels: Vec<OwnedFd>,
    /// The tag of its loop device, see [`loopdev::find`], and the name of its file.
    pub tag: String,
    /// The largest write that the session agreed to, in bytes.
    pub request_bytes: usize,
    /// Returns the command that takes a loop device away, by [`loopdev::detach`], for [`Fuse::stop`]. A thread of the server must not do
    /// it: killed meanwhile, it would wait for an answer that only the next server can give, and that one does not start before this one is
    /// dead.
    pub detach: fn(&Path) -> Start,
}

/// A running server.
pub struct Fuse {
    tag: String,
    detach: fn(&Path) -> Start,
    threads: Vec<JoinHandle<End>>,
    channels: Vec<Arc<Channel>>,
    in_hand: Arc<InHand>,
}

impl Fuse {
    /// Serves `target` to a session from now on.
    ///
    /// # Errors
    /// When the session is broken, or no thread is available.
    pub fn start(config: Config, target: SharedTarget) -> Result<Self, Error> {
        let channels: Vec<_> = config.channels.into_iter().map(|c| Arc::new(Channel::new(c))).collect();
        // Requests that a dead server has taken come before any new ones. A first server finds none; an old kernel lacks the call.
        match channels.first().map(|first| first.resend()) {
            Some(Ok(()) | Err(Errno::INVAL)) | None => {}
            Some(Err(e)) => return Err(system("cannot go on with the FUSE session".into(), e)),
        }
        // The reference is weak, since each strong holder of a channel owes an answer through it.
        let first = channels.first().map(Arc::downgrade).unwrap_or_default();
        target.when_room(Box::new(move || first.upgrade().into_iter().for_each(|channel| channel.ask_again())));
        let in_hand = Arc::new(InHand::default());
        let asking = in_hand.clone();
        let thread = std::thread::Builder::new().name("fuse lost".to_owned()).stack_size(STACK_BYTES).spawn(move || asking.ask_for_lost());
        thread.map_err(|source| Error::System { what: "cannot start a thread".into(), source })?;
        let disk_name: Arc<str> = files::disk_name(&config.tag).into();
        let mut threads = Vec::new();
        for (i, pair) in channels.chunks_exact(session::CHANNELS_A_THREAD).enumerate() {
            let (waiting, draining) = (Arc::clone(&pair[0]), Arc::clone(&pair[1]));
            let receiver =
                Receiver::new(Arc::clone(&target), Arc::clone(&in_hand), Arc::clone(&disk_name), config.request_bytes, [waiting, draining]);
            let run = move || {
                // A server without one of its threads would answer some requests and delay others. Dead as a whole, it is replaced.
                let _guard = AbortOnPanic;
                receiver.run()
            };
            let thread = std::thread::Builder::new().name(format!("fuse-{i}")).stack_size(STACK_BYTES).spawn(run);
            threads.push(thread.map_err(|source| Error::System { what: "cannot start a thread".into(), source })?);
        }
        Ok(Self { tag: config.tag, detach: config.detach, threads, channels, in_hand })
    }

    /// Returns the path of the loop device on it; empty while there is none.
    #[must_use]
    pub fn location(&self) -> String {
        let device = loopdev::find(&self.tag).ok().and_then(|found| found.into_iter().next());
        device.map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Takes the loop device away, and lets requests in flight finish. A second call does nothing.
    ///
    /// # Errors
    /// When the device is in use.
    pub fn stop(&mut self) -> Result<(), Error> {
        if !self.threads.is_empty() {
            for device in loopdev::find(&self.tag)? {
                let output = (self.detach)(&device).stdin(Stdio::null()).output();
                let output = output.map_err(|source| Error::System { what: format!("cannot detach {}", device.display()), source })?;
                if !output.status.success() {
                    return Err(Error::Setting(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
                }
            }
            self.wait();
        }
        Ok(())
    }

    /// Waits for the end of the session, that is until its loop device is gone; then every request has been answered and the target can be
    /// closed. Returns whether it ended as it should.
    pub fn wait(&mut self) -> bool {
        let ends: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        // Each answer that is still owed holds its channel.
        while self.channels.iter().any(|channel| Arc::strong_count(channel) > 1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.in_hand.end();
        ends.iter().all(|end| matches!(end, Ok(End::Over)))
    }
}

/// Puts a loop device with sectors of `sector_bytes` on the file below a session's `root` and returns the device's path. Removes devices
/// that a dead session with this `tag` has left, since the present server has the volume for itself. Call it in a separate process, neither
/// the supervisor nor a server: see [`helper`].
///
/// # Errors
/// See [`loopdev::attach`].
pub fn attach_loop(root: &OwnedFd, tag: &str, sector_bytes: u32, read_only: bool) -> Result<PathBuf, Error> {
    loopdev::clear_dead(tag);
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let disk = rustix::fs::openat(root, files::disk_name(tag), access | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| system("cannot open the file that is to become a loop device".into(), e))?;
    loopdev::attach(disk.as_fd(), tag, sector_bytes, read_only)
}
