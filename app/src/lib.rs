//! The whole binary `onefold` except its `main`: the only place with descriptors, threads, clocks and signals. `onefold-lab` uses the
//! modules that both need: exit codes ([`exit`]), reports ([`output`]), devices ([`device`]), and the verbs of both
//! ([`cli::Common`]).

pub mod abort;
pub mod attachment;
pub mod bios;
pub mod cli;
pub mod commands;
pub mod detached_space;
pub mod device;
pub mod error;
pub mod estimate;
pub mod exit;
pub mod files;
pub mod forecast;
pub mod frontend;
pub mod growth;
pub mod heartbeat;
pub mod hints;
pub mod machine;
pub mod memory;
pub mod names;
pub mod output;
pub mod pages;
pub mod runtime;
pub mod server;
pub mod supervision;
pub mod target;
#[cfg(test)]
mod test_kit;
pub mod volume;
pub mod watched;
