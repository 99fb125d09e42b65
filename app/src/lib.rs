//! Everything of the binary but its `main`: the only place with descriptors, threads, clocks and signals.

pub mod device;
pub mod frontend;
pub mod runtime;
pub mod target;
