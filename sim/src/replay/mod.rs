//! Replay of a trace in virtual time: the real engine, or a baseline, on a counting device (`onefold-lab replay`).
//!
//! 1. Nothing is taken from the machine's word: units and flushes are counted where they reach the device, and the machine's ledger must
//!    agree to the unit.
//! 2. Replay keeps dependencies (`trace/src/replay/rule.rs`), and think times as recorded.
//! 3. The same trace on the same scheme gives the same report, whatever the machine's speed.

pub mod bound;
pub mod figures;
pub mod phases;
pub mod reads;
pub mod report;
pub mod run;
pub mod scheme;
pub mod timed;

pub use onefold_trace::replay::{asks, rule, truth};
