//! Compression of large requests' blocks, on a thread of its own: the threads that receive, and the one that serves the device, go on
//! meanwhile.
//!
//! The thread takes blocks in the order of the requests, a few at a time, so that the first can be packed while others wait.

use onefold_engine::buffer::Slice;
use onefold_engine::format::codec::compress;
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::interface::{Event, IoId};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The number of blocks up to which they are compressed on the receiving thread: another thread would take as long to wake.
pub const FEW_BLOCKS: usize = 8;
/// The number of blocks taken at once.
const BATCH_BLOCKS: usize = 16;

/// Blocks that wait to be compressed.
#[derive(Default)]
pub struct Codec {
    state: Mutex<State>,
    changed: Condvar,
}

/// Returns the events of compressed blocks.
pub fn compressed(blocks: impl IntoIterator<Item = (IoId, Slice)>) -> impl Iterator<Item = Event> {
    blocks.into_iter().map(|(io, block)| Event::Compressed { io, data: compress(block.block(0), SLOT_DATA_MAX) })
}

#[derive(Default)]
struct State {
    blocks: VecDeque<(IoId, Slice)>,
    is_stopped: bool,
}

impl Codec {
    /// Adds blocks, and leaves `blocks` empty.
    pub fn add(&self, blocks: &mut Vec<(IoId, Slice)>) {
        let mut state = self.state();
        let was_empty = state.blocks.is_empty();
        state.blocks.extend(blocks.drain(..));
        if was_empty {
            self.changed.notify_one();
        }
    }

    /// Returns the next few blocks, once there are some. None when it was stopped.
    pub fn take(&self) -> Option<Vec<(IoId, Slice)>> {
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return None;
            }
            if !state.blocks.is_empty() {
                let some = state.blocks.len().min(BATCH_BLOCKS);
                return Some(state.blocks.drain(..some).collect());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends [`take`](Self::take), now and forever.
    pub fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::buffer::BufferMut;
    use std::sync::Arc;

    #[test]
    fn blocks_come_in_order_until_it_is_stopped() {
        let codec = Arc::new(Codec::default());
        let taker = std::thread::spawn({
            let codec = codec.clone();
            move || {
                std::iter::from_fn(|| codec.take())
                    .flatten()
                    .map(|(io, _)| io.0)
                    .inspect(|&io| assert!(io < 100))
                    .take(40)
                    .collect::<Vec<_>>()
            }
        });
        let block = BufferMut::zeroed(1).freeze().slice(0, 1);
        for first in [0, 20] {
            codec.add(&mut (first..first + 20).map(|io| (IoId(io), block.clone())).collect());
        }
        assert_eq!(taker.join().unwrap(), (0..40).collect::<Vec<_>>());
        codec.stop();
        assert!(codec.take().is_none());
    }
}
