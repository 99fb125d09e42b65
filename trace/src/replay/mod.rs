//! Replay, as far as it is the same in virtual time and live: what a trace asks for, what may be sent when, what the volume should hold.
//!
//! 1. Replay keeps dependencies ([`rule`]), and think times as recorded.
//! 2. Content goes by names ([`names`]); where real bytes are wanted, [`bytes`] makes them of names.

pub mod asks;
pub mod bytes;
pub mod latency;
pub mod names;
pub mod rule;
pub mod truth;
