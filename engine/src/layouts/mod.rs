//! Layouts: the blocks of a volume with copies that a file system keeps on purpose.
//!
//! A file system writes its most important structures twice, so that one bad block does not take them all. A device that stores equal
//! blocks once would undo that. So one of the copies is protected: its blocks are not deduplicated (OrderMergeDedup, section 3), and then
//! every other copy is a block of its own. Two things find them:
//!
//! - [`Survey`] asks for the blocks of a volume one by one: the partition tables, then the superblocks of the volume and of each partition,
//!   then the tables that these name. It ends with a [`Layout`].
//! - [`Watch`] looks at each write to one of the few blocks whose content decides, and reports when another survey is due.
//!
//! 1. There is no I/O here: the caller hands the blocks over.
//! 2. Structures count only at the place where their file system has them. Content that looks like one elsewhere is never looked at.
//! 3. A structure counts only if its checksum is right or, where the format has none, if its numbers and a second structure agree.
//! 4. Whatever the content is, a survey ends after at most [`READS_MAX`] reads, keeps a bounded state, and names only blocks of the volume.
//! 5. A layout is advice: a file system that a survey misses is deduplicated whole, one that it imagines costs a few shared blocks.

mod boot_record;
mod btrfs;
mod bytes;
mod ext;
mod f2fs;
mod gpt;
mod layout;
#[cfg(test)]
mod parser_tests;
mod ranges;
mod survey;
#[cfg(test)]
mod test_kit;
mod watch;
mod watched;
mod xfs;

pub use layout::{FileSystem, Kind, Layout};
pub use ranges::Protected;
pub use survey::{READS_MAX, Step, Survey};
pub use watch::Watch;
