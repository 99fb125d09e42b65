//! The interface of the machines that a world of the explorer or a rig of the laboratory runs: the engine, or anything else that answers
//! events with actions.

use super::account::Account;
use super::transcript;
use onefold_engine::Engine;
use onefold_engine::adaptation::ALL;
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::interface::{Action, Event, Legacy};
use onefold_engine::units::Time;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

/// A state machine with the engine's interface.
pub trait Machine {
    /// Handles one event and appends the resulting actions to `out`.
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>);
    /// Passes the acknowledgement journal of the last server to the machine, before the first event.
    fn replay_journal(&mut self, legacy: Legacy);

    /// Returns the number of LBNs that it mapped to another block out of line.
    fn linked_out_of_line(&self) -> u64 {
        0
    }

    /// Returns the number of containers that it opened for streams.
    fn containers_opened(&self) -> u64 {
        0
    }

    /// Returns whether duplicates are left to be looked for out of line.
    fn waits_out_of_line(&self) -> bool {
        false
    }

    /// Returns the share of writes that are to get their fingerprint at once, in per cent.
    fn selectivity(&self) -> u8 {
        ALL
    }

    /// Returns its account of its own work so far.
    fn account(&self) -> Account {
        Account::default()
    }
}

/// Buffers of plain memory. They are filled with a byte that no content of the kit consists of, so that a forgotten fill shows.
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

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step of a machine; a panic in it is returned with its place instead of being printed.
///
/// # Errors
/// Returns the message of the panic.
pub fn quietly<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PANIC.set(Some(info.to_string().replace('\n', " ")));
            } else {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(step));
    QUIET.set(false);
    result.map_err(|_| PANIC.take().unwrap_or_default())
}

/// The engine itself; anything else that could be opened in its place implements this trait as well.
impl Machine for Engine {
    fn containers_opened(&self) -> u64 {
        self.ledger().streams.iter().map(|stream| stream.containers).sum()
    }

    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let before = out.len();
        Self::step(self, now, event, out);
        transcript::hear(&out[before..]);
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        Self::replay(self, legacy);
    }

    fn linked_out_of_line(&self) -> u64 {
        Self::linked_out_of_line(self)
    }

    fn waits_out_of_line(&self) -> bool {
        let work = self.stats().out_of_line;
        work.is_on && work.waiting_lbns() + work.candidates > 0
    }

    fn selectivity(&self) -> u8 {
        Self::selectivity(self)
    }

    fn account(&self) -> Account {
        self.stats().into()
    }
}
