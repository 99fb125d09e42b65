//! System calls that are no cancellation points, with everything that the library asks of the kernel.
//!
//! The functions of the C library that bear these names would let a thread be cancelled while it holds a descriptor of ours.

use std::ffi::{CStr, c_char, c_int, c_long};
use std::mem::size_of;

/// The error number of a call that failed.
pub type Errno = c_int;

/// The size of the kernel's set of signals, in bytes.
const SIGNAL_SET_BYTES: usize = 8;

fn checked(result: c_long) -> Result<c_long, Errno> {
    if result < 0 { Err(crate::errno::get()) } else { Ok(result) }
}

/// A count of bytes that the kernel returns, which is no larger than the buffer.
fn count(result: c_long) -> Result<usize, Errno> {
    checked(result).map(|bytes| usize::try_from(bytes).unwrap_or_default())
}

/// A descriptor of the library, closed at the end.
pub struct Descriptor(c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's own.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

fn descriptor(result: c_long) -> Result<Descriptor, Errno> {
    checked(result).map(|fd| Descriptor(c_int::try_from(fd).expect("a descriptor is a small number")))
}

/// All signals of the thread that can be blocked are, until the end.
pub struct Quiet(u64);

impl Quiet {
    /// Blocks the signals.
    pub fn begin() -> Self {
        let all = u64::MAX;
        let mut before = 0_u64;
        // SAFETY: both sets have the size that is given.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, SIGNAL_SET_BYTES) };
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<u64>();
        // SAFETY: the set has the size that is given, and the old one is not wanted.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const self.0, none, SIGNAL_SET_BYTES) };
    }
}

/// Returns what the kernel knows of the file behind a descriptor of the program.
pub fn status(fd: c_int) -> Result<libc::stat, Errno> {
    // SAFETY: all bytes zero is a valid value of this plain structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such structure.
    checked(unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut status) })?;
    Ok(status)
}

/// Writes the target of a symbolic link into the buffer, and returns its length.
pub fn link_target(path: &CStr, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the path ends with a zero byte, and the buffer has the length that is given.
    count(unsafe { libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), buffer.as_mut_ptr(), buffer.len()) })
}

/// Opens a directory.
pub fn open_directory(path: &CStr) -> Result<Descriptor, Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path ends with a zero byte.
    descriptor(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) })
}

/// Reads entries of a directory into the buffer, and returns their length in bytes, which is 0 at the end.
pub fn read_directory(directory: &Descriptor, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer has the length that is given.
    count(unsafe { libc::syscall(libc::SYS_getdents64, directory.0, buffer.as_mut_ptr(), buffer.len()) })
}

/// Whether only this user may enter a directory.
pub fn is_private(directory: &Descriptor) -> bool {
    // SAFETY: the call has no arguments and does not fail.
    let user = unsafe { libc::geteuid() };
    status(directory.0).is_ok_and(|status| status.st_uid == user && status.st_mode & 0o077 == 0)
}

/// Makes a socket that never blocks.
pub fn socket() -> Result<Descriptor, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the arguments are numbers.
    descriptor(unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) })
}

/// Connects a socket to the one at `path`.
///
/// # Errors
/// As the kernel has them; ENAMETOOLONG where the path is longer than a socket's may be.
pub fn connect(socket: &Descriptor, path: &[u8]) -> Result<(), Errno> {
    // SAFETY: all bytes zero is a valid value of this plain structure.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).expect("the family is a small number");
    // One byte more stays zero.
    if path.len() >= address.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    for (place, byte) in address.sun_path.iter_mut().zip(path) {
        *place = c_char::from_ne_bytes([*byte]);
    }
    // SAFETY: the address has the size that is given.
    checked(unsafe { libc::syscall(libc::SYS_connect, socket.0, &raw const address, size_of::<libc::sockaddr_un>()) }).map(drop)
}

/// Sends bytes, never with SIGPIPE, and returns how many of them.
pub fn send(socket: &Descriptor, bytes: &[u8]) -> Result<usize, Errno> {
    let nowhere = std::ptr::null::<libc::sockaddr_un>();
    // SAFETY: the buffer has the length that is given, and there is no address.
    count(unsafe { libc::syscall(libc::SYS_sendto, socket.0, bytes.as_ptr(), bytes.len(), libc::MSG_NOSIGNAL, nowhere, 0) })
}

/// Receives bytes, and returns how many, which is 0 at the end.
pub fn receive(socket: &Descriptor, buffer: &mut [u8]) -> Result<usize, Errno> {
    let nobody = std::ptr::null_mut::<libc::sockaddr_un>();
    // SAFETY: the buffer has the length that is given, and the address is not wanted.
    count(unsafe { libc::syscall(libc::SYS_recvfrom, socket.0, buffer.as_mut_ptr(), buffer.len(), 0, nobody, nobody) })
}

/// Waits until there is something to receive, or the end, at most this long. Returns whether there is.
pub fn wait_for_input(socket: &Descriptor, patience_ns: u64) -> Result<bool, Errno> {
    const NS_PER_S: u64 = 1_000_000_000;
    let mut wanted = libc::pollfd { fd: socket.0, events: libc::POLLIN, revents: 0 };
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(patience_ns / NS_PER_S).unwrap_or(libc::time_t::MAX),
        tv_nsec: c_long::try_from(patience_ns % NS_PER_S).unwrap_or_default(),
    };
    let mask = std::ptr::null::<u64>();
    // SAFETY: there is one entry, the limit outlives the call, and the mask of signals stays as it is.
    let ready = checked(unsafe { libc::syscall(libc::SYS_ppoll, &raw mut wanted, 1, &raw const limit, mask, SIGNAL_SET_BYTES) })?;
    Ok(ready > 0)
}

/// Returns the time of the monotonic clock, in nanoseconds.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes one such structure. The function is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    part(now.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(now.tv_nsec))
}
