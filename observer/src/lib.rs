//! Onefold's observer: what the kernel knew of the bios whose requests a block device's server in user space gets.
//!
//! A server over FUSE and a loop device, or over NBD, hears of places and bytes. The kernel knew more when the request was a bio: whether
//! it is metadata, how long it will live, which process wrote it, into which file. An [`Observer`] sees each bio of one disk before the
//! disk's driver does, and joins it to the request that comes of it. All of it is advice: what is not known for certain is reported as
//! unknown, and a server must work without.
//!
//! A [`Watch`] needs no server: it reports every bio of a disk, or of a part of it, with the content of writes.
//!
//! 1. An observation is joined to the request of its own bio, or to none.
//! 2. A request never waits: not for the kernel, nor for an observation.
//! 3. Memory is bounded, in the kernel and here.
//! 4. Nothing stays in the kernel when the observer is dropped, or its process dies.

mod join;
mod kernel;
mod loader;
mod mapping;
mod observation;
mod observer;
mod piece;
mod place;
mod record;
mod refused;
mod ring;
mod runs;
mod source;
mod watch;

pub use loader::load_for_parent;
pub use observation::{Comm, File, Lifetime, Name, Observation, Operation, Source};
pub use observer::{Counts, Disk, Means, Observer, Wants};
pub use piece::BioName;
pub use place::Place;
pub use refused::Refused;
pub use runs::{BLOCK_BYTES, Run, Runs};
pub use watch::{Event, Request, Watch, WatchCounts};
