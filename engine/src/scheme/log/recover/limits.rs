//! The limits of what units name: the LBNs and blocks of the volume, and no more of them than one unit has room for.

use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::format::places::Places;
use crate::format::superblock::Superblock;
use crate::format::unit::Unit;
use crate::scheme::log::records::effects_of;
use crate::tables::effect::Effect;
use crate::units::Pbn;
use std::ops::Range;

/// The most pages, each counted for each run, in which records of one unit change something. An epoch's records are gathered by page of the
/// map, at most 800 LBNs each, in no less than four bytes. Removed fingerprints are no more than the places of the log have room for, each
/// as a record of its own (`admit_records`), so they come to 1,100 pages.
const UNIT_PAGES_MAX: u64 = 1 << 14;

/// The numbers of LBNs and blocks of a volume, and the last incarnation that its superblock knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub lbns: u64,
    pub pbns: u64,
    pub incarnation: u64,
}

impl Limits {
    pub fn of(superblock: &Superblock) -> Self {
        let Geometry { logical_blocks: lbns, data_blocks: pbns, .. } = superblock.geometry;
        Self { lbns, pbns, incarnation: superblock.incarnation }
    }

    pub fn has(self, first: Option<Pbn>, blocks: u64) -> bool {
        first.is_none_or(|first| first.get() + blocks <= self.pbns)
    }

    /// Whether a unit names only LBNs and blocks of the volume, and no more of them than the records of one unit can: longer runs would
    /// take any amount of memory by few bytes.
    pub(super) fn hold(self, unit: &Unit) -> bool {
        let mut pages = 0;
        let mut is_inside = |effect: &Effect| {
            pages += effect.blocks / Region::Fingerprints.entries_per_page() + 1;
            effect.lbn.is_none_or(|lbn| lbn.get() + effect.blocks <= self.lbns)
                && self.has(effect.to.pbn(), effect.blocks)
                && self.has(effect.old, effect.blocks)
        };
        let mut inside = unit.places.iter().all(|run| self.has(Some(run.first), run.blocks.into()));
        unit.records.iter().for_each(|record| effects_of(record, &mut |effect| inside &= is_inside(&effect)));
        inside && pages <= UNIT_PAGES_MAX
    }
}

impl Limits {
    /// The logical blocks that a unit names, as far as the volume has them.
    pub fn lbns(self, unit: &Unit) -> impl Iterator<Item = Range<u64>> + use<> {
        let mut named = Vec::new();
        let mut name = |effect: Effect| {
            let lbns = effect.lbn.map_or(0..0, |lbn| lbn.get().min(self.lbns)..lbn.get().saturating_add(effect.blocks).min(self.lbns));
            named.extend(Some(lbns).filter(|lbns| !lbns.is_empty()));
        };
        unit.records.iter().for_each(|record| effects_of(record, &mut name));
        named.into_iter()
    }
}

/// Each of these places.
pub(super) fn each(places: &[Places]) -> impl Iterator<Item = Pbn> + '_ {
    places.iter().flat_map(|run| run.pbns())
}
