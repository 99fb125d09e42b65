//! The server of an attached volume: the work of a process that serves one, from its opening to its end.

pub mod naming;
mod questions;
pub mod recording;
pub mod serving;
