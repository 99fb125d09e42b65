//! The loop device that makes a session's file a block device.
//!
//! 1. Direct I/O, or no device at all: with the page cache between, every block would be held twice and a flush would not arrive here in
//!    order.
//! 2. Sectors as the volume has them: 4096 bytes, or 512 where the user chose that at `create`, which lets file systems use smaller blocks.
//! 3. A device in use is never taken away. The check is an exclusive open, which the kernel refuses while it is mounted.

use super::session::system;
use crate::device::loop_status::{LoopInfo, loop_status};
use crate::device::users::users;
use crate::error::Error;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Constants and structures of `linux/loop.h`.
mod uapi {
    pub const MAJOR: u32 = 7;
    pub const CLR_FD: u64 = 0x4C01;
    pub const SET_CAPACITY: u64 = 0x4C07;
    pub const CONFIGURE: u64 = 0x4C0A;
    pub const CTL_GET_FREE: u64 = 0x4C82;
    pub const READ_ONLY: u32 = 1;
    pub const DIRECT_IO: u32 = 16;
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Config {
    descriptor: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Config>() == 304);

/// The time to wait for users that only look (udev probes each new device) and for the kernel to release the device.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes a loop device of the opened file and returns its path. [`find`] finds it by `tag` (63 bytes at most); `sector_bytes` is 512 or
/// 4096. It stays until [`detach`].
///
/// The kernel asks the file system below for this, so the server has to run. No process that holds the session's descriptors may call it:
/// if the server dies meanwhile, the caller waits for the next one.
///
/// # Errors
/// When the kernel has no loop devices to give, or cannot do direct I/O on the file.
pub fn attach(disk: BorrowedFd<'_>, tag: &str, sector_bytes: u32, read_only: bool) -> Result<PathBuf, Error> {
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let control = rustix::fs::open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| system("cannot open /dev/loop-control (is the module loop loaded? `modprobe loop`)".into(), e))?;
    let mut config = Config::new_zeroed();
    config.descriptor = u32::try_from(disk.as_raw_fd()).expect("descriptors are not negative");
    config.block_size = sector_bytes;
    config.info.flags = uapi::DIRECT_IO | if read_only { uapi::READ_ONLY } else { 0 };
    config.info.file_name = tagged(tag);

    loop {
        let number = control_free(&control)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open_device(&path, number, access)?;
        match ioctl(&device, uapi::CONFIGURE, config.as_mut_bytes().as_mut_ptr()) {
            Ok(_) => {
                return check_direct(&device).map(|()| path).inspect_err(|_| {
                    let _ = ioctl(&device, uapi::CLR_FD, std::ptr::null_mut());
                });
            }
            // Another process was faster. Take the next free one.
            Err(Errno::BUSY) => {}
            Err(e) => return Err(system("cannot make a loop device".into(), e)),
        }
    }
}

fn control_free(control: &OwnedFd) -> Result<u32, Error> {
    let number = ioctl(control, uapi::CTL_GET_FREE, std::ptr::null_mut()).map_err(|e| system("no loop device is free".into(), e))?;
    Ok(u32::try_from(number).expect("device numbers are not negative"))
}

/// Opens a loop device; makes its node where it is missing (a container's /dev).
fn open_device(path: &Path, number: u32, access: OFlags) -> Result<OwnedFd, Error> {
    let open = || rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {
            let device = rustix::fs::makedev(uapi::MAJOR, number);
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, device)
                .or_else(|e| if e == Errno::EXIST { Ok(()) } else { Err(e) })
                .map_err(|e| system(format!("cannot make {}", path.display()), e))?;
            open()
        }
        other => other,
    }
    .map_err(|e| system(format!("cannot open {}", path.display()), e))
}

fn tagged(tag: &str) -> [u8; 64] {
    let mut name = [0; 64];
    let kept = tag.len().min(name.len() - 1);
    name[..kept].copy_from_slice(&tag.as_bytes()[..kept]);
    name
}

fn check_direct(device: &OwnedFd) -> Result<(), Error> {
    let info = loop_status(device).map_err(|e| system("cannot ask for a loop device's status".into(), e))?;
    if info.flags & uapi::DIRECT_IO == 0 {
        return Err(Error::Setting("the kernel refuses direct I/O for the loop device: use NBD instead".into()));
    }
    Ok(())
}

