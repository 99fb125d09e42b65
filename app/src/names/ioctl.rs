//! Requests to a file system whose arguments are a buffer of numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A buffer of arguments, aligned as the structures of the kernel want it. Offsets are in bytes.
pub struct Buffer(Vec<u64>);

impl Buffer {
    /// Returns a buffer of zeros.
    pub fn of_bytes(bytes: usize) -> Self {
        Self(vec![0; bytes.div_ceil(8)])
    }

    /// Returns the number of 8 bytes at an offset that is a multiple of 8.
    ///
    /// # Panics
    /// Outside the buffer.
    pub fn u64(&self, at: usize) -> u64 {
        self.0[at / 8]
    }

    /// Sets it.
    ///
    /// # Panics
    /// Outside the buffer.
    pub fn set_u64(&mut self, at: usize, number: u64) {
        self.0[at / 8] = number;
    }

    /// Sets the number of 4 bytes at an offset that is a multiple of 4.
    ///
    /// # Panics
    /// Outside the buffer.
    pub fn set_u32(&mut self, at: usize, number: u32) {
        let mut bytes = self.0[at / 8].to_ne_bytes();
        bytes[at % 8..at % 8 + 4].copy_from_slice(&number.to_ne_bytes());
        self.0[at / 8] = u64::from_ne_bytes(bytes);
    }

    /// Returns the number of 4 bytes at an offset that is a multiple of 4.
    ///
    /// # Panics
    /// Outside the buffer.
    pub fn u32(&self, at: usize) -> u32 {
        let bytes = self.0[at / 8].to_ne_bytes();
        u32::from_ne_bytes(bytes[at % 8..at % 8 + 4].try_into().expect("four bytes"))
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Returns the address for a structure that points to this buffer.
    pub fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len() * 8
    }
}

/// Makes a request with this buffer.
///
/// # Errors
/// As the kernel has them.
///
/// # Safety
/// The kernel reads and writes no more of the buffer than it has, and what it points to outlives the call.
#[allow(unsafe_code)]
pub unsafe fn ask(file: impl AsFd, request: libc::c_ulong, buffer: &mut Buffer) -> io::Result<()> {
    // SAFETY: as the caller promises.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request, buffer.0.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
