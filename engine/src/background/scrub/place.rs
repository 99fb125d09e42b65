//! The place that a scrub has come to, and its results, in memory and in the superblock.
//!
//! 1. A superblock has a place only if everything that was read before it is durable: a read may find what only the device's cache has, and
//!    a power loss would bring back what was there before. While clients write, it has the place of the update before, whose flush was
//!    behind those reads.
//! 2. A scrub whose order is not in the superblock yet has no place there, and a crash forgets it.
//! 3. The results are in a superblock that is written after such a flush, too. When that one is durable, the scrub has ended.

use crate::format::geometry::Geometry;
use crate::format::superblock::{ScrubFound, ScrubPart, ScrubProgress};
use crate::interface::Notice;
use crate::io::Io;
use crate::pool::{Medium, Pool};
use crate::scheme::Scheme;
use crate::stats::ScrubCounts;

/// The superblock is written again when one part in this many of the volume was looked at since.
const SAVED_PARTS: u64 = 64;

/// The place of a scrub.
pub(super) struct Place {
    /// The scrub that is under way, or paused. Only the scrub's order changes whether there is one.
    pub progress: Option<ScrubProgress>,
    /// A former state of it, and the number of the last write that had completed by then.
    reached: Option<(ScrubProgress, u64)>,
    /// The superblock does not have an order, or the progress, that it should have.
    is_unsaved: bool,
    order: Order,
    saved_at: u64,
    /// Updates of the superblock that are due, since a copy was damaged.
    rewrites: u8,
    ending: Option<Ending>,
}

/// The way of the last order to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Unsaved,
    /// The last update of the superblock that was begun has it.
    InUpdate,
}

/// The end of a scrub that has looked at everything.
struct Ending {
    found: ScrubFound,
    /// The number of the last write that had completed before.
    stamp: u64,
    /// The superblock that has the results, once its update has begun.
    generation: Option<u64>,
}

impl Place {
    /// The place from which the scrub of a volume that was opened goes on.
    pub fn new(pool: &Pool) -> Self {
        let progress = pool.medium.superblock.scrub;
        let saved_at = progress.map_or(0, |progress| done(&progress, &pool.geometry));
        Self { progress, reached: None, is_unsaved: false, order: Order::InUpdate, saved_at, rewrites: 0, ending: None }
    }

    /// Begins a scrub.
    pub fn begin(&mut self, kib_per_second: u32) {
        let (part, found) = (ScrubPart::Superblocks, ScrubFound::default());
        self.progress = Some(ScrubProgress { part, next: 0, is_paused: false, found, kib_per_second });
        (self.reached, self.ending, self.saved_at) = (self.progress.map(|progress| (progress, 0)), None, 0);
    }

    /// Takes an order that has changed the progress. The superblock has it at its next update.
    pub fn ordered(&mut self, medium: &mut Medium) {
        let now = self.progress;
        let as_ordered =
            |old: ScrubProgress| now.map(|now| ScrubProgress { is_paused: now.is_paused, kib_per_second: now.kib_per_second, ..old });
        self.reached = self.reached.and_then(|(old, stamp)| Some((as_ordered(old)?, stamp)));
        let saved = medium.superblock.scrub.and_then(as_ordered);
        medium.superblock.set_scrub(saved);
        (self.is_unsaved, self.order) = (true, Order::Unsaved);
    }

    /// Counts a damaged piece, mended or not.
    pub fn found(&mut self, is_mended: bool) {
        if let Some(ScrubProgress { found, .. }) = &mut self.progress {
            let count = if is_mended { &mut found.mended } else { &mut found.damaged };
            *count = count.saturating_add(1);
        }
        self.is_unsaved = true;
    }

    /// Counts lost logical blocks.
    pub fn count_lost(&mut self, lost: u64) {
        if let Some(ScrubProgress { found, .. }) = &mut self.progress {
            found.lost = found.lost.saturating_add(u32::try_from(lost).unwrap_or(u32::MAX));
        }
    }

    /// Advances to a piece of this part, or to the next part. Returns whether another part begins.
    pub fn advance(&mut self, geometry: &Geometry, next: u64) -> bool {
        let Some(progress) = &mut self.progress else { return false };
        progress.go_to(next);
        let is_over = next >= progress.part.pieces(geometry);
        if is_over {
            progress.enter_next_part();
        }
        let (done, all) = (done(progress, geometry), pieces(&ScrubPart::ALL, geometry));
        if (done - self.saved_at.min(done)) * SAVED_PARTS >= all {
            (self.saved_at, self.is_unsaved) = (done, true);
        }
        is_over
    }

    /// Asks for an update of the superblock, whose flush makes durable what has completed.
    pub fn flush(&mut self) {
        self.is_unsaved = true;
    }

    /// Asks for updates that write all copies of the superblock.
    pub fn rewrite_all(&mut self) {
        self.rewrites = 2;
    }

    /// Whether all copies were written since that was asked for.
    pub fn has_rewritten_all(&self, medium: &Medium) -> bool {
        self.rewrites == 0 && !medium.is_busy()
    }

    /// Begins the end: everything was looked at.
    pub fn end(&mut self, io: &Io) {
        let Some(ScrubProgress { found, .. }) = self.progress.take() else { return };
        self.reached = None;
        self.ending = Some(Ending { found, stamp: io.durability.now(), generation: None });
    }

