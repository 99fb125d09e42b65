//! The times at which the work out of line begins and goes on.

use super::{OutOfLine, OutOfLineStage, is_save_due, is_urgent, save_at};
use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::index::{Skipped, Uncompared};
use crate::io::Io;
use crate::settings::Settings;
use crate::space::Space;
use crate::store::Store;
use crate::units::Time;

/// A sweep that reads more than this number of pages for each candidate waits this number of times as long.
const PAGES_A_CANDIDATE: u64 = 1;
const RARE: u64 = 20;
/// The most units that it reads on a large volume for each that clients have written; and more than one step reads.
const READS_A_WRITE: u64 = 2;
const READS_A_STEP: u64 = 128;

impl OutOfLine {
    /// Whether it has nothing to do now, or waits for a page.
    pub fn rests(&self, store: &Store) -> bool {
        !is_save_due(&store.pool.io, &store.volume.uncompared, &store.pool.medium)
            && !self.gives_room_back(&store.pool.space)
            && !self.sets_aside_meanwhile(store)
            && (self.waits
                || !self.has_work(&store.volume.skipped, &store.volume.uncompared, &store.pool.geometry)
                || !self.may_work(store)
                || !self.is_due(store))
    }

    /// Whether there is anything to be compared. Mostly there is not, and each step of the engine asks.
    fn has_work(&self, skipped: &Skipped, uncompared: &Uncompared, geometry: &Geometry) -> bool {
        self.is_under_way() || !skipped.is_empty() || self.is_pass_due(uncompared, geometry)
    }

    fn is_under_way(&self) -> bool {
        self.stage != OutOfLineStage::Idle || self.asked.len() > 0 || !self.batch.is_empty()
    }

    pub(super) fn may_work(&self, store: &Store) -> bool {
        let is_affordable = self.makes_room
            || is_urgent(&store.pool.space, &store.volume.uncompared)
            || store.volume.adaptation.allowance().out_of_line > 0;
        is_affordable
            && self.may_read(&store.pool.io, &store.pool.space, &store.volume.uncompared)
            && !store.volume.uncompared.is_paused
            && store.pool.settings.finds_out_of_line()
            && !store.pool.io.is_read_only()
    }

    /// Whether clients have written enough for more reads.
    fn may_read(&self, io: &Io, space: &Space, uncompared: &Uncompared) -> bool {
        let most = READS_A_WRITE.saturating_mul(io.ledger.client_units);
        !self.sieve.has_memory() || self.makes_room || is_urgent(space, uncompared) || self.read_units + READS_A_STEP <= most
    }

    fn is_due(&self, store: &Store) -> bool {
        let would_make_room = store.pool.space.is_full() && !store.volume.skipped.is_empty();
        self.is_under_way()
            || self.is_pass_due(&store.volume.uncompared, &store.pool.geometry)
            || would_make_room
            || store.volume.skipped.is_nearly_full()
            || self.begins_at(&store.volume.skipped, &store.pool.geometry, &store.pool.settings).is_some_and(|at| at <= store.pool.io.now())
    }

    fn begins_at(&self, skipped: &Skipped, geometry: &Geometry, settings: &Settings) -> Option<Time> {
        let since = skipped.since()?;
        let (delay, pages) = (settings.knobs.out_of_line_delay_ms, geometry.pages_of_blocks(Region::Fingerprints));
        let is_worth_it = self.sieve.has_memory() || pages <= skipped.lbns() * PAGES_A_CANDIDATE;
        Some(since.plus_ms(if is_worth_it { delay } else { delay.saturating_mul(RARE) }))
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self, store: &Store) -> Option<Time> {
        match (save_at(&store.pool.io, &store.volume.uncompared, &store.pool.medium), self.works_at(store)) {
            (Some(saves), Some(works)) => Some(saves.min(works)),
            (saves, works) => saves.or(works),
        }
    }

    fn works_at(&self, store: &Store) -> Option<Time> {
        if self.waits || !self.has_work(&store.volume.skipped, &store.volume.uncompared, &store.pool.geometry) || !self.may_work(store) {
            return None;
        }
        if self.is_due(store) { self.pause } else { self.begins_at(&store.volume.skipped, &store.pool.geometry, &store.pool.settings) }
    }
}
