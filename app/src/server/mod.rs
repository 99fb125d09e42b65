//! One process serves one attached volume. This module is what such a process shows to others, and how they talk to it.
//!
//! 1. Everything lies in one directory that only its owner can enter: a record of each attached volume, its control socket, its log.
//! 2. A record counts only while the process that it names lives: the number alone says nothing, since numbers are used again.

pub mod control;
pub mod directory;
pub mod known;
pub mod process;
pub mod record;