    /// Whether there is something to do about the superblock now.
    pub fn is_due(&self, io: &Io, medium: &Medium) -> bool {
        // This is asked at each turn, and most often there is no scrub.
        if !self.is_unsaved && self.rewrites == 0 && self.ending.is_none() {
            return false;
        }
        if io.is_read_only() {
            return self.ending.is_some() && !io.has_failed();
        }
        !medium.is_busy()
    }

    /// Begins an update of the superblock that is due, or reports the end.
    pub fn save_or_report(&mut self, pool: &mut Pool, scheme: &mut Scheme) {
        if !self.is_due(&pool.io, &pool.medium) {
            return;
        }
        match self.ending.as_mut() {
            Some(ending) if pool.io.is_read_only() || ending.generation.is_some() => {
                return self.report_end(&mut pool.io, &mut pool.medium);
            }
            Some(ending) if ending.stamp <= pool.io.durability.mark() => {
                pool.medium.superblock.end_scrub(ending.found);
                ending.generation = Some(pool.medium.superblock.generation + 1);
            }
            Some(_) => {}
            None => self.save(&pool.io, &mut pool.medium),
        }
        (self.is_unsaved, self.order, self.rewrites) = (false, Order::InUpdate, self.rewrites.saturating_sub(1));
        scheme.update_superblock(pool);
    }

    /// Puts the newest place into the superblock before which all is durable: the present one, or that of the last update (invariant 1).
    fn save(&mut self, io: &Io, medium: &mut Medium) {
        let (now, durable) = (io.durability.now(), io.durability.mark());
        if now <= durable {
            self.reached = self.progress.map(|progress| (progress, now));
        }
        match self.reached {
            Some((reached, stamp)) if stamp <= durable => medium.superblock.set_scrub(Some(reached)),
            Some(_) => return,
            None => {}
        }
        self.reached = self.progress.map(|progress| (progress, now));
    }

    /// Puts the present place into the superblock of a volume that closes: everything is flushed.
    pub fn closes(&self, medium: &mut Medium) {
        match &self.ending {
            Some(Ending { found, generation: None, .. }) => {
                medium.superblock.end_scrub(*found);
            }
            Some(_) => {}
            None => medium.superblock.set_scrub(self.progress),
        }
    }

    /// Reports the end: the results are durable. Those of a volume that is only read are known to this server alone.
    fn report_end(&mut self, io: &mut Io, medium: &mut Medium) {
        let Some(Ending { found, generation, .. }) = self.ending.take() else { return };
        if generation.is_none() {
            medium.superblock.end_scrub(found);
        }
        let ScrubFound { damaged, mended, lost } = found;
        io.notice(Notice::Scrubbed { damaged: damaged.into(), mended: mended.into(), lost: lost.into() });
    }

    /// All counts that are not of this server alone.
    pub fn counts(&self, io: &Io, medium: &Medium, geometry: &Geometry) -> ScrubCounts {
        let (progress, ended) = (self.progress.as_ref(), medium.superblock.ended_scrubs);
        let ending = self.ending.as_ref();
        let all = pieces(&ScrubPart::ALL, geometry);
        let found = progress.map(|progress| progress.found).or(ending.map(|ending| ending.found)).unwrap_or(ended.last);
        ScrubCounts {
            is_under_way: progress.is_some() || ending.is_some(),
            is_paused: progress.is_some_and(|progress| progress.is_paused),
            is_order_kept: io.is_read_only() || self.order == Order::InUpdate && !medium.is_busy(),
            done: progress.map_or(if ending.is_some() { all } else { 0 }, |progress| done(progress, geometry)),
            all,
            kib_per_second: progress.map_or(0, |progress| progress.kib_per_second),
            ended: ended.number - u32::from(ending.is_some_and(|ending| ending.generation.is_some())).min(ended.number),
            damaged: found.damaged.into(),
            mended: found.mended.into(),
            lost: found.lost.into(),
            ..ScrubCounts::default()
        }
    }

    /// Ends without a result.
    pub fn cancel(&mut self) {
        self.progress = None;
    }
}

/// The pieces that it has looked at.
fn done(progress: &ScrubProgress, geometry: &Geometry) -> u64 {
    pieces(&ScrubPart::ALL[..progress.part as usize], geometry) + progress.next
}

fn pieces(parts: &[ScrubPart], geometry: &Geometry) -> u64 {
    parts.iter().map(|part| part.pieces(geometry)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(place: &mut Place, io: &Io, medium: &mut Medium) -> Option<u64> {
        place.save(io, medium);
        medium.superblock.scrub.map(|progress| progress.next)
    }

    #[test]
    fn a_superblock_has_a_place_only_when_all_before_it_is_durable() {
        let mut parts = crate::test_kit::parts();
        let mut place = Place::new(&parts.pool);
        place.begin(1000);
        assert_eq!(saved(&mut place, &parts.pool.io, &mut parts.pool.medium), Some(0), "the order");
        place.advance(&parts.pool.geometry, 2);
        assert_eq!(saved(&mut place, &parts.pool.io, &mut parts.pool.medium), Some(2), "nothing was written since");
        place.advance(&parts.pool.geometry, 3);
        let stamp = parts.pool.io.durability.completed(true);
        assert_eq!(
            saved(&mut place, &parts.pool.io, &mut parts.pool.medium),
            Some(2),
            "a read may have found what was written, and no flush has covered it"
        );
        parts.pool.io.durability.completed(true);
        assert_eq!(saved(&mut place, &parts.pool.io, &mut parts.pool.medium), Some(2));
        parts.pool.io.durability.flushed(stamp);
        assert_eq!(saved(&mut place, &parts.pool.io, &mut parts.pool.medium), Some(3), "the place of the update before");
    }
}
