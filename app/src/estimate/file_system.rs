//! The blocks that a file system takes beside those of its files, as ext4 makes them when a tree is copied to it.
//!
//! Each block of directories and inodes is written twice, to the journal and to its place, so that one of the two is a duplicate. The
//! journal is used again and again, so that it holds no more than its size.

use super::blocks::Blocks;
use onefold_trace::scan::FileCounts;

/// The name of the kind.
pub const NAME: &str = "(ext4)";
/// The inodes of a block.
const INODES_A_BLOCK: u64 = 16;
/// The blocks of a file system, and those of the journal that `mkfs.ext4` makes of itself where there are fewer. It makes none below 8 MiB,
/// which no volume has.
const JOURNALS: [(u64, u64); 7] = [
    (1 << 15, 1 << 10),
    (1 << 18, 1 << 12),
    (1 << 19, 1 << 13),
    (1 << 22, 1 << 14),
    (1 << 23, 1 << 15),
    (1 << 24, 1 << 16),
    (1 << 25, 1 << 17),
];
/// The blocks of the largest journal.
const JOURNAL_MOST: u64 = 1 << 18;
/// The part of a block in which a block of directories or inodes has room, measured on Debian's documentation (0.09) and on all its shared
/// data (0.12).
const PACKED: f64 = 0.1;

/// The blocks for these trees, whose files have `content` blocks. A fifth of the file system stays free.
#[allow(clippy::cast_precision_loss)] // counts are far below 2^52
pub fn blocks(files: &FileCounts, content: u64) -> Blocks {
    let contents = files.directory_blocks + files.things.div_ceil(INODES_A_BLOCK);
    let journaled = contents.min(journal((content + contents) * 5 / 4));
    Blocks { zero: 0, written: contents + journaled, contents, holders: PACKED * contents as f64 }
}

/// The blocks of the journal in a file system of this number of blocks.
fn journal(blocks: u64) -> u64 {
    let fewer = JOURNALS.iter().find(|(limit, _)| blocks < *limit);
    fewer.map_or(JOURNAL_MOST, |(_, journal)| *journal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext4_takes_what_was_measured() {
        // Documentation and headers: 5,321 blocks on ext4 of 1 GiB, 147 of them without any file, and 242 - 11 that hold them.
        let blocks = blocks(&FileCounts { files: 12_168, unread: 0, things: 13_963, directory_blocks: 1714 }, 200_000);
        assert!(blocks.written.abs_diff(5352 - 147) < 50, "{}", blocks.written);
        assert!((blocks.holders - 231.0).abs() < 50.0, "{}", blocks.holders);
    }

    #[test]
    fn the_journal_is_used_again() {
        // All of /usr: 28,895 blocks beside those of files, and 16,379 in the journal, on ext4 of 10 GiB.
        let files = FileCounts { files: 132_643, unread: 0, things: 155_750, directory_blocks: 18_032 };
        let blocks = blocks(&files, 1_487_892);
        assert!(blocks.written.abs_diff(28_895 + 16_379) < 1500, "{}", blocks.written);
        // What mkfs.ext4 makes of 1 GiB, 20 GiB and 200 GiB.
        assert_eq!([1 << 18, 5 << 20, 50 << 20].map(journal), [1 << 13, 1 << 15, 1 << 18]);
    }
}
