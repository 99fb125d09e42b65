//! The links that can be relied on.

use super::fates::Fates;
use crate::check::{Links, Look, Scan, Teller};
use crate::format::{BadEntry, Geometry, MapEntry, Opened, PageId, Region};
use crate::units::index;
use std::ops::Range;

/// The volume and the fates, which decide about a link.
#[derive(Clone, Copy)]
pub(super) struct Reliable<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) has_slots: bool,
    pub(super) fates: &'a Fates,
}

impl Reliable<'_> {
    /// The entry that is left of a map entry as it is stored. One beyond the last logical block stands for nothing.
    pub(super) fn left(&self, entry: Result<MapEntry, BadEntry>, is_inside: bool) -> MapEntry {
        match entry {
            Ok(entry @ MapEntry::Block { pbn, slot }) if is_inside => {
                let is_there = pbn.get() < self.geometry.data_blocks && (slot == 0 || self.has_slots);
                if is_there && !self.fates.loses(pbn, slot) { entry } else { MapEntry::Lost }
            }
            Ok(entry @ (MapEntry::Unmapped | MapEntry::Zero)) if is_inside => entry,
            _ if is_inside => MapEntry::Lost,
            Ok(entry @ (MapEntry::Unmapped | MapEntry::Lost)) => entry,
            _ => MapEntry::Unmapped,
        }
    }

    /// Visits the entries of a map page: its place in the page, whether it is of a logical block, and what is left of it. Entries of a
    /// damaged sector are lost.
    pub(super) fn entries(&self, id: PageId, opened: &Opened, visit: &mut dyn FnMut(usize, bool, MapEntry)) {
        let inside =
            index(self.geometry.logical_blocks.saturating_sub(self.geometry.first_lbn(id).get()).min(Region::Map.entries_per_page()));
        for i in 0..index(Region::Map.entries_per_page()) {
            let entry = if opened.is_entry_sound(Region::Map, i) { opened.content.stored_map(i) } else { Ok(MapEntry::Lost) };
            visit(i, i < inside, self.left(entry, i < inside));
        }
    }

    /// Counts the links to the blocks of a window.
    pub(super) fn count(&self, scan: &mut Scan, teller: &mut Teller, window: &Range<u64>) -> Vec<Links> {
        let mut links = vec![Links::default(); index(window.end - window.start)];
        scan.pages(Region::Map, 0..self.geometry.pages(Region::Map), Look::Again, teller, &mut |_, id, opened| {
            self.entries(id, opened, &mut |_, _, entry| match entry {
                MapEntry::Block { pbn, slot } if window.contains(&pbn.get()) => links[index(pbn.get() - window.start)].add(slot),
                _ => {}
            });
        });
        links
    }
}
