//! The guard of a store for the whole host: the layers below a store are locked too, down to the bottom of loop devices, partitions and
//! stacks. So two servers never have one store, whatever paths they use.
//!
//! 1. The locks are on ranges of bytes, and belong to open files (OFD locks): volumes in two partitions of one file, or at two offsets of
//!    it, do not collide. They are on inodes, so no run directory, name, mount or mount namespace matters.
//! 2. A whole block device is also claimed (`O_EXCL`): the kernel keeps that claim by the device, whatever node was opened.
//! 3. Only device-mapper, md and similar drivers know which bytes below them a device of theirs has. Users of such devices share the lock
//!    of the layers below, against everybody who holds it alone. The drivers themselves have claimed the devices that they use.
//! 4. A loop device that lies on the store's file already is claimed, too: a program that writes there knows no lock of the file.
//! 5. A layer that cannot be opened is not locked, and the log notes it: that is no reason to refuse a usable store.
//!
//! The files are held as long as I/O may be under way (R7): see [`Backing::files`](super::backing::Backing::files).

use super::loop_status::{LoopInfo, loop_status};
use super::open_error::OpenError;
use super::span::Span;
use super::sysfs::{DeviceNumber, command_of, device_opener, has_ended, loops_above, mount_roots, range_holder};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// The largest depth of a stack that is followed; the kernel allows no loop in them.
const DEPTH_MAX: usize = 16;

/// The way in which a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Exclusive, for a writer that knows its bytes.
    Alone,
    /// Shared, for readers and for users of devices that share the layer below (invariant 3).
    Together,
}

/// Locks a range of an open file, which has to be writable for [`Hold::Alone`]. False where another lock stands in the way.
#[allow(unsafe_code)]
fn lock_range(file: &File, span: Span, hold: Hold) -> Result<bool, Errno> {
    let kind = if hold == Hold::Alone { libc::F_WRLCK } else { libc::F_RDLCK };
    let (l_start, l_len) = span.numbers();
    // SAFETY: a `flock` of zeros is valid; the kernel reads it.
    let result = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind.try_into().expect("kinds of locks are small");
        lock.l_whence = libc::SEEK_SET.try_into().expect("SEEK_SET is 0");
        (lock.l_start, lock.l_len) = (l_start, l_len);
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock)
    };
    if result == 0 {
        return Ok(true);
    }
    match Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO) {
        Errno::AGAIN | Errno::ACCESS => Ok(false),
        other => Err(other),
    }
}

/// Locks an open store, and all layers below it. Returns the files that have to stay open besides the store's own.
///
/// # Errors
/// When another process has any of them.
pub fn guard(path: &Path, file: &File, stat: &Stat, is_read_only: bool) -> Result<Vec<File>, OpenError> {
    let mut guard = Guard { path, held: Vec::new() };
    let hold = if is_read_only { Hold::Together } else { Hold::Alone };
    guard.lock(path, file, stat, Span::WHOLE, hold)?;
    guard.descend(file.as_fd(), stat, Span::WHOLE, hold, 0)?;
    if hold == Hold::Alone && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        guard.claim_loops(stat)?;
    }
    Ok(guard.held)
}

/// The identity of a file or device below, which tells it from others that its path may lead to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Identity {
    /// `st_dev` and `st_ino` of a file.
    File(u64, u64),
    /// `st_rdev` of a device.
    Device(u64),
}

impl Identity {
    /// Returns the identity of what is behind a loop device.
    pub(super) const fn behind(info: &LoopInfo) -> Self {
        if info.rdevice == 0 { Self::File(info.device, info.inode) } else { Self::Device(info.rdevice) }
    }

    fn is_of(self, stat: &Stat) -> bool {
        let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        match self {
            Self::File(device, inode) => !is_device && (stat.st_dev, stat.st_ino) == (device, inode),
            Self::Device(number) => is_device && stat.st_rdev == number,
        }
    }
}

struct Guard<'a> {
    /// The store, as the user named it.
    path: &'a Path,
    held: Vec<File>,
}

