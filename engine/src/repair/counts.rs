//! The pages of counts and of fingerprint entries: what they will be, and in which order that is written.

use super::entries::entry_of;
use super::error::RepairError;
use super::links::Reliable;
use super::tags::put_tags_right;
use super::write::{RepairMedium, Writer};
use crate::check::{CheckSettings, Links, Look, ReadMedium, Scan, Teller, Windows, groups};
use crate::format::{FingerprintEntry, Kind, Opened, PageContent, PageId, REFS_MAX, REFS_UNKNOWN, Region};
use crate::interface::IoFailure;
use crate::units::{Pbn, count, index};
use std::ops::Range;

/// One page of counts, with the pages of its blocks' entries, as they will be.
pub(super) struct Mended {
    pub(super) first: u64,
    /// Whether the page of counts changes, and what it will be.
    has_other_counts: bool,
    exact: PageContent,
    /// The counts for the time before the entries are written.
    safe: PageContent,
    /// The pages of entries that change.
    entries: Vec<(PageId, PageContent)>,
    tallies: Tallies,
}

/// The changes of some blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallies {
    pub(super) entries_dropped: u64,
    pub(super) entries_rebuilt: u64,
    pub(super) counts: u64,
    pub(super) pages: u64,
}

impl Tallies {
    pub(super) fn add(&mut self, mended: &Mended) {
        let more = mended.tallies;
        self.entries_dropped += more.entries_dropped;
        self.entries_rebuilt += more.entries_rebuilt;
        self.counts += more.counts;
        self.pages += u64::from(mended.has_other_counts) + count(mended.entries.len());
    }
}

/// Counts the links that are left, and visits what each page of counts and its entries will be.
pub(super) fn judge<M: ReadMedium>(
    medium: &mut M,
    reliable: &Reliable,
    settings: &CheckSettings,
    teller: &mut Teller,
    visit: &mut dyn FnMut(&mut M, Mended) -> Result<(), RepairError>,
) -> Result<(), RepairError> {
    for window in Windows::new(reliable.superblock.geometry.data_blocks, settings.memory_bytes).iter() {
        let links = reliable.count(&mut reliable.scan(medium, 16), teller, &window);
        for group in groups(&window) {
            let of_group = &links[index(group.start - window.start)..index(group.end - window.start)];
            let mended = mend(&mut reliable.scan(medium, 1), reliable, &group, of_group, teller);
            visit(medium, mended)?;
        }
    }
    Ok(())
}

impl Mended {
    /// Whether nothing changes.
    pub(super) fn is_as_stored(&self) -> bool {
        !self.has_other_counts && self.entries.is_empty()
    }

    /// Writes it: counts rise, then entries change, then counts fall.
    pub(super) fn write<M: RepairMedium>(mut self, medium: &mut M, writer: &mut Writer) -> Result<(), IoFailure> {
        let counts = PageId { region: Region::Refs, index: self.first / Region::Refs.entries_per_page() };
        if !self.entries.is_empty() {
            if self.has_other_counts {
                writer.page(medium, counts, &mut self.safe)?;
                medium.flush()?;
            }
            for (id, mut content) in self.entries {
                writer.page(medium, id, &mut content)?;
            }
            medium.flush()?;
        }
        if self.has_other_counts {
            writer.page(medium, counts, &mut self.exact)?;
        }
        Ok(())
    }
}

fn mend(scan: &mut Scan, reliable: &Reliable, group: &Range<u64>, links: &[Links], teller: &mut Teller) -> Mended {
    let Reliable { superblock, fates, .. } = *reliable;
    let geometry = &superblock.geometry;
    let (refs_page, _) = geometry.refs_of(Pbn(group.start));
    let refs = scan.page(refs_page, teller, Look::Again, |_, _| ());
    let mut mended = Mended {
        first: group.start,
        has_other_counts: false,
        exact: refs.content.clone(),
        safe: refs.content.clone(),
        entries: Vec::new(),
        tallies: Tallies::default(),
    };
    let (from, to) = (geometry.fingerprint_of(Pbn(group.start)).0.index, geometry.fingerprint_of(Pbn(group.end - 1)).0.index);
    for id in (from..=to).map(|index| PageId { region: Region::Fingerprints, index }) {
        let opened = scan.page(id, teller, Look::Again, |_, _| ());
        let mut content = opened.content.clone();
        for i in 0..index(Region::Fingerprints.entries_per_page()) {
            let pbn = geometry.first_pbn(id) + count(i);
            let stored = entry_of(superblock, id, &opened, i);
            if !group.contains(&pbn.get()) {
                content.set_fingerprint(i, FingerprintEntry::NONE);
                continue;
            }
            let place = index(pbn.get() - group.start);
            let block = Block { links: links[place].number(), counted: counted(&refs, place), stored };
            let entry = block.entry(fates.entry(pbn));
            mended.tallies.entries_rebuilt += u64::from(entry.kind == Kind::Carrier && stored != Some(entry));
            mended.tallies.entries_dropped +=
                u64::from(entry.is_none() && stored.is_none_or(|stored| !stored.is_none()) && block.is_used());
            content.set_fingerprint(i, entry);
            let (safe, exact) = (block.safe(entry), block.exact(entry));
            mended.tallies.counts += u64::from(block.counted != Some(exact));
            mended.safe.set_refs(place, safe);
            mended.exact.set_refs(place, exact);
        }
        if put_tags_right(superblock, &opened, &mut content) || content != opened.content {
            mended.entries.push((id, content));
        }
    }
    for place in index(group.end - group.start)..index(Region::Refs.entries_per_page()) {
        mended.safe.set_refs(place, 0);
        mended.exact.set_refs(place, 0);
    }
    let _ = put_tags_right(superblock, &refs, &mut mended.safe);
    mended.has_other_counts = put_tags_right(superblock, &refs, &mut mended.exact) || mended.exact != refs.content;
    mended
}

