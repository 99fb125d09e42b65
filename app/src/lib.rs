//! Everything of the binary but its `main`: the only place with descriptors, threads, clocks and signals.

pub mod cli;
pub mod commands;
pub mod detached_space;
pub mod device;
pub mod exit;
pub mod frontend;
pub mod heartbeat;
pub mod live;
pub mod output;
pub mod runtime;
pub mod server;
pub mod supervision;
pub mod target;
#[cfg(test)]
mod test_kit;
pub mod volume;
