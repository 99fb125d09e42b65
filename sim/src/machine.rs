//! The machines that a [`World`](crate::world::World) runs: the engine, or anything else that answers events with actions.

use crate::account::Account;
use crate::disk::SimDisk;
use crate::transcript;
use crate::world::Setting;
use fastrand::Rng;
use onefold_engine::Engine;
use onefold_engine::adaptation::ALL;
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::format::copies::{Chosen, OpenError, choose, end_copies};
use onefold_engine::interface::{Action, Event, Legacy};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::{BLOCK_BYTES, Bytes, Time};
use std::cell::{Cell, RefCell};
use std::ops::Range;
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

/// Returns the superblock that is found on a device.
///
/// # Errors
/// Fails if there is no volume, or no usable one.
pub fn superblock_of(disk: &SimDisk, rng: &mut Rng) -> Result<Chosen, OpenError> {
    let bytes = Bytes(disk.blocks() * BLOCK_BYTES);
    let front = [disk.read(0, rng), disk.read(1, rng)];
    let ends = end_copies([Some(front[0].bytes()), Some(front[1].bytes())], bytes);
    let end = ends.map(|at| disk.read(at.get() / BLOCK_BYTES, rng));
    choose([Some(front[0].bytes()), Some(front[1].bytes()), Some(end[0].bytes()), Some(end[1].bytes())], bytes)
}

/// Opens the engine on what is on the device.
///
/// # Errors
/// Fails if there is no volume.
pub fn open_engine(disk: &SimDisk, setting: &Setting, rng: &mut Rng) -> Result<Box<dyn Machine>, OpenError> {
    let superblock = superblock_of(disk, rng)?.into_service();
    let settings = setting.options.settings.clone();
    let accountant = Accountant::divided(settings.memory_bytes, settings.commit_mode.has_log());
    // The share of the smallest budget would hold every page and block of so small a volume.
    for (part, most) in [(Part::Pages, setting.options.pages), (Part::ReadCache, setting.options.cached)] {
        if let Some(blocks) = most {
            accountant.take(part, accountant.limit(part).saturating_sub(blocks * BLOCK_BYTES));
        }
    }
    let mut engine = Engine::open(superblock, settings, Arc::new(PlainHome), accountant, Time(1_000_000_000));
    if setting.options.in_file {
        // Drawn from a copy, so that a seed finds again what it has found.
        engine.take_unwritten(&unwritten(disk, &mut rng.clone()));
    }
    Ok(Box::new(engine))
}

/// Draws what the host of a file has never written. It is advice, so anything may be drawn.
fn unwritten(disk: &SimDisk, rng: &mut Rng) -> Vec<Range<Bytes>> {
    let blocks = disk.blocks();
    let mut run = || {
        let first = rng.u64(0..blocks);
        Bytes(first * BLOCK_BYTES)..Bytes((first + rng.u64(1..=blocks - first)) * BLOCK_BYTES)
    };
    (0..3).map(|_| run()).collect()
}
