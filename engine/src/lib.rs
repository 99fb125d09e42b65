//! The engine of Onefold: a deduplicating block device as a pure state machine. Events and the time in, actions out.
//!
//! It has no thread, clock, file descriptor or unseeded randomness, so the very same code runs under a simulated disk that crashes at every
//! point. `ARCHITECTURE.md` has the layers of the modules, and the path of a write in numbered steps.

pub mod interface;
pub mod settings;

pub mod adaptation;
pub mod buffer;
pub mod memory;
pub mod policy;
pub mod units;

mod ack_journal;
mod answers;
mod background;
mod charge;
mod class;
mod contents;
mod engine;
mod io;
mod ledger;
mod map;
mod orders;
mod pool;
mod recovery;
mod requests;
mod schedule;
mod scheme;
mod tables;

pub mod fingerprint;
pub mod index;
mod space;

pub mod stats;

pub mod check;
pub mod format;
pub mod layouts;
pub mod repair;

#[cfg(test)]
mod test_kit;

pub use engine::Engine;
