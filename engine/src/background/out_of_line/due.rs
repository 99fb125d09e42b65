//! The times at which the work out of line begins and goes on.

use super::{OutOfLine, OutOfLineStage, is_save_due, is_urgent, save_at};
use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::index::{Skipped, ToCompare};
use crate::io::Io;
use crate::pool::Parts;
use crate::settings::Settings;
use crate::space::Space;
use crate::units::Time;

/// A sweep that reads more than this number of pages for each candidate waits this number of times as long.
const PAGES_A_CANDIDATE: u64 = 1;
const RARE: u64 = 20;
/// The most units that it reads on a large volume for each that clients have written; and more than one step reads.
const READS_A_WRITE: u64 = 2;
const READS_A_STEP: u64 = 128;

impl OutOfLine {
    /// Whether it has nothing to do now, or waits for a page.
    pub fn rests(&self, parts: &Parts) -> bool {
        !is_save_due(&parts.pool.io, &parts.volume.to_compare, &parts.pool.medium)
            && !self.gives_room_back(&parts.pool.space)
            && !self.sets_aside_meanwhile(parts)
            && (self.waits
                || !self.has_work(&parts.volume.skipped, &parts.volume.to_compare, &parts.pool.geometry)
                || !self.may_work(parts)
                || !self.is_due(parts))
    }

    /// Whether there is anything to be compared. Mostly there is not, and each step of the engine asks.
    fn has_work(&self, skipped: &Skipped, to_compare: &ToCompare, geometry: &Geometry) -> bool {
        self.is_under_way() || !skipped.is_empty() || self.is_pass_due(to_compare, geometry)
    }

    fn is_under_way(&self) -> bool {
        self.stage != OutOfLineStage::Idle || self.asked.len() > 0 || !self.batch.is_empty()
    }

    pub(super) fn may_work(&self, parts: &Parts) -> bool {
        let is_affordable = self.makes_room
            || is_urgent(&parts.pool.space, &parts.volume.to_compare)
            || parts.volume.adaptation.allowance().out_of_line > 0;
        is_affordable
            && self.may_read(&parts.pool.io, &parts.pool.space, &parts.volume.to_compare)
            && !parts.volume.to_compare.is_paused
            && parts.pool.settings.finds_out_of_line()
            && !parts.pool.io.is_read_only()
    }

    /// Whether clients have written enough for more reads.
    fn may_read(&self, io: &Io, space: &Space, to_compare: &ToCompare) -> bool {
        let most = READS_A_WRITE.saturating_mul(io.ledger.client_units);
        !self.sieve.has_memory() || self.makes_room || is_urgent(space, to_compare) || self.read_units + READS_A_STEP <= most
    }

    fn is_due(&self, parts: &Parts) -> bool {
        let would_make_room = parts.pool.space.is_full() && !parts.volume.skipped.is_empty();
        self.is_under_way()
            || self.is_pass_due(&parts.volume.to_compare, &parts.pool.geometry)
            || would_make_room
            || parts.volume.skipped.is_nearly_full()
            || self.begins_at(&parts.volume.skipped, &parts.pool.geometry, &parts.pool.settings).is_some_and(|at| at <= parts.pool.io.now())
    }

    fn begins_at(&self, skipped: &Skipped, geometry: &Geometry, settings: &Settings) -> Option<Time> {
        let since = skipped.since()?;
        let (delay, pages) = (settings.knobs.out_of_line_delay_ms, geometry.pages_of_blocks(Region::Fingerprints));
        let is_worth_it = self.sieve.has_memory() || pages <= skipped.lbns() * PAGES_A_CANDIDATE;
        Some(since.plus_ms(if is_worth_it { delay } else { delay.saturating_mul(RARE) }))
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self, parts: &Parts) -> Option<Time> {
        match (save_at(&parts.pool.io, &parts.volume.to_compare, &parts.pool.medium), self.works_at(parts)) {
            (Some(saves), Some(works)) => Some(saves.min(works)),
            (saves, works) => saves.or(works),
        }
    }

    fn works_at(&self, parts: &Parts) -> Option<Time> {
        if self.waits || !self.has_work(&parts.volume.skipped, &parts.volume.to_compare, &parts.pool.geometry) || !self.may_work(parts) {
            return None;
        }
        if self.is_due(parts) { self.pause } else { self.begins_at(&parts.volume.skipped, &parts.pool.geometry, &parts.pool.settings) }
    }
}
