//! The laboratory: benches that count, replay in virtual time, a model of flash, policies for the index, and the papers' report.

pub mod codecs;
pub mod counts;
pub mod flash;
pub mod index;
pub mod papers;
pub mod replay;
pub mod steps;
pub mod sweeps;
