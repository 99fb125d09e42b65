//! The lock on a backing store (R7). The open file that carries the I/O holds it, so that a dead server's last requests are over before the
//! next server begins: the kernel releases it when the last request on that open file has ended, even if the process is long gone. The
//! layers below the store are locked too (`guard.rs`).

use super::guard::guard;
use super::open_error::OpenError;
use super::span::Span;
use super::sysfs::{DeviceNumber, command_of, device_opener, has_ended, lock_holder, range_holder};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Opens `path` and locks it: exclusively for writing, shared with other readers for reading. Block devices are also claimed (`O_EXCL`),
/// which keeps mounts and stacked devices away. Also returns the files that keep others away from the layers below.
///
/// # Errors
/// When it is missing, is in use, or is neither a file nor a block device.
pub fn open_locked(path: &Path, is_read_only: bool) -> Result<(File, Stat, Vec<File>), OpenError> {
    let system = |what, errno: Errno| OpenError::of_errno(path, what, errno);
    let before = rustix::fs::stat(path).map_err(|e| system("look at", e))?;
    let kind = FileType::from_raw_mode(before.st_mode);
    let exclusive = match kind {
        FileType::RegularFile => OFlags::empty(),
        FileType::BlockDevice => OFlags::EXCL,
        _ => return Err(OpenError::NotAStore { path: path.to_owned() }),
    };
    let access = if is_read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let fd = rustix::fs::open(path, access | exclusive | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| match errno {
        Errno::BUSY => match DeviceNumber::of(before.st_rdev).user() {
            Some(user) => OpenError::InUse { path: path.to_owned(), holder: Some(user), may_be_dead: false },
            None => in_use(path, &before),
        },
        other => system("open", other),
    })?;
    let operation = if is_read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    let stat = rustix::fs::fstat(&fd).map_err(|e| system("look at", e))?;
    rustix::fs::flock(&fd, operation).map_err(|errno| match errno {
        Errno::WOULDBLOCK => in_use(path, &stat),
        other => system("lock", other),
    })?;
    let file = File::from(fd);
    let guards = guard(path, &file, &stat, is_read_only)?;
    Ok((file, stat, guards))
}

fn in_use(path: &Path, stat: &Stat) -> OpenError {
    // A server whose store lies above this one has no `flock` here, and one that opened another node of the device has no lock at all.
    let pid = lock_holder(stat.st_dev, stat.st_ino).or_else(|| range_holder(stat, Span::WHOLE)).or_else(|| device_opener(stat));
    let has_ended = pid.is_some_and(has_ended);
    // A lock without a process is held by the last requests of one that has ended; or this process may not see the holder.
    let may_be_dead = has_ended || pid.is_none();
    let holder = pid.map(|pid| match command_of(pid) {
        _ if has_ended => format!("process {pid}, which has ended, has requests under way"),
        Some(command) => format!("process {pid} ({command})"),
        None => format!("process {pid}"),
    });
    OpenError::InUse { path: path.to_owned(), holder, may_be_dead }
}
