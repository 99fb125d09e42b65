//! The link between a program and its tracepoint. The loader's library keeps the descriptor of its own one to itself.

#![allow(unsafe_code)] // bpf(2)

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const RAW_TRACEPOINT_OPEN: c_int = 17;

/// The part of `union bpf_attr` for this command. A program of BTF knows its tracepoint, and needs no name.
#[repr(C)]
struct Attributes {
    name: u64,
    program: c_int,
    reserved: c_uint,
}

/// Attaches a loaded program until the descriptor is closed. It closes on exec, as all descriptors that bpf(2) makes.
pub(super) fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = Attributes { name: 0, program: program.as_raw_fd(), reserved: 0 };
    // SAFETY: the structure is as long as the call is told, and the kernel only reads it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, RAW_TRACEPOINT_OPEN, &raw const attributes, size_of::<Attributes>()) };
    let descriptor = c_int::try_from(result).expect("a descriptor or -1");
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
