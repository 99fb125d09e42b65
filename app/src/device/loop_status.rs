//! The kernel's data about a loop device: the file behind it, and the part of that file that it shows.

use rustix::io::Errno;
use rustix::ioctl;
use std::os::fd::AsFd;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct loop_info64` of `linux/loop.h`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LoopInfo {
    /// `st_dev` and `st_ino` of the file behind it.
    pub device: u64,
    pub inode: u64,
    /// `st_rdev`, where that file is a device.
    pub rdevice: u64,
    /// The first byte of the file that the loop device shows.
    pub offset: u64,
    /// The number of bytes that it shows; 0 for all up to the end.
    pub size_limit: u64,
    pub number: u32,
    pub encrypt_type: u32,
    pub encrypt_key_size: u32,
    pub flags: u32,
    pub file_name: [u8; 64],
    pub crypt_name: [u8; 64],
    pub encrypt_key: [u8; 32],
    pub init: [u64; 2],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

/// Returns the status of an open loop device, or of an open partition of one.
///
/// # Errors
/// When it is no loop device, or no file is behind it.
pub fn loop_status(device: impl AsFd) -> Result<LoopInfo, Errno> {
    // LOOP_GET_STATUS64, from the same header.
    const GET_STATUS64: ioctl::Opcode = 0x4C05;
    // SAFETY: the kernel writes one `loop_info64`, which is plain bytes.
    unsafe { ioctl::ioctl(device, ioctl::Getter::<GET_STATUS64, LoopInfo>::new()) }
}
