//! Layouts of the file systems on a volume that is served: the watch over writes that may change them, and the result of the last survey.

use crate::target::Incoming;
use onefold_engine::format::ProtectedRange;
use onefold_engine::layouts::{FileSystem, Layout, Protected, Watch};
use onefold_engine::units::{BLOCK_BYTES, Lbn, index};
use serde::{Deserialize, Serialize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// A file system that was found, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub kind: String,
    /// Its first byte on the volume.
    pub first_byte: u64,
}

/// The file systems that were found, and the blocks that are protected, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    pub file_systems: Vec<Found>,
    /// The blocks that layouts have protected.
    pub blocks: u64,
    /// Those that should be protected, and for whose ranges the superblock has no room.
    pub left_out: u64,
}

/// The layouts of a volume.
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
                self.look_anew();
            }
        }
    }

    /// Has the volume surveyed once more.
    pub(super) fn look_anew(&self) {
        self.state().changed = Some(Instant::now());
        self.changed.notify_all();
    }

    /// The file systems that were found, and the blocks that are protected.
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

    /// Waits for a write that may change a layout. Returns when it came; none: it is over.
    pub(super) fn next_change(&self) -> Option<Instant> {
        let waits = |state: &mut State| state.changed.is_none() && !state.is_over;
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        state.changed.filter(|_| !state.is_over)
    }

    /// Waits until then. Returns whether it is not over.
    pub(super) fn wait_until(&self, due: Instant) -> bool {
        let left = due.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.state(), left, |state| !state.is_over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Notes that surveys have followed this change. Changes that came meanwhile have surveys of their own.
    pub(super) fn surveyed(&self, change: Instant) {
        let mut state = self.state();
        state.changed = state.changed.filter(|&last| last > change);
    }

    /// Takes the result of a survey. Returns the ranges to protect; none if what could not be read may be what was protected before.
    /// `owned`: the ranges that the owner of the volume protects.
    pub(super) fn take(&self, layout: &Layout, owned: &[ProtectedRange]) -> Option<Vec<ProtectedRange>> {
        let protected = layout.protected(owned);
        *self.watch.write().unwrap_or_else(PoisonError::into_inner) = layout.watch();
        let mut state = self.state();
        if !layout.is_complete() && state.protection.blocks > 0 {
            return None;
        }
        state.protection = Protection::of(layout, &protected);
        Some(protected.ranges)
    }
}

impl Protection {
    fn of(layout: &Layout, protected: &Protected) -> Self {
        let found = |system: &FileSystem| Found { kind: system.kind.to_string(), first_byte: system.first.get() };
        Self {
            file_systems: layout.file_systems().iter().map(found).collect(),
            blocks: protected.ranges.iter().map(|range| u64::from(range.blocks)).sum(),
            left_out: protected.left_out.get(),
        }
    }
}
