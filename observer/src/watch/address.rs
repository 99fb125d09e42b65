//! The address of one page of the kernel, from which those of all others follow.

#![allow(unsafe_code)] // mmap of a disk

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::null_mut;

/// The most pages of the disk that are read.
const TRIES: u64 = 64;

/// Reads pages of a disk that are not in memory, one by one, until `knows`. Each read is a bio whose buffer head tells a page's address.
///
/// # Errors
/// Fails if the disk cannot be opened or mapped.
pub(super) fn teach(disk: &Path, bytes: u64, knows: impl Fn() -> bool) -> io::Result<()> {
    let file = File::open(disk)?;
    let page_bytes = rustix::param::page_size();
    let pages = bytes / page_bytes as u64;
    for at in 0..TRIES.min(pages) {
        if knows() {
            break;
        }
        // Spread over the disk: where a file system keeps what it needs, pages are in memory already.
        let page = (pages - 1) - (at * pages / TRIES).min(pages - 1);
        touch(&file, page * page_bytes as u64, page_bytes)?;
    }
    Ok(())
}

fn touch(disk: &File, offset: u64, page_bytes: usize) -> io::Result<()> {
    // SAFETY: the kernel chooses a place where nothing is mapped.
    let page = unsafe { mmap(null_mut(), page_bytes, ProtFlags::READ, MapFlags::SHARED, disk, offset) }?;
    // SAFETY: it was mapped just now, and is as long. Without read-ahead, one page is read by itself, which takes a buffer head.
    unsafe { madvise(page, page_bytes, Advice::Random) }?;
    // By a system call: of a page that cannot be read it fails, where a load would end the process.
    let mut byte = [0_u8];
    let source = libc::iovec { iov_base: page, iov_len: 1 };
    let target = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: both lie in memory of this process, and the target is as long as it says.
    let _ = unsafe { libc::process_vm_readv(libc::getpid(), &raw const target, 1, &raw const source, 1, 0) };
    // SAFETY: nothing refers to it any more.
    Ok(unsafe { munmap(page, page_bytes) }?)
}
