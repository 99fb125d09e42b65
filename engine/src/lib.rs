//! The engine of Onefold: a deduplicating block device as a pure state machine. Events and the time in, actions out.
//!
//! It has no thread, clock, file descriptor or unseeded randomness, so the very same code runs under a simulated disk that crashes at every
//! point. The modules stand in the order in which a write passes them; `ARCHITECTURE.md` tells the road in numbered steps.

pub mod interface;
pub mod settings;

pub mod buffer;
pub mod memory;
pub mod units;

pub mod fingerprint;

pub mod check;
pub mod format;
