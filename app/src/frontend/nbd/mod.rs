//! The NBD front-end: a target as a network block device, on a Unix socket or on this machine's loopback address.
//!
//! 1. A client is trusted with the device's content and with nothing else: whatever it sends, omits or does not read harms no other client.
//! 2. A flush or FUA covers what was acknowledged on all connections (the promise of CAN_MULTI_CONN): all of them share one target.
//! 3. Every connection has a reader that submits batches and a writer that sends queued replies; a completion only queues.
//!
//! The modules, in the order that a client meets them:

mod clients;
mod door;
mod listen;
mod plan;
mod server;
mod supervisor;

mod socket;

pub mod meta;
pub mod negotiate;
pub mod protocol;

mod connection;
mod inbox;
mod pieces;

pub mod transmission;

mod outbox;
mod replies;

pub mod exercise;

pub use door::Nbd;
pub use listen::{Listen, Listening};
pub use server::{Config, Limits, Server};
