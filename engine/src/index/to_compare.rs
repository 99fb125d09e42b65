//! The regions whose LBNs are still to be compared out of line. The superblock has them, so that neither a crash nor a detach forgets what
//! the skipped buffer and the orders of somebody hold: the next opening compares all LBNs of these regions.
//!
//! 1. What the superblock on the medium lacks is in it ten minutes later: a crash forgets no more than that. Each change enters the
//!    superblock in memory at once, so that whoever writes it need not ask.
//! 2. While content that was deferred waits, a look-up that finds nothing proves nothing, so further new content is skipped, too.
//! 3. A region is left out only when all its LBNs have been compared.

use crate::format::regions::{RegionSize, Regions};
use crate::format::superblock::{Superblock, ToCompare as Saved};
use crate::units::{Lbn, Time};

/// An order that was carried out is not repeated after a crash that comes later than this; its last links are durable before.
const ENDED_SAVE_MS: u64 = 60_000;

/// The regions with LBNs that are still to be compared.
pub(crate) struct ToCompare {
    size: RegionSize,
    /// Regions of the skipped buffer's entries.
    skipped: Regions,
    /// Regions that are being compared, and those that somebody has asked for.
    under_way: Regions,
    /// Whether any of both may have been deferred.
    skipped_unnamed: bool,
    unnamed_under_way: bool,
    /// Somebody has asked for some of it, and has paused it.
    pub is_asked: bool,
    pub is_paused: bool,
    /// The content of the last superblock that was written, or began to be, and its generation.
    saved: Saved,
    saved_generation: u64,
    /// The time at which the superblock has to be written again.
    save_at: Option<Time>,
    /// The longest time for which the superblock may lack a region.
    save_ms: u64,
}

impl ToCompare {
    /// The regions that the superblock of an opened volume has. They count as skipped, unless somebody has asked for some of them.
    pub fn new(superblock: &Superblock, save_ms: u64) -> Self {
        let (size, none) = (RegionSize::of(superblock.geometry.logical_blocks), Regions::default());
        let saved = superblock.to_compare;
        let Saved { regions, is_asked, is_paused } = saved;
        let (skipped, under_way) = if is_asked { (none, regions) } else { (regions, none) };
        let skipped_unnamed = saved != Saved::default();
        Self {
            size,
            skipped,
            under_way,
            skipped_unnamed,
            unnamed_under_way: skipped_unnamed,
            is_asked,
            is_paused,
            saved,
            saved_generation: superblock.generation,
            save_at: None,
            save_ms,
        }
    }

    /// The ranges of LBNs that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = (Lbn, Lbn)> + use<> {
        self.skipped.ranges(self.size)
    }

    /// The ranges of LBNs that somebody has asked for, if anybody has.
    pub fn asked(&self) -> impl Iterator<Item = (Lbn, Lbn)> + use<> {
        if self.is_asked { self.under_way } else { Regions::default() }.ranges(self.size)
    }

    /// The ranges of LBNs that are being compared.
    pub fn under_way(&self) -> impl Iterator<Item = (Lbn, Lbn)> + use<> {
        self.under_way.ranges(self.size)
    }

    /// Notes an LBN that enters the skipped buffer.
    pub fn skip(&mut self, superblock: &mut Superblock, lbn: Lbn, now: Time) {
        self.look_for_update(superblock);
        let region = self.size.region_of(lbn);
        if !self.saved.regions.has(region) {
            self.save_at.get_or_insert(now.plus_ms(self.save_ms));
        }
        if !self.skipped.has(region) {
            self.skipped.add(region);
            self.enter(superblock);
        }
    }

    /// Notes an LBN that enters the skipped buffer, and was deferred.
    pub fn defer(&mut self, superblock: &mut Superblock, lbn: Lbn, now: Time) {
        self.skipped_unnamed = true;
        self.skip(superblock, lbn, now);
    }

    /// Whether content that was deferred may wait for its fingerprint.
    pub fn has_unnamed(&self) -> bool {
        self.skipped_unnamed || self.unnamed_under_way
    }

    /// Notes what somebody has asked for. It is saved at once.
    pub fn ask(&mut self, superblock: &mut Superblock, first: Lbn, end: Lbn, now: Time) {
        self.look_for_update(superblock);
        (self.size.region_of(first)..=self.size.region_of(Lbn(end.0 - 1))).for_each(|region| self.under_way.add(region));
        self.is_asked = true;
        self.save_at = Some(now);
        self.enter(superblock);
    }

    /// Notes that somebody pauses the work, or lets it go on.
    pub fn pause(&mut self, superblock: &mut Superblock, is_paused: bool, now: Time) {
        self.look_for_update(superblock);
        self.is_paused = is_paused;
        self.save_at = Some(now);
        self.enter(superblock);
    }

    /// Notes that all of the skipped buffer is being compared from now on.
    pub fn begin(&mut self) {
        self.under_way.add_all(&self.skipped);
        self.unnamed_under_way |= std::mem::take(&mut self.skipped_unnamed);
        self.skipped = Regions::default();
    }

    /// Notes that all that was being compared has been.
    pub fn end(&mut self, superblock: &mut Superblock, now: Time) {
        self.look_for_update(superblock);
        (self.under_way, self.unnamed_under_way, self.is_asked) = (Regions::default(), false, false);
        if self.saved.is_asked {
            let at = now.plus_ms(self.save_ms.min(ENDED_SAVE_MS));
            self.save_at = Some(self.save_at.map_or(at, |by| by.min(at)));
        }
        self.save_if_it_lacks();
        self.enter(superblock);
    }

    /// Notes that nothing of the skipped buffer need be compared.
    pub fn forget_skipped(&mut self, superblock: &mut Superblock) {
        self.look_for_update(superblock);
        (self.skipped, self.skipped_unnamed) = (Regions::default(), false);
        self.save_if_it_lacks();
        self.enter(superblock);
    }

    /// Leaves the superblock as it is if it has all regions, and the orders. Others that it has cost the next opening a look.
    fn save_if_it_lacks(&mut self) {
        let are_flags_saved = (self.is_asked, self.is_paused) == (self.saved.is_asked, self.saved.is_paused);
        let is_saved = are_flags_saved && self.all().is_within(&self.saved.regions);
        self.save_at = self.save_at.filter(|_| !is_saved);
    }

    fn all(&self) -> Regions {
        let mut regions = self.under_way;
        regions.add_all(&self.skipped);
        regions
    }

    /// The time at which the superblock has to be written again.
    pub fn save_at(&self, superblock: &Superblock) -> Option<Time> {
        self.save_at.filter(|_| superblock.generation == self.saved_generation)
    }

    /// Notes that what was entered is being written, if an update of the superblock has begun since the last change.
    fn look_for_update(&mut self, superblock: &Superblock) {
        if superblock.generation != self.saved_generation {
            (self.saved, self.saved_generation, self.save_at) = (superblock.to_compare, superblock.generation, None);
        }
    }

    /// Enters what is to be compared in the superblock, for its next update.
    fn enter(&self, superblock: &mut Superblock) {
        superblock.set_to_compare(Saved { regions: self.all(), is_asked: self.is_asked, is_paused: self.is_paused });
    }
}
