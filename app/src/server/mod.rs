//! The server of an attached volume: what a process does that serves one, from its opening to its end.

pub mod recording;
pub mod serving;
