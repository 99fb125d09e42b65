//! The work that a step of the engine leaves.

use crate::device::Command;
use onefold_engine::buffer::Slice;
use onefold_engine::interface::{IoId, Op, Reply};
use std::time::Instant;

/// The function that is called with the answer of a request.
pub type Done = Box<dyn FnOnce(Reply) + Send>;

/// The sender of a request, who waits for its answer.
pub struct Waiting {
    pub done: Done,
    pub op: Op,
    /// The arrival of a client's request; none if it is the runtime's own, of which nothing is counted or recorded.
    pub since: Option<Instant>,
}

/// The work that is done once the lock is released.
#[derive(Default)]
pub struct Todo {
    pub commands: Vec<Command>,
    pub answers: Vec<(Done, Reply)>,
    /// The kinds and arrivals of the requests that they answer.
    pub replies: Vec<(Op, Instant)>,
    pub digests: Vec<(IoId, Slice)>,
    pub compressions: Vec<(IoId, Slice)>,
    pub asks_again: bool,
    /// One of the answers says that acknowledged writes of the last server are lost.
    pub tells_of_loss: bool,
}

/// Joins the engine's number and whether digests are wanted.
pub fn token(io: IoId, digest: bool) -> u64 {
    (io.0 << 1) | u64::from(digest)
}
