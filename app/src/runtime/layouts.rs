//! The layouts of the file systems on a volume that is served: what they keep twice on purpose is protected.
//!
//! 1. A survey reads the volume as a client would: when its server begins, and when a write may have changed what the last survey found.
//! 2. A write of a superblock may still be on its way when the survey reads its block. So after the last change there are two surveys, the
//!    second when everything has long arrived.
//! 3. The engine learns the ranges by an order. It changes nothing where they are as before.

use super::volume::Volume;
use crate::target::Incoming;
use onefold_engine::format::ProtectedRange;
use onefold_engine::interface::Event;
use onefold_engine::layouts::{Layout, Step, Survey, Watch};
use onefold_engine::units::{BLOCK_BYTES, Blocks, Lbn, index};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

/// The time from the last change to the first survey, and to the second.
const SOON: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// The longest time that a survey waits for a block: a full volume may keep it waiting for long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file system that was found, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub kind: String,
    /// Its first byte on the volume.
    pub first_byte: u64,
}

/// What was found and is protected, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    pub file_systems: Vec<Found>,
    /// The blocks that layouts have protected.
    pub blocks: u64,
    /// Those that should be protected, and for whose ranges the superblock has no room.
    pub left_out: u64,
}

/// What is known of the layouts of a volume.
#[derive(Default)]
pub struct Layouts {
    watch: RwLock<Watch>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The last write that may have changed a layout, which two surveys have to follow.
    changed: Option<Instant>,
    is_over: bool,
    protection: Protection,
}

impl Layouts {
    /// Looks at a request: a write may change a layout.
    pub fn look_at(&self, request: &Incoming) {
        let Incoming { offset, length, buffer: Some(buffer), .. } = request else { return };
        let (offset, length) = (*offset, *length);
        let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        let watched = {
            let watch = self.watch.read().unwrap_or_else(PoisonError::into_inner);
            watch.watched_in(Lbn(first)..Lbn(end))
        };
        for lbn in watched {
            let begin = lbn.0 * BLOCK_BYTES;
            let is_whole = offset <= begin && begin + BLOCK_BYTES <= offset + length;
            let changes = !is_whole || {
                let mut watch = self.watch.write().unwrap_or_else(PoisonError::into_inner);
                watch.changes(lbn, buffer.block(index(lbn.0 - first)))
            };
            if changes {
                self.state().changed = Some(Instant::now());
                self.changed.notify_all();
            }
        }
    }

    /// What was found and is protected.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.state().protection.clone()
    }

    /// Ends the thread that surveys.
    pub fn stop(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this long after the last change, or until a change comes. False: it is over.
    fn wait_until(&self, due: Option<Instant>) -> bool {
        let state = self.state();
        if state.is_over {
            return false;
        }
        let state = match due {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        !state.is_over
    }
}

/// Has the layouts of a volume surveyed, as long as it is served. `owned`: the ranges that its owner protects.
pub fn begin(volume: &Arc<Volume>, owned: Vec<ProtectedRange>) {
    let volume = Arc::downgrade(volume);
    let begun = std::thread::Builder::new().name("layouts".to_owned()).spawn(move || watch(&volume, &owned));
    begun.map(drop).unwrap_or_else(|error| tracing::warn!(%error, "file systems are not looked for: there is no thread for it"));
}

fn watch(volume: &Weak<Volume>, owned: &[ProtectedRange]) {
    let Some(layouts) = volume.upgrade().map(|volume| volume.layouts().clone()) else { return };
    survey(volume, &layouts, owned);
    loop {
        let Some(changed) = layouts.state().changed else { if layouts.wait_until(None) { continue } else { return } };
        for soon in SOON {
            while Instant::now() < changed + soon {
                if !layouts.wait_until(Some(changed + soon)) {
                    return;
                }
            }
            survey(volume, &layouts, owned);
        }
        // Changes that came meanwhile have surveys of their own.
        let mut state = layouts.state();
        state.changed = state.changed.filter(|&last| last > changed);
    }
}

/// Surveys the volume once, and has protected what it finds.
fn survey(volume: &Weak<Volume>, layouts: &Layouts, owned: &[ProtectedRange]) {
    let Some(blocks) = volume.upgrade().map(|volume| volume.blocks()) else { return };
    let mut survey = Survey::begin(Blocks(blocks));
    let layout = loop {
        match survey.step() {
            Step::Done(layout) => break layout,
            Step::Read(lbn) => {
                let Some(volume) = volume.upgrade() else { return };
                match volume.read_block(lbn, PATIENCE) {
                    Some(block) => survey.take(&block),
                    None => survey.take_none(),
                }
            }
        }
    };
    take(volume, layouts, &layout, owned);
}

fn take(volume: &Weak<Volume>, layouts: &Layouts, layout: &Layout, owned: &[ProtectedRange]) {
    let protected = layout.protected(owned);
    let found = |file_system: &onefold_engine::layouts::FileSystem| Found {
        kind: file_system.kind.to_string(),
        first_byte: file_system.first.get(),
    };
    let protection = Protection {
        file_systems: layout.file_systems().iter().map(found).collect(),
        blocks: protected.ranges.iter().map(|range| u64::from(range.blocks)).sum(),
        left_out: protected.left_out.get(),
    };
    *layouts.watch.write().unwrap_or_else(PoisonError::into_inner) = layout.watch();
    if protected.left_out.get() > 0 {
        tracing::warn!(blocks = protected.left_out.get(), "a file system keeps more copies on purpose than the volume has room to protect");
    }
    if !layout.is_complete() && layouts.state().protection.blocks > 0 {
        // What could not be read may be what was protected before.
        return;
    }
    layouts.state().protection = protection;
    let Some(volume) = volume.upgrade() else { return };
    volume.feed(&mut vec![Event::Protect(protected.ranges)], Vec::new());
}
