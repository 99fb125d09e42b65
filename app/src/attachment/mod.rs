//! An attachment: one volume, one process that serves it, and what both show to others. This module holds what the processes of an
//! attachment and the commands know of each other; the server's own work is in [`crate::server`].
//!
//! 1. Everything lies in one directory that only its owner can enter: a record of each attached volume, its control socket, its log.
//! 2. A record counts only while its attachment lives ([`session`]). The process numbers in it are for people, since the kernel reuses
//!    numbers.
//! 3. A server in the background reports once, on its standard output, that it serves or why it does not. At its end it leaves its result
//!    in a file.

pub mod configured;
pub mod control;
pub mod deadline;
pub mod directory;
pub mod find;
pub mod glance;
pub mod growth;
pub mod known;
pub mod launch;
pub mod limits;
pub mod plan;
pub mod process;
pub mod questions;
pub mod record;
mod server_request;
pub mod service;
pub mod session;
pub mod start;
pub mod strays;
pub mod udev;
pub mod upgrade;
pub mod whereabouts;
