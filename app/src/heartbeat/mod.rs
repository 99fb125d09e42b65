//! The guard of a volume whose store several hosts reach (decision 0086): locks end at the kernel that holds them, a block on the store
//! does not.
//!
//! 1. Whoever finds the block served by another host waits two intervals. A server that lives has written it by then, and is left alone.
//! 2. A claim is written first, then two intervals pass, then the superblock is read, and the claim has to stand still. A server that lives
//!    has read the claim by then, and has stopped or has written over it. Of two claims that meet, one stays. A claim whose volume cannot
//!    be opened is released.
//! 3. A server reads the block before each beat. Where it is not what it wrote last, another host has claimed the volume: it stops, and
//!    writes nothing more, the block least of all.
//! 4. What this very kernel wrote on this store needs no wait: its locks (`device/guard.rs`) keep servers apart.
//! 5. The block is read past every cache. A store without direct I/O cannot be guarded.

mod beats;
mod claim;
mod watch;

pub use beats::Guarded;
pub use claim::Claim;
pub use watch::{Here, Pause, Purpose, announce, look_first, watch};
