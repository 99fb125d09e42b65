//! A model of flash below a device: pages that are written once, blocks that are erased as a whole, and the cleaning that this makes
//! necessary (MobileCT and APP-Dedupe section IV, which runs Microsoft's SSD extension of DiskSim: Agrawal et al., USENIX ATC 2008).
//!
//! 1. A logical page always lies on the same plane: page `n` on plane `n mod planes`. So a plane has its share of the spare pages, and a
//!    write of several pages uses several planes at once.
//! 2. A plane programs pages in order, in two open blocks: one for the host's pages, one for those that cleaning moves.
//! 3. A page is valid while a logical page maps to it. An overwrite and a trim make it invalid; only the erase of its block frees it.
//! 4. A plane cleans in the foreground, when it opens a block for the host and only its last free block is left: it moves the valid pages
//!    of a full block, and erases the block, until there are two. The host's write waits for that.
//! 5. A plane does one thing at a time, and has a channel of its own, like the packages of Agrawal et al. There is no write cache.

pub mod aging;
pub mod analytic;
pub mod counts;
pub mod drive;
mod full_blocks;
mod plane;
pub mod shape;

pub use counts::{FlashCounts, Wear};
pub use drive::Flash;
pub use shape::{Cleaning, Latencies, Shape};