/// The count of a block, where its sector is sound.
fn counted(refs: &Opened, place: usize) -> Option<u8> {
    refs.is_entry_sound(Region::Refs, place).then(|| refs.content.refs(place))
}

/// The knowledge of a block.
struct Block {
    links: u64,
    /// Its count and its entry, where their sectors are sound.
    counted: Option<u8>,
    stored: Option<FingerprintEntry>,
}

impl Block {
    fn known_count(&self) -> Option<u8> {
        self.counted.filter(|&refs| refs != REFS_UNKNOWN)
    }

    /// Whether somebody needs it, as far as is known.
    fn is_used(&self) -> bool {
        self.links > 0 || self.known_count() > Some(0)
    }

    /// Its entry from now on. A block that no link needs keeps one only if its count says that it was not free.
    fn entry(&self, fate: Option<FingerprintEntry>) -> FingerprintEntry {
        let entry = fate.or(self.stored).unwrap_or(FingerprintEntry::NONE);
        if self.is_used() { entry } else { FingerprintEntry::NONE }
    }

    /// Its links and its entry.
    fn exact(&self, entry: FingerprintEntry) -> u8 {
        count_of(self.links + u64::from(!entry.is_none()))
    }

    /// A count for the time before its entry is written: it covers the links with that entry, is not below the one that it has, and says no
    /// more than that one of whether the block was free.
    fn safe(&self, entry: FingerprintEntry) -> u8 {
        self.known_count().map_or(REFS_UNKNOWN, |refs| refs.max(self.exact(entry)))
    }
}

/// More links than a count can hold make it unknown.
fn count_of(links: u64) -> u8 {
    u8::try_from(links).ok().filter(|&refs| refs <= REFS_MAX).unwrap_or(REFS_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    #[test]
    fn a_count_covers_links_and_entry_and_does_not_fall_before_the_entry_has_changed() {
        let some = FingerprintEntry::of(Fingerprint([1; 20]));
        let block = |links, counted, stored| Block { links, counted, stored };
        let dropped = block(2, Some(3), Some(some));
        assert_eq!((dropped.safe(FingerprintEntry::NONE), dropped.exact(FingerprintEntry::NONE)), (3, 2));
        let too_low = block(2, Some(1), Some(some));
        assert_eq!((too_low.safe(some), too_low.exact(some)), (3, 3));
        let free = block(0, Some(0), Some(some));
        assert_eq!((free.safe(FingerprintEntry::NONE), free.exact(FingerprintEntry::NONE)), (0, 0));
        let made_anew = block(2, Some(2), None);
        assert_eq!((made_anew.safe(some), made_anew.exact(some)), (3, 3));
        let unknown = block(1, Some(REFS_UNKNOWN), Some(some));
        assert_eq!((unknown.safe(some), unknown.exact(some)), (REFS_UNKNOWN, 2));
        assert_eq!(block(255, Some(254), None).exact(FingerprintEntry::NONE), REFS_UNKNOWN);
    }

    #[test]
    fn an_entry_without_links_is_kept_where_the_count_says_so() {
        let some = FingerprintEntry::of(Fingerprint([1; 20]));
        let entry = |counted| Block { links: 0, counted, stored: Some(some) }.entry(None);
        assert_eq!([Some(1), Some(0), Some(REFS_UNKNOWN), None].map(|counted| entry(counted).is_none()), [false, true, true, true]);
    }
}
