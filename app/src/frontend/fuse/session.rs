//! A FUSE session from its beginning: /dev/fuse, the mount, the handshake, and the descriptors that outlive any server.
//!
//! 1. The holder of a [`Session`] keeps it alive. A server inherits its descriptors and may die at any moment.
//! 2. *All* descriptors stay with the holder, the cloned ones too: when the last copy of a clone is closed, the kernel fails all unanswered
//!    requests that were taken through it, and nothing is left to send again.
//! 3. The handshake is done here, before the first server starts. So no server ever sees INIT, and none has to know whether it is the first
//!    one.
//! 4. The mount is in no directory tree: it lives as long as its descriptor or a file opened below it, the loop device's. A mount in a
//!    directory would be copied into every mount namespace that is made meanwhile (a container's), and not end before those do.

use super::files::DISK;
use super::wire::replies::{self, Agreement};
use super::wire::{self, Operation, init};
use crate::error::Error;
use onefold_engine::units::count;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The largest write (and read), in bytes: 256 pages of 4 KiB, the kernel's limit.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The smallest one that a session agrees to, with little memory; and the part of the memory that a request may take.
const REQUEST_BYTES_MIN: u64 = 128 << 10;
const REQUEST_SHARE: u64 = 16;

/// Returns the largest write of a session whose servers have this much memory: each of their threads keeps a buffer for one.
#[must_use]
pub fn request_bytes(memory: u64) -> usize {
    let share = (memory / REQUEST_SHARE).clamp(REQUEST_BYTES_MIN, count(REQUEST_BYTES_MAX));
    1 << share.ilog2()
}

/// The number of requests that the kernel sends ahead; its default of 12 throttles. It is more than a loop device has writes under way, 128
/// of two requests each: otherwise those that wait while the volume is full would keep its discards from being sent.
const BACKGROUND_MAX: u16 = 512;
/// The number of channels of each server thread: one that it waits on, one that never waits and empties the queue into a batch.
pub const CHANNELS_A_THREAD: usize = 2;

/// The flags that a session asks of the kernel.
const WANTED: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::DO_READDIRPLUS
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    | init::INIT_EXT
    | init::HAS_RESEND;

/// A mounted FUSE file system.
#[derive(Debug)]
pub struct Session {
    channels: Vec<OwnedFd>,
    mount: Option<OwnedFd>,
    resend: bool,
}

impl Session {
    /// Mounts a file system and does the handshake with the kernel, for servers of `threads` threads, and writes of at most
    /// `request_bytes`. The kernel shows `source` in messages. Needs root.
    ///
    /// # Errors
    /// When there is no /dev/fuse, the mount is refused, or the kernel is too old.
    pub fn mount(source: &str, threads: usize, request_bytes: usize) -> Result<Self, Error> {
        let first = open_device(OFlags::empty())?;
        let mount =
            mount(source, &first).map_err(|e| system("cannot mount a FUSE file system (root is needed, and Linux 5.8)".into(), e))?;
        let resend = handshake(first.as_fd(), request_bytes)?;
        let mut channels = vec![first];
        for i in 1..threads.max(1) * CHANNELS_A_THREAD {
            let waits = if i % CHANNELS_A_THREAD == 0 { OFlags::empty() } else { OFlags::NONBLOCK };
            let clone = open_device(waits)?;
            join_connection(clone.as_fd(), channels[0].as_fd())?;
            channels.push(clone);
        }
        Ok(Self { channels, mount: Some(mount), resend })
    }

    /// Returns the session of these descriptors, which a server inherited from a supervisor that is dead. `resend`: see
    /// [`Self::can_resend`].
    #[must_use]
    pub const fn inherited(channels: Vec<OwnedFd>, resend: bool) -> Self {
        Self { channels, mount: None, resend }
    }

    /// Returns the descriptors that a server needs: for each thread one that waits and one that does not.
    #[must_use]
    pub fn channels(&self) -> &[OwnedFd] {
        &self.channels
    }

    /// Returns the root directory, until [`Self::release`].
    #[must_use]
    pub fn root(&self) -> Option<&OwnedFd> {
        self.mount.as_ref()
    }

    /// Releases the mount: from now on it lasts only as long as files below it are open.
    pub fn release(&mut self) {
        self.mount = None;
    }

    /// Whether nobody uses the file system any more, so that no server has further work.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let mut polled = [PollFd::new(&self.channels[0], PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
    }

    /// Whether the kernel (6.9 or newer) can send again what a dead server had taken. Where it cannot, a killed server means I/O errors.
    #[must_use]
    pub fn can_resend(&self) -> bool {
        self.resend
    }
}

/// Whether the kernel can send again the unanswered requests that a server has taken, through these descriptors of a session. It does so.
#[must_use]
pub fn can_resend(channels: &[OwnedFd]) -> bool {
    channels.first().is_some_and(|first| rustix::io::write(first, &replies::resend()).is_ok())
}

