//! An attachment: one volume, one process that serves it, and what both show to others. This module is what the processes of an attachment
//! and the commands know of each other; what a server does is in [`crate::server`].
//!
//! 1. Everything lies in one directory that only its owner can enter: a record of each attached volume, its control socket, its log.
//! 2. A record counts only while its attachment lives ([`session`]): the numbers of processes in it are for people, since numbers are used
//!    again.
//! 3. A server in the background says on its standard output, once, that it serves or why it does not; what became of it at the end it
//!    leaves in a file.

pub mod control;
pub mod deadline;
pub mod directory;
pub mod find;
pub mod known;
pub mod launch;
pub mod plan;
pub mod process;
pub mod record;
pub mod session;
pub mod whereabouts;
