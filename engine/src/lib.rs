//! The engine of Onefold: a deduplicating block device as a pure state machine. Events and the time in, actions out.
//!
//! It has no thread, clock, file descriptor or unseeded randomness, so the very same code runs under a simulated disk that crashes at every
//! point. The modules stand in the order in which a write passes them; `ARCHITECTURE.md` tells the road in numbered steps.

pub mod interface;
pub mod settings;

pub mod buffer;
pub mod memory;
pub mod units;

mod answers;
mod background;
mod charge;
mod contents;
mod engine;
mod io;
mod ledger;
mod recovery;
mod requests;
mod schedule;
mod scheme;
mod store;
mod tables;

pub mod fingerprint;
mod index;
mod space;

pub mod stats;

pub mod check;
pub mod format;

pub use engine::Engine;

/// A map whose order of iteration follows from what was put into it, so that a run can be replayed.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, rustc_hash::FxBuildHasher>;