impl Guard<'_> {
    /// Locks the layers below an open file, where that is a block device.
    fn descend(&mut self, file: BorrowedFd<'_>, stat: &Stat, span: Span, hold: Hold, depth: usize) -> Result<(), OpenError> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice || depth == DEPTH_MAX {
            return Ok(());
        }
        let number = DeviceNumber::of(stat.st_rdev);
        let span = number.partition().map_or(span, |(start, bytes)| span.below(start, Some(bytes)));
        if let Some(shown) = number.loop_file() {
            match loop_status(file) {
                Ok(info) => {
                    let span = span.below(info.offset, Some(info.size_limit).filter(|&bytes| bytes != 0));
                    self.layer(&shown, Identity::behind(&info), span, hold, depth)?;
                }
                Err(error) => tracing::warn!(%error, path = %self.path.display(), "cannot ask what is behind this loop device"),
            }
        }
        for slave in number.slaves() {
            self.layer(&slave.node(), Identity::Device(slave.raw()), Span::WHOLE, Hold::Together, depth)?;
        }
        Ok(())
    }

    /// Claims the loop devices that lie on the store's file: whoever writes to them takes no lock of the file. The claim keeps mounts and
    /// programs such as mkfs away, as from the file itself.
    fn claim_loops(&mut self, stat: &Stat) -> Result<(), OpenError> {
        for number in loops_above(stat) {
            let node = number.node();
            match rustix::fs::open(&node, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
                Ok(claimed) => self.held.push(File::from(claimed)),
                Err(Errno::BUSY) => {
                    let user = number.user().unwrap_or_else(|| "somebody has it".to_owned());
                    let holder = Some(format!("{}, which lies on it: {user}", node.display()));
                    return Err(OpenError::InUse { path: self.path.to_owned(), holder, may_be_dead: false });
                }
                Err(error) => {
                    let above = node.display();
                    tracing::warn!(%error, path = %self.path.display(), %above, "a loop device on this store cannot be claimed");
                }
            }
        }
        Ok(())
    }

    /// Locks the layer at `place`, and the layers below it.
    fn layer(&mut self, place: &Path, identity: Identity, span: Span, hold: Hold, depth: usize) -> Result<(), OpenError> {
        let Some(place) = reach(place, identity) else {
            // A session of this program is such a case: nobody else can reach its file either.
            tracing::info!(
                path = %self.path.display(),
                below = %place.display(),
                "what this store lies on cannot be reached, and is not locked"
            );
            return Ok(());
        };
        let is_device = matches!(identity, Identity::Device(_));
        let access = match hold {
            Hold::Alone if is_device && span == Span::WHOLE => OFlags::RDWR | OFlags::EXCL,
            Hold::Alone => OFlags::RDWR,
            Hold::Together => OFlags::RDONLY,
        };
        let opened = rustix::fs::open(&place, access | OFlags::CLOEXEC, Mode::empty());
        let opened = opened.and_then(|fd| Ok((rustix::fs::fstat(&fd)?, File::from(fd))));
        match opened {
            Ok((stat, file)) if identity.is_of(&stat) => {
                self.lock(&place, &file, &stat, span, hold)?;
                self.descend(file.as_fd(), &stat, span, hold, depth + 1)?;
                self.held.push(file);
            }
            Err(Errno::BUSY) => {
                let stat = rustix::fs::stat(&place).ok();
                let user = stat.and_then(|stat| DeviceNumber::of(stat.st_rdev).user());
                let pid = stat.and_then(|stat| range_holder(&stat, span).or_else(|| device_opener(&stat)));
                return Err(self.in_use(&place, pid, user));
            }
            Ok(_) => tracing::warn!(path = %self.path.display(), below = %place.display(), "what this store lies on was replaced just now"),
            Err(error) => {
                tracing::warn!(
                    %error,
                    path = %self.path.display(),
                    below = %place.display(),
                    "what this store lies on cannot be opened to lock it"
                );
            }
        }
        Ok(())
    }

    /// Locks one layer.
    fn lock(&self, place: &Path, file: &File, stat: &Stat, span: Span, hold: Hold) -> Result<(), OpenError> {
        match lock_range(file, span, hold) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.in_use(place, range_holder(stat, span), None)),
            Err(error) => {
                tracing::warn!(%error, place = %place.display(), "this file system locks no ranges: only `flock` keeps others away");
                Ok(())
            }
        }
    }

    fn in_use(&self, place: &Path, pid: Option<u32>, user: Option<String>) -> OpenError {
        let process = pid.map(|pid| match command_of(pid) {
            Some(command) => format!("process {pid} ({command})"),
            None => format!("process {pid}"),
        });
        let holder = match (process, user) {
            (Some(process), _) => {
                Some(if place == self.path { process } else { format!("{process} has {}, on which it lies", place.display()) })
            }
            (None, Some(user)) => Some(format!("it lies on {}, {user}", place.display())),
            (None, None) if place != self.path => Some(format!("somebody has {}, on which it lies", place.display())),
            (None, None) => None,
        };
        // A lock without a process is one of a dead process, until its last requests are over; or this process may not see the holder.
        OpenError::InUse { path: self.path.to_owned(), holder, may_be_dead: pid.is_none_or(has_ended) }
    }
}

/// Returns the path by which the file or device of this identity can be opened: its own, or that path in another mount namespace of this
/// machine.
pub(super) fn reach(place: &Path, identity: Identity) -> Option<PathBuf> {
    let is_it = |place: &Path| rustix::fs::stat(place).is_ok_and(|stat| identity.is_of(&stat));
    if is_it(place) {
        return Some(place.to_owned());
    }
    let elsewhere = place.strip_prefix("/").ok()?;
    mount_roots().into_iter().map(|root| root.join(elsewhere)).find(|place| is_it(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn span(start: u64, bytes: u64) -> Span {
        Span { start, bytes: Some(bytes) }
    }

    #[test]
    fn locks_of_two_open_files_meet_only_in_bytes_that_they_share() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (a, b, c, d) = (open(), open(), open(), open());
        assert_eq!(lock_range(&a, span(0, 4096), Hold::Alone), Ok(true));
        assert_eq!(lock_range(&b, span(4096, 4096), Hold::Alone), Ok(true));
        assert_eq!(lock_range(&c, span(4095, 2), Hold::Alone), Ok(false));
        assert_eq!(lock_range(&c, Span::WHOLE, Hold::Together), Ok(false));
        assert_eq!(lock_range(&c, span(8192, 1), Hold::Together), Ok(true));
        assert_eq!(lock_range(&d, span(8192, 1), Hold::Together), Ok(true));
        assert_eq!(lock_range(&d, span(8192, 1), Hold::Alone), Ok(false));
        let stat = rustix::fs::fstat(&a).unwrap();
        assert_eq!(range_holder(&stat, span(4095, 1)), Some(std::process::id()));
        assert_eq!(range_holder(&stat, span(8193, 1)), None);
        drop(a);
        assert_eq!(lock_range(&c, span(0, 4096), Hold::Alone), Ok(true));
    }
}
