//! The guard of a volume whose store several hosts reach (decision 0086): locks end at the kernel that holds them, a block on the store
//! does not.
//!
//! 1. A process that finds another host's block waits two intervals. A live server has written the block by then, and keeps the volume.
//! 2. A claim is written first, then two intervals pass, then the superblock is read, and the claim has to be unchanged. A live server has
//!    read the claim by then, and has stopped or has written over it. Of two claims that meet, one stays. A claim whose volume cannot be
//!    opened is released.
//! 3. A server reads the block before each beat. Where it is not the server's last beat, another host has claimed the volume: the server
//!    stops, and writes nothing more, least of all the block.
//! 4. A block that this kernel wrote on this store needs no wait: its locks (`device/guard.rs`) keep servers apart.
//! 5. A claim is kept from the moment when it is confirmed, whatever the process does meanwhile: plan a repair, grow the volume, open it.
//! 6. The block is read past every cache. A store without direct I/O cannot be guarded.

mod beats;
mod claim;
mod kept;
mod watch;

pub use beats::Guarded;
pub use claim::{Claim, Lost};
pub use kept::Kept;
pub use watch::{Here, Pause, Purpose, announce, look_first, watch};
