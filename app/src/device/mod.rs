//! Step 3 of a request's road: bytes meet the medium.
//!
//! 1. A [`Device`] carries out commands in any order and answers each exactly once, with the memory it was lent.
//! 2. Nobody changes a buffer while its command is under way (R6): a read owns its buffer, a write shares frozen ones.
//! 3. A flush completes only when everything that was completed before its submission is durable (A1). Nothing is retried after an error
//!    (A5), except a call that a signal interrupted, the rest of a transfer that the kernel cut short, and a write that was not done for
//!    want of room ([`patient`]).
//! 4. A write with FUA completes only when its own bytes are durable.
//! 5. The open file that carries the I/O also holds the lock on a backing store, and the locks on the layers below are held as long (R7),
//!    see [`backing::Backing`].

pub mod backing;
pub mod bottom;
mod commands;
pub mod enlarge;
mod facts;
mod guard;
pub mod host_map;
mod interface;
pub mod joined;
mod lock;
pub mod loop_status;
pub mod measure;
mod open_error;
pub mod patient;
pub mod plain;
mod registered;
pub mod room;
pub mod signature;
pub mod slowing;
mod span;
mod sysfs;
mod transfer;
pub mod uring;
pub mod users;

#[cfg(test)]
mod joined_tests;
#[cfg(test)]
pub mod memory;
#[cfg(test)]
mod tests;

pub use facts::StorePlace;
pub use interface::{Command, Completed, Completions, DEPTH, Device, Sink, Slowed, Work};
pub use sysfs::lock_holders;

use crate::memory::pool::Pool;
use backing::Backing;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// The method of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// `io_uring` where the kernel allows it, otherwise `plain`.
    #[default]
    Auto,
    /// `io_uring`, or fail.
    #[value(name = "io_uring", alias = "uring")]
    Uring,
    /// A few threads that read and write.
    Plain,
}

/// Threads of the plain back-end: enough to keep a flash drive's queues from running dry, few enough for a small machine.
pub const PLAIN_THREADS: usize = 8;

/// Starts a device over `backing` by this method.
///
/// # Errors
/// When the user chose io_uring and the kernel refuses it.
pub fn start(backing: Arc<Backing>, pool: &Arc<Pool>, method: Method) -> io::Result<Arc<dyn Device>> {
    if method == Method::Plain {
        return Ok(plain::Plain::start(backing, PLAIN_THREADS));
    }
    match uring::Uring::start(backing.clone(), pool.clone()) {
        Ok(device) => Ok(device),
        Err(error) if method == Method::Uring => Err(error),
        Err(error) => {
            tracing::info!(%error, "io_uring is not available here: reading and writing with {PLAIN_THREADS} threads");
            Ok(plain::Plain::start(backing, PLAIN_THREADS))
        }
    }
}
