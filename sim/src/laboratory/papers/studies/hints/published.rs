//! The published numbers of Using Hints (Mandal et al., FAST '16), section 5. Its figures are pictures, of which only the ranges in the
//! text are given; they are those of Ext4 and Nilfs2 and of all sizes of the cache together.

use super::cases::{Commit, Hint, Load};

/// The sizes of the metadata cache, in per cent of the metadata.
pub const CACHE_PERCENT: [u64; 4] = [1, 2, 5, 10];

/// A row of Table 1: the metadata of a file system under Filebench's file server, in per mille of the writes of 4 KiB, and the unique ones
/// in per mille of those.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem {
    pub name: &'static str,
    pub metadata_per_mille: u64,
    pub unique_per_mille: u64,
}

const fn row(name: &'static str, metadata_per_mille: u64, unique_per_mille: u64) -> FileSystem {
    FileSystem { name, metadata_per_mille, unique_per_mille }
}

/// Ext4, whose shares the made file server has.
pub const EXT4: FileSystem = row("ext4", 189, 612);
/// Table 1.
pub const TABLE_1: [FileSystem; 4] = [row("ext2", 116, 985), row("ext3", 280, 576), EXT4, row("nilfs2", 121, 750)];
/// The shares of metadata in it: the least and the most.
pub const METADATA: (f64, f64) = (0.116, 0.280);

/// Returns how many times faster a load is with the hint: the least and the most in the text, if it is there, and the sentence.
#[must_use]
pub fn speed_up(load: Load, commit: Commit, hint: Hint) -> Option<(f64, f64, &'static str)> {
    Some(match (load, commit, hint) {
        (Load::Dd, Commit::Thousand, Hint::All) => (2.2, 5.3, "unique-data write times decreased by 2.2 to 5.3 ×"),
        (Load::Dd, Commit::Each, Hint::All) => (1.3, 1.6, "flushing after every write: 1.3 to 1.6 ×"),
        (Load::Copy(1), Commit::Thousand, Hint::All) => (1.2, 1.8, "copy time decreased by 1.2 to 1.8 ×"),
        (Load::Copy(1), Commit::Each, Hint::All) => (0.84, 1.16, "flushing after every write: 16 % worse to 16 % better"),
        (Load::Copy(8), _, Hint::All) => (0.91, 1.55, "8:1: 9 % worse to 55 % better, over all settings"),
        (Load::FileServer(1), Commit::Thousand, Hint::Metadata) => (1.01, 1.10, "metadata marked: throughput +1 to +10 %"),
        (Load::FileServer(1), Commit::Thousand, Hint::All) => {
            (1.1, 4.5, "data and metadata marked: 1.1 to 1.2 × on Ext4, 3.5 to 4.5 × on Nilfs2")
        }
        (Load::FileServer(4), Commit::Thousand, Hint::Metadata) => {
            (1.04, 1.10, "4:1, metadata marked: +4 to +7 % on Ext4, +6 to +10 % on Nilfs2")
        }
        _ => return None,
    })
}
