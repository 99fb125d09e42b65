//! Dmdedup's design: metadata in copy-on-write B-trees, so that a commit shadows every page on the path from a changed leaf to its root.
//!
//! The trees are redb's, over a back-end in memory whose writes are replayed on the device as redb issued them. What is stored where, and
//! how it is counted:
//!
//! | Dmdedup on Linux's persistent-data library | here | class |
//! |---|---|---|
//! | B-tree LBN → PBN | redb table `lbn` | `Map` |
//! | B-tree hash → PBN | redb table `fingerprints` | `Fingerprints` |
//! | space map of the data device: 2 bits a block, larger counts in a B-tree of their own | tables `counts` and `large` | `Refs` |
//! | space map of the metadata device: bitmap and index block | redb's tree of freed pages, and its system tree | `Refs` |
//! | superblock, with the roots | redb's header page, and the root of its table of tables | `Superblock` |
//!
//! An entry of `counts` has 4000 bytes, for 16,000 blocks.
//!
//! 1. One redb transaction is one commit: all pages, then the header, then one sync. redb's pages have checksums, so that one flush makes
//!    header and pages durable together (persistent-data needs another one before the superblock).
//! 2. Content is durable before the first page of its transaction is issued: by a flush, which is omitted if a completed one covers it.
//! 3. Under weak persistence, a commit follows a flush or every second. Under strong persistence, each written block is a transaction of
//!    its own (OrderMergeDedup section 4.3).
//! 4. Reference counts are kept as by Dmdedup: 2 for a new block, one of them that of its hash; an overwrite decrements the old block's
//!    count and leaves its hash; blocks with a count of 1 are collected later. Zeros are content like any other. Dmdedup passes a discard
//!    of a block that only its hash refers to on to the device, and drops the hash; here the block stays.
//! 5. With `Settings::metadata_cache`, a look-up of a write reads its leaf, if that is not among those used last. Inner nodes are always in
//!    memory: they are a hundredth of the leaves. Pages of a commit are in memory when it is composed.
//! 6. Counted with 300,000 random entries: 11 pages for the commit of one new block: 3 + 3 for the two trees of height 3, 2 for the counts,
//!    1 for freed pages, 2 for roots and header; persistent-data would write as many (3 + 3, 2, 2, 1). Two things differ. redb's inner
//!    nodes have checksums and up to 128 children, persistent-data's 252: a tree of between some 25,000 and 50,000 entries is one page
//!    higher here. A leaf holds 146 hashes here and 111 there: with many hashes a commit, fewer leaves are written here.

mod backend;
mod cache;
mod redb_file;
mod reopen;
mod store;

pub use reopen::{RecoveredTables, reopen};
pub use store::Shadow;

use super::Settings;
use super::dedup::Dedup;

/// The machine.
pub type Machine = Dedup<Shadow>;

/// Makes a volume of this size with Dmdedup's design.
#[must_use]
pub fn machine(settings: Settings) -> Machine {
    let scheme = Shadow::new(&settings);
    Dedup::one_by_one(settings, scheme)
}