/// Makes the kernel forget the attributes of the file, whose size has changed, and raise the size that it keeps. Nothing happens where it
/// has not looked at the file yet.
///
/// # Errors
/// When the kernel refuses.
pub fn announce_size(channel: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    let [raises, forgets] = replies::resized(DISK, bytes);
    // Some kernels make a loop device as large as the size that they keep, and others ask for the attributes.
    for message in [&raises[..], &forgets[..]] {
        match rustix::io::write(channel, message) {
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn mount(source: &str, first: &OwnedFd) -> Result<OwnedFd, Errno> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", source)?;
    fsconfig_set_string(&context, "subtype", "onefold")?;
    fsconfig_set_string(&context, "fd", first.as_raw_fd().to_string())?;
    fsconfig_set_string(&context, "rootmode", "40000")?;
    fsconfig_set_string(&context, "user_id", "0")?;
    fsconfig_set_string(&context, "group_id", "0")?;
    fsconfig_set_flag(&context, "default_permissions")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn open_device(flags: OFlags) -> Result<OwnedFd, Error> {
    rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::empty())
        .map_err(|e| system("cannot open /dev/fuse (is the module fuse loaded? `modprobe fuse`)".into(), e))
}

/// Answers INIT, and agrees to writes of at most `request_bytes`; returns whether the kernel can resend.
fn handshake(channel: BorrowedFd<'_>, request_bytes: usize) -> Result<bool, Error> {
    // The kernel refuses a buffer that could not hold the smallest max_write.
    let mut buffer = vec![0; 64 << 10];
    loop {
        let received = match rustix::io::read(channel, &mut buffer[..]) {
            Ok(n) => n,
            Err(Errno::INTR | Errno::NOENT) => continue,
            Err(e) => return Err(system("FUSE handshake".into(), e)),
        };
        let head = &buffer[..received.min(wire::HEAD_BYTES)];
        let request = wire::parse(head, received).map_err(|e| Error::Setting(format!("FUSE handshake: {e}")))?;
        let unique = request.header.unique;
        let Operation::Init { major, minor, max_readahead, flags } = request.ask else {
            answer(channel, unique, Errno::IO.raw_os_error(), &[])?;
            continue;
        };
        if major > wire::MAJOR {
            // By the protocol, a reply with this major version makes the kernel send INIT again.
            let ours = Agreement { minor: wire::MINOR, max_readahead: 0, flags: 0, max_background: 0, max_write: 0, max_pages: 0 };
            answer(channel, unique, 0, &replies::init_out(&ours))?;
            continue;
        }
        if major < wire::MAJOR || minor < wire::MINOR_MIN {
            answer(channel, unique, Errno::PROTO.raw_os_error(), &[])?;
            return Err(Error::Setting(format!(
                "this kernel speaks FUSE {major}.{minor}, at least {}.{} is needed (Linux 4.20): use NBD instead",
                wire::MAJOR,
                wire::MINOR_MIN
            )));
        }
        let agreed = Agreement {
            minor: minor.min(wire::MINOR),
            max_readahead,
            flags: flags & WANTED,
            max_background: BACKGROUND_MAX,
            max_write: u32::try_from(request_bytes).expect("1 MiB at most"),
            max_pages: u16::try_from(request_bytes / rustix::param::page_size()).expect("256 pages at most"),
        };
        answer(channel, unique, 0, &replies::init_out(&agreed))?;
        return Ok(agreed.flags & init::HAS_RESEND != 0);
    }
}

fn answer(channel: BorrowedFd<'_>, unique: u64, errno: i32, payload: &[u8]) -> Result<(), Error> {
    let header = replies::reply_header(unique, errno, payload.len());
    rustix::io::writev(channel, &[IoSlice::new(&header), IoSlice::new(payload)]).map_err(|e| system("FUSE handshake".into(), e))?;
    Ok(())
}

#[allow(unsafe_code)]
fn join_connection(clone: BorrowedFd<'_>, first: BorrowedFd<'_>) -> Result<(), Error> {
    // FUSE_DEV_IOC_CLONE
    const CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
    let number = u32::try_from(first.as_raw_fd()).expect("descriptors are not negative");
    // SAFETY: the request takes a pointer to a 32-bit descriptor number, which it only reads.
    unsafe { rustix::ioctl::ioctl(clone, rustix::ioctl::Setter::<CLONE, u32>::new(number)) }
        .map_err(|e| system("cannot clone /dev/fuse".into(), e))
}

pub(super) fn system(what: String, errno: Errno) -> Error {
    Error::System { what, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_little_memory_requests_are_smaller() {
        let kib = |memory_mib: u64| request_bytes(memory_mib << 20) >> 10;
        assert_eq!([2, 3, 4, 8, 15, 16, 64, 1024].map(kib), [128, 128, 256, 512, 512, 1024, 1024, 1024]);
    }
}
