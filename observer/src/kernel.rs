//! The running kernel's own account of its types and functions, and of whether it is locked down.

use aya_obj::btf::{Btf, BtfKind};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The kernel's description of its types.
pub(crate) const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Addresses of the kernel's functions that end a bio. 0 stands for a function that is not there or is hidden.
#[derive(Default, Debug)]
pub(crate) struct Ends([u64; Ends::ALL.len()]);

impl Ends {
    /// The global of the program; the function; the type that its bio leads to. The verifier refuses a program that may reach a type which
    /// the kernel's BTF lacks, as it lacks those of a file system that is a module: then the global stays 0.
    const ALL: [(&str, &str, &str); 9] = [
        ("IOMAP_DIRECT_END", "iomap_dio_bio_end_io", "iomap_dio"),
        ("DISK_DIRECT_END", "blkdev_bio_end_io", "bio"),
        ("DISK_DIRECT_ASYNC_END", "blkdev_bio_end_io_async", "bio"),
        ("WAITED_FOR_END", "submit_bio_wait_endio", "bio"),
        ("OLD_DIRECT_END", "dio_bio_end_io", "bio"),
        ("OLD_DIRECT_ASYNC_END", "dio_bio_end_aio", "bio"),
        ("BTRFS_END", "btrfs_simple_end_io", "btrfs_bio"),
        ("XFS_BUFFER_END", "xfs_buf_bio_end_io", "xfs_buf"),
        ("BUFFER_HEAD_END", "end_bio_bh_io_sync", "buffer_head"),
    ];

    /// Looks the functions up. A kernel that hides them from this process gives none of them.
    pub fn look_up(types: &Btf) -> Self {
        let mut ends = Self::default();
        let Ok(symbols) = File::open("/proc/kallsyms") else { return ends };
        for line in BufReader::new(symbols).lines().map_while(Result::ok) {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some("t" | "T"), Some(function)) = (words.next(), words.next(), words.next()) else { continue };
            let Some(found) = Self::ALL.iter().position(|(_, name, _)| *name == function) else { continue };
            let is_known = types.id_by_type_name_kind(Self::ALL[found].2, BtfKind::Struct).is_ok();
            if let (true, Ok(address)) = (is_known, u64::from_str_radix(address, 16)) {
                ends.0[found] = address;
            }
        }
        ends
    }

    /// Returns the globals with their values.
    pub fn globals(&self) -> impl Iterator<Item = (&'static str, &u64)> {
        Self::ALL.iter().map(|(global, _, _)| *global).zip(&self.0)
    }
}

/// Returns whether the kernel lets nobody read its memory.
pub(crate) fn is_locked_down() -> bool {
    std::fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|modes| modes.contains("[confidentiality]"))
}
