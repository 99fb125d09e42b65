//! Step 1 of a request's road: it arrives. Each front-end speaks one protocol to its clients and [`Target`](crate::target::Target) inwards.
//!
//! 1. A front-end knows nothing of dedup, digests or the medium.
//! 2. Every request that it took is answered, or its client is gone.
//! 3. Request bytes live in memory that [`Target::buffer`](crate::target::Target::buffer) handed out, so that one budget bounds all
//!    front-ends.

pub mod fuse;
pub mod nbd;

use crate::error::Error;
use crate::target::SharedTarget;

/// Serves one target to clients until it is stopped.
pub trait Frontend: Send {
    /// What the user chose for it.
    type Config
    where
        Self: Sized;

    /// Serves `target` from now on.
    ///
    /// # Errors
    /// When an address or path in `config` cannot be used; the message says what to do.
    fn start(config: Self::Config, target: SharedTarget) -> Result<Self, Error>
    where
        Self: Sized;

    /// Where clients find it: an NBD URI or the path of a block device.
    fn location(&self) -> String;

    /// Takes no more requests, lets those in flight finish, and lets its clients go. A second call does nothing.
    ///
    /// # Errors
    /// When something could not be undone (a socket removed, a device detached); the rest was.
    fn stop(&mut self) -> Result<(), Error>;
}
