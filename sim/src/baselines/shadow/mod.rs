//! Dmdedup's way: metadata in copy-on-write B-trees, so that a commit shadows every page on the road from a changed leaf to its root.
//!
//! The trees are redb's, over a back-end in memory whose writes go to the device as redb asked for them. What stands where, and how it is
//! counted:
//!
//! | Dmdedup on Linux's persistent-data library | here | class |
//! |---|---|---|
//! | B-tree LBN → PBN | redb table `lbn` | `Map` |
//! | B-tree hash → PBN | redb table `fingerprints` | `Fingerprints` |
//! | space map of the data device: 2 bits a block, larger counts in a B-tree of their own | tables `counts` (4000 bytes an entry, for 16,000 blocks) and `large` | `Refs` |
//! | space map of the metadata device: bitmap and index block | redb's tree of freed pages, and its system tree | `Refs` |
//! | superblock, with the roots | redb's header page, and the root of its table of tables | `Superblock` |
//!
//! 1. One redb transaction is one commit: all pages, then the header, then one sync. redb's pages carry checksums, so that one flush makes
//!    header and pages durable together (persistent-data needs another before the superblock).
//! 2. Content is durable before the first page of its transaction is issued: a flush, left out where a completed one covers it.
//! 3. Weak: a commit at a flush or every second. Strong: each block written is a transaction of its own (OrderMergeDedup section 4.3).
//! 4. Reference counts as Dmdedup keeps them: 2 for a new block, one of them its hash's; an overwrite lowers the old block's count and
//!    leaves its hash; what is down to 1 is collected later. Zeros are content like any other.
//!    Dmdedup hands a discard of a block that only its hash holds down to the device, hash and all; here the block stays.
//! 5. Counted with 300,000 random entries: 11 pages for the commit of one new block: 3 + 3 for the two trees of height 3, 2 for the counts, 1
//!    for freed pages, 2 for roots and header; persistent-data would write as many (3 + 3, 2, 2, 1). Two things differ. redb's inner nodes
//!    carry checksums and have up to 128 children, persistent-data's 252: a tree of between some 25,000 and 50,000 entries is one page higher
//!    here. A leaf holds 146 hashes here and 111 there: with many hashes a commit, fewer leaves are written here.

mod backend;
mod reopen;
mod store;
mod walk;

pub use reopen::{Found, reopen};
pub use store::Shadow;

use super::Settings;
use super::dedup::Dedup;

/// The machine.
pub type Machine = Dedup<Shadow>;

/// Dmdedup's design over a volume of this size.
#[must_use]
pub fn machine(settings: Settings) -> Machine {
    let scheme = Shadow::new(&settings);
    Dedup::one_by_one(settings, scheme)
}
