//! The parts of replay that are the same in virtual time and live: the requests of a trace, the order in which they may be sent, and what
//! the volume should hold.
//!
//! 1. Replay keeps dependencies ([`rule`]) and the recorded think times.
//! 2. Content is represented by names ([`names`]); where real bytes are needed, [`bytes`] makes them from the names.

pub mod bytes;
pub mod latency;
pub mod names;
pub mod planned;
pub mod rule;
pub mod truth;