/// Returns the loop devices that were attached with `tag`.
///
/// # Errors
/// When /sys cannot be read.
pub fn find(tag: &str) -> Result<Vec<PathBuf>, Error> {
    let read = std::fs::read_dir("/sys/block").map_err(|source| Error::System { what: "cannot read /sys/block".into(), source })?;
    let devices = read.flatten().map(|entry| Path::new("/dev").join(entry.file_name())).filter(|device| is_attached(device));
    let mut found: Vec<_> = devices
        .filter(|device| {
            let open = rustix::fs::open(device, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
            open.and_then(|open| loop_status(&open)).is_ok_and(|info| info.file_name == tagged(tag))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Whether `device` was attached with `tag`.
#[must_use]
pub fn has_tag(device: &Path, tag: &str) -> bool {
    find(tag).is_ok_and(|found| found.iter().any(|path| path == device))
}

/// Takes away, without a flush, the loop devices with `tag` that a dead session has left: at once, or when their last user closes them.
/// Each I/O on them fails. Call it only when no session with that tag lives but the caller's own, while that has no device.
pub fn clear_dead(tag: &str) {
    for device in find(tag).unwrap_or_default() {
        if let Ok(open) = rustix::fs::open(&device, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            let _ = ioctl(&open, uapi::CLR_FD, std::ptr::null_mut());
        }
    }
}

/// Makes a loop device as large as its file, which has become longer. The kernel asks the server for that, as for [`attach`].
///
/// # Errors
/// When the kernel refuses.
pub fn take_size(device: &Path) -> Result<(), Error> {
    let open = rustix::fs::open(device, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let taken = open.and_then(|open| ioctl(&open, uapi::SET_CAPACITY, std::ptr::null_mut()));
    taken.map(drop).map_err(|e| system(format!("cannot make {} larger", device.display()), e))
}

/// Flushes a loop device and takes it away; the session below it then ends, too. Returns the reason why it could not be flushed, if so: it
/// goes all the same, since the kernel keeps nothing that it could not write, and a second try would only seem to succeed. Calls
/// `before_flush` when nobody else uses the device.
///
/// # Errors
/// When it is in use (mounted, or open for more than a look): then it stays.
pub fn detach(device: &Path, before_flush: impl FnOnce()) -> Result<Option<Errno>, Error> {
    let give_up = Instant::now() + PATIENCE;
    let open = loop {
        match rustix::fs::open(device, OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
            // A read-only device has to be opened read-only.
            Err(Errno::ACCESS | Errno::ROFS) => {
                break rustix::fs::open(device, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|e| system(format!("cannot open {}", device.display()), e))?;
            }
            Ok(open) => break open,
            Err(Errno::BUSY) if Instant::now() < give_up && !is_mounted(device) => std::thread::sleep(Duration::from_millis(20)),
            Err(Errno::BUSY) => {
                let who = users(device).text().map_or_else(String::new, |who| format!(", {who}"));
                return Err(Error::Setting(format!("{} is in use{who}: unmount what is on it first (`umount {0}`)", device.display())));
            }
            Err(e) => return Err(system(format!("cannot open {}", device.display()), e)),
        }
    };
    before_flush();
    // Data written to the device itself, and not through a file system, is still in its page cache.
    let unflushed = rustix::fs::fsync(&open).err();
    match ioctl(&open, uapi::CLR_FD, std::ptr::null_mut()) {
        Ok(_) | Err(Errno::NXIO) => {}
        Err(e) => return Err(system(format!("cannot detach {}", device.display()), e)),
    }
    drop(open);
    // While another process looks at it, it goes when that closes it.
    while is_attached(device) {
        if Instant::now() > give_up {
            let who = users(device).text().unwrap_or_else(|| "somebody has it open".to_owned());
            return Err(Error::Setting(format!("{} is still open ({who}): it goes away when it is closed", device.display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(unflushed)
}

/// Whether `device` is a loop device with a file behind it.
#[must_use]
pub fn is_attached(device: &Path) -> bool {
    let is_block = std::fs::metadata(device).is_ok_and(|m| m.file_type().is_block_device());
    is_block && device.file_name().is_some_and(|name| Path::new("/sys/block").join(name).join("loop/backing_file").exists())
}

fn is_mounted(device: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let device = device.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').next() == Some(&*device))
}

#[allow(unsafe_code)]
fn ioctl(device: &OwnedFd, request: u64, argument: *mut u8) -> Result<i32, Errno> {
    // SAFETY: the callers pass null for requests that take no argument, otherwise a pointer to the whole structure that the request reads
    // or writes; that structure is plain bytes.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), request, argument) };
    if result < 0 { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)) } else { Ok(result) }
}
