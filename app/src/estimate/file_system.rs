//! The blocks that a file system takes beside those of its files, as ext4 makes them when a tree is copied to it.
//!
//! Each block of directories and inodes is written twice, to the journal and to its place, so that one of the two is a duplicate.

use super::blocks::Blocks;
use onefold_trace::scan::FileCounts;

/// The name of the kind.
pub const NAME: &str = "(ext4)";
/// The inodes of a block.
const INODES_A_BLOCK: u64 = 16;
/// The most blocks of the journal that ext4 makes of itself on volumes of up to 128 GiB: it is used again and again.
const JOURNAL_BLOCKS: u64 = 1 << 16;
/// The part of a block in which a block of directories or inodes has room, measured on Debian's documentation (0.09) and on all its shared
/// data (0.12).
const PACKED: f64 = 0.1;

/// The blocks for these trees.
#[allow(clippy::cast_precision_loss)] // counts are far below 2^52
pub fn blocks(files: &FileCounts) -> Blocks {
    let contents = files.directory_blocks + files.things.div_ceil(INODES_A_BLOCK);
    Blocks { zero: 0, written: contents + contents.min(JOURNAL_BLOCKS), contents, holders: PACKED * contents as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext4_takes_what_was_measured() {
        // Documentation and headers: 5,321 blocks on ext4 of 1 GiB, 147 of them without any file, and 242 - 11 that hold them.
        let blocks = blocks(&FileCounts { files: 12_168, unread: 0, things: 13_963, directory_blocks: 1714 });
        assert!(blocks.written.abs_diff(5352 - 147) < 50, "{}", blocks.written);
        assert!((blocks.holders - 231.0).abs() < 50.0, "{}", blocks.holders);
    }
}
