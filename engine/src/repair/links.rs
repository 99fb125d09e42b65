//! The links that can be relied on.

use super::cut::Cut;
use super::fates::Fates;
use crate::check::{Links, Look, ReadMedium, Scan, Teller};
use crate::format::{BadEntry, MapEntry, Opened, PageId, Region, Superblock};
use crate::units::{count, index};
use std::ops::Range;

/// The volume, the cut of its log, and the fates of blocks, which decide about a link.
#[derive(Clone, Copy)]
pub(super) struct Reliable<'a> {
    pub(super) superblock: &'a Superblock,
    pub(super) cut: Option<&'a Cut>,
    pub(super) fates: &'a Fates,
}

impl<'a> Reliable<'a> {
    /// The entry that is left of a map entry as it is stored. One beyond the last logical block stands for nothing.
    pub(super) fn left(&self, entry: Result<MapEntry, BadEntry>, is_inside: bool) -> MapEntry {
        match entry {
            Ok(entry @ MapEntry::Block { pbn, slot }) if is_inside => {
                let is_there = pbn.get() < self.superblock.geometry.data_blocks && (slot == 0 || self.superblock.has_slots());
                if is_there && !self.fates.loses(pbn, slot) { entry } else { MapEntry::Lost }
            }
            Ok(entry @ (MapEntry::Unmapped | MapEntry::Zero)) if is_inside => entry,
            _ if is_inside => MapEntry::Lost,
            Ok(entry @ (MapEntry::Unmapped | MapEntry::Lost)) => entry,
            _ => MapEntry::Unmapped,
        }
    }

    /// Reads `pages` pages at once, with the records that count before their content.
    pub(super) fn scan<'m, M: ReadMedium>(&self, medium: &'m mut M, pages: u64) -> Scan<'m>
    where
        'a: 'm,
    {
        let scan = Scan::new(medium, self.superblock, pages);
        match self.cut {
            Some(cut) => cut.scan(scan),
            None => scan,
        }
    }

    /// Visits the entries of a map page: its place in the page, whether it is of a logical block, and what is left of it. Entries of a
    /// damaged sector are lost.
    pub(super) fn entries(&self, id: PageId, opened: &Opened, visit: &mut dyn FnMut(usize, bool, MapEntry)) {
        let geometry = &self.superblock.geometry;
        let (first, per_sector) = (geometry.first_lbn(id), index(Region::Map.entries_per_sector()));
        let inside = index(geometry.logical_blocks.saturating_sub(first.get()).min(Region::Map.entries_per_page()));
        for i in 0..index(Region::Map.entries_per_page()) {
            let entry = if opened.is_entry_sound(Region::Map, i) { opened.content.stored_map(i) } else { Ok(MapEntry::Lost) };
            let left = self.left(entry, i < inside);
            let tag = opened.content.tag(i / per_sector);
            let is_doubted = i < inside && self.cut.is_some_and(|cut| cut.doubts(geometry, first + count(i), left, tag));
            visit(i, i < inside, if is_doubted { MapEntry::Lost } else { left });
        }
    }

    /// Counts the links to the blocks of a window.
    pub(super) fn count(&self, scan: &mut Scan, teller: &mut Teller, window: &Range<u64>) -> Vec<Links> {
        let mut links = vec![Links::default(); index(window.end - window.start)];
        scan.pages(Region::Map, 0..self.superblock.geometry.pages(Region::Map), Look::Again, teller, &mut |_, id, opened| {
            self.entries(id, opened, &mut |_, _, entry| match entry {
                MapEntry::Block { pbn, slot } if window.contains(&pbn.get()) => links[index(pbn.get() - window.start)].add(slot),
                _ => {}
            });
        });
        links
    }
}
