//! Everything of the binary but its command line: the only place with descriptors, threads, clocks and signals.

pub mod frontend;
pub mod runtime;
pub mod target;
