//! What a step of the engine leaves to do.

use crate::device::Command;
use onefold_engine::buffer::Slice;
use onefold_engine::interface::{IoId, Reply};

/// What is called with the answer of a request.
pub type Done = Box<dyn FnOnce(Reply) + Send>;

/// What is to be done once the lock is released.
#[derive(Default)]
pub struct Todo {
    pub commands: Vec<Command>,
    pub answers: Vec<(Done, Reply)>,
    pub digests: Vec<(IoId, Slice)>,
    pub compressions: Vec<(IoId, Slice)>,
    pub asks_again: bool,
}
