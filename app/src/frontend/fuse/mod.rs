//! FUSE and a loop device: a block device for the whole system, on any kernel with FUSE.
//!
//! A small file system with one file, `disk`, and on that file a loop device. Three processes have a part in it:
//!
//! - the *supervisor* ([`supervisor`]) holds the session: mounts, shakes hands, starts the server and starts another when it dies;
//! - the *server* ([`Fuse`]) is lent the session's descriptors and answers requests ([`receive`] → [`files`] → the target → [`channel`]);
//! - the *hands* ([`attach_loop`], [`detach`]) touch the file system from outside: `onefold attach` and `detach`. Neither supervisor nor server
//!   may, or nobody would be left to answer.
//!
//! 1. A request is answered by the server that took it or, if that one dies, by the next, to which the kernel sends it again. A write may thus
//!    be carried out twice, never not at all.
//! 2. Memory: each thread has 1 MiB of its own to receive into; all that is held for longer comes from the target's budget.
//! 3. The order of the end: loop device, mount, server (which then closes its volume), supervisor.

pub mod channel;
pub mod files;
pub mod loopdev;
pub mod receive;
pub mod session;
pub mod supervisor;
pub mod wire;

use self::channel::Channel;
use self::receive::{End, Receiver};
use self::session::system;
use super::{Error, Frontend};
use crate::target::SharedTarget;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads of a server. Two keep both cores of a small machine busy; more were not faster.
pub const THREADS: usize = 2;

/// Receivers need little stack, and with mlockall(2) all of it may be locked.
const STACK_BYTES: usize = 256 << 10;

/// What a server is given.
#[derive(Debug)]
pub struct Config {
    /// The session's descriptors, [`session::CHANNELS_A_THREAD`] for each thread.
    pub channels: Vec<OwnedFd>,
    /// Where the session is mounted.
    pub mountpoint: PathBuf,
}

/// A running server.
#[derive(Debug)]
pub struct Fuse {
    mountpoint: PathBuf,
    threads: Vec<JoinHandle<End>>,
    channels: Vec<Arc<Channel>>,
}

impl Frontend for Fuse {
    type Config = Config;

    fn start(config: Config, target: SharedTarget) -> Result<Self, Error> {
        let channels: Vec<_> = config.channels.into_iter().map(|c| Arc::new(Channel::new(c))).collect();
        // Whatever a dead server has taken, before anything is taken anew. A first server finds nothing; an old kernel does not know this.
        match channels.first().map(|first| first.resend()) {
            Some(Ok(()) | Err(Errno::INVAL)) | None => {}
            Some(Err(e)) => return Err(system("cannot go on with the FUSE session".into(), e)),
        }
        let mut threads = Vec::new();
        for (i, pair) in channels.chunks_exact(session::CHANNELS_A_THREAD).enumerate() {
            let receiver = Receiver::new(Arc::clone(&target), Arc::clone(&pair[0]), Arc::clone(&pair[1]));
            let run = move || {
                // A server with a thread missing would answer some and let others wait. Dead as a whole, it is replaced.
                let guard = AbortOnPanic;
                let end = receiver.run();
                std::mem::forget(guard);
                end
            };
            let thread = std::thread::Builder::new().name(format!("fuse-{i}")).stack_size(STACK_BYTES).spawn(run);
            threads.push(thread.map_err(|source| Error::System { what: "cannot start a thread".into(), source })?);
        }
        Ok(Self { mountpoint: config.mountpoint, threads, channels })
    }

    /// The loop devices on it (one, normally), or the file where there is none yet.
    fn location(&self) -> String {
        let disk = disk_of(&self.mountpoint);
        let device = loopdev::devices_of(&disk).ok().and_then(|found| found.into_iter().next());
        device.unwrap_or(disk).display().to_string()
    }

    fn stop(&mut self) -> Result<(), Error> {
        if !self.threads.is_empty() {
            detach(&self.mountpoint)?;
            self.wait();
        }
        Ok(())
    }
}

impl Fuse {
    /// Waits for the end of the session, that is until somebody unmounts it; then every request has been answered and the target can be
    /// closed. Says whether it ended as it should.
    pub fn wait(&mut self) -> bool {
        let ends: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        // Each answer that is still owed holds its channel.
        while self.channels.iter().any(|channel| Arc::strong_count(channel) > 1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        ends.iter().all(|end| matches!(end, Ok(End::Unmounted)))
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// The file on a session's mountpoint.
#[must_use]
pub fn disk_of(mountpoint: &Path) -> PathBuf {
    mountpoint.join(files::DISK_NAME)
}

/// Puts a loop device on a session's file and returns the device's path. To be called from outside of supervisor and server.
///
/// # Errors
/// See [`loopdev::attach`].
pub fn attach_loop(mountpoint: &Path, read_only: bool) -> Result<PathBuf, Error> {
    let mountpoint =
        mountpoint.canonicalize().map_err(|source| Error::System { what: format!("cannot find {}", mountpoint.display()), source })?;
    loopdev::attach(&disk_of(&mountpoint), read_only)
}

/// Ends a session from outside: takes its loop devices away, flushed, then unmounts it; the server sees that and closes its volume, and the
/// supervisor follows it. Returns when it is unmounted.
///
/// # Errors
/// When a device or the file is in use: what could not be taken away stays, and works.
pub fn detach(mountpoint: &Path) -> Result<(), Error> {
    let canonical = mountpoint.canonicalize().unwrap_or_else(|_| mountpoint.to_owned());
    for device in loopdev::devices_of(&disk_of(&canonical))? {
        loopdev::detach(&device)?;
    }
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        match rustix::mount::unmount(&canonical, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            // A loop device lets go of its file a moment after it is gone itself.
            Err(Errno::BUSY) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(10)),
            Err(Errno::BUSY) => {
                return Err(Error::Setting(format!("somebody uses {}: `fuser -vm {0}` tells who", disk_of(&canonical).display())));
            }
            Err(e) => return Err(system(format!("cannot unmount {}", canonical.display()), e)),
        }
    }
}
