//! Replay of a trace in virtual time: the real engine, or a baseline, on a counting device (`onefold-lab replay`).
//!
//! 1. The counts do not rely on the machine: units and flushes are counted where they reach the device, and the machine's ledger must agree
//!    to the unit.
//! 2. Replay keeps dependencies (`trace/src/replay/rule.rs`) and the recorded think times.
//! 3. The same trace on the same scheme gives the same report, whatever the machine's speed.

pub mod bound;
pub mod figures;
pub mod flash;
pub mod on_flash;
pub mod phases;
pub mod plan;
pub mod reads;
pub mod report;
pub mod run;
pub mod scheme;
pub mod streams;
pub mod timed;
pub mod working_set;

pub use onefold_trace::replay::{planned, rule, truth};
