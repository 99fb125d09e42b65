//! Loading the BPF program by a child process. It takes 32 MiB to read the kernel's types, which a server need not have.
//!
//! 1. The two processes share a socket pair: one packet has the order, and one the answer with the descriptors.
//! 2. The child has ended and is reaped when [`load`] returns, whatever it returns, and that is within bounded time.
//! 3. Every descriptor closes on exec: no other child of the server keeps the program in the kernel.
//! 4. If the server dies meanwhile, so does the child, and descriptors on their way are closed by the kernel.

mod child;
mod link;
mod message;
mod parent;
mod program;

use crate::{Disk, Wants};
use std::os::fd::OwnedFd;

pub use child::load_for_parent;
pub(crate) use parent::load;

/// The program to be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub disk: Disk,
    pub wants: Wants,
    pub task: Task,
    /// The size of the ring, a power of two of pages.
    pub ring_bytes: u32,
}

/// What the programs are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// The facts of bios, to be joined to requests.
    Observe,
    /// All of the bios within a range of sectors.
    Record {
        start: u64,
        end: u64,
        /// Copy the content of writes.
        content: bool,
        /// See what is wished of bios before the kernel drops it, as it does for a disk without a write cache.
        wishes: bool,
    },
}

/// The descriptors of programs that are loaded and attached. The kernel removes them when these and the mappings of their maps are gone.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub ring: OwnedFd,
    pub counts: OwnedFd,
    /// They keep the programs attached, and these keep the maps. One for each program that is needed, and for each other one that this
    /// kernel takes.
    pub links: Vec<OwnedFd>,
    /// What is wished of bios is seen before the kernel drops it.
    pub sees_wishes: bool,
}
