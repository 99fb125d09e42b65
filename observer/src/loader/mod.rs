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
    /// The size of the ring, a power of two of pages.
    pub ring_bytes: u32,
}

/// The descriptors of a program that is loaded and attached. The kernel removes it when they and the mappings of its maps are gone.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub ring: OwnedFd,
    pub lost: OwnedFd,
    /// It keeps the program attached, and the program keeps the maps.
    pub link: OwnedFd,
}
