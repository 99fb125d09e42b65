//! What a [`World`](crate::world::World) runs: the engine, or anything else that answers events with actions.

use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::interface::{Action, Event};
use onefold_engine::units::Time;
use std::sync::Arc;

/// A state machine that speaks the engine's interface.
pub trait Machine {
    /// Takes in one event and appends what is to be done to `out`.
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>);
    /// What it says it is doing, for tables of states.
    fn phase(&self) -> &'static str;
}

/// Buffers of plain memory. They come filled with a byte that no content of the kit has in every place, so that a forgotten fill shows.
pub struct PlainHome;

impl Home for PlainHome {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        let mut buffer = BufferMut::zeroed(blocks);
        buffer.bytes_mut().fill(0xa5);
        buffer
    }

    fn give_back(&self, frames: Box<[Frame]>, _tag: u32) {
        drop(frames);
    }
}
