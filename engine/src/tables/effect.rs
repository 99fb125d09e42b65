//! An effect: the change that one record makes to the tables. It is the unit of replay.
//!
//! 1. In the map, the LBN means `to`. In the refs, the block of `to` gets one link more, and another one for the fingerprint entry of a new
//!    block; `old` loses one link. In the fingerprints, the new block of `to` gets its entry; `old` loses its entry if that is removed.
//! 2. In a run, block i does this i blocks after the first: i after the LBN, `to`, `old`, and the short fingerprints.
//! 3. Each sector is replayed by itself, and only if its tag is older than the effect's epoch. So an effect enters a sector once, whether
//!    or not the medium has it already.
//! 4. A count that is unknown stays unknown. A count that would leave 0..=254 becomes unknown: a valid log does not ask for that, but
//!    seems to if the medium has lost the write of a page.

use crate::format::entry::{FingerprintEntry, MapEntry, REFS_UNKNOWN};
use crate::format::geometry;
use crate::format::page::{PageContent, PageId, Region};
use crate::units::{self, Epoch, Lbn, Pbn, index};
use std::iter;
use std::ops::Range;

/// The change of a fingerprint entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryChange<'a> {
    /// No entry changes.
    None,
    /// The block of `to` is new, and gets this entry.
    Of(FingerprintEntry),
    /// The blocks of a run are new. Each gets an entry with its short fingerprint, until its page gets the whole one.
    Short(&'a [u32]),
    /// The same, of blocks that stay apart: each gets an entry with the short name of its checksum.
    ShortApart(&'a [u32]),
    /// The entry of `old` is removed.
    Removed,
    /// The block of `to` is new. Its entry counts, but another effect has it, or its page has it already.
    Counted,
}

impl<'a> EntryChange<'a> {
    /// Whether the block of `to` is new.
    pub fn is_new(self) -> bool {
        self.has_entry() || self == Self::Counted
    }

    /// Whether this effect has the entry of the new block.
    fn has_entry(self) -> bool {
        matches!(self, Self::Of(_) | Self::Short(_) | Self::ShortApart(_))
    }

    /// The change for some blocks of a run.
    fn of(self, blocks: Range<u64>) -> Self {
        let part = |shorts: &'a [u32]| &shorts[index(blocks.start)..index(blocks.end)];
        match self {
            Self::Short(shorts) => Self::Short(part(shorts)),
            Self::ShortApart(shorts) => Self::ShortApart(part(shorts)),
            Self::None | Self::Of(_) | Self::Removed | Self::Counted => self,
        }
    }
}

/// The change that one record makes, to one block or to a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect<'a> {
    /// If `None`, no map entry changes, and `to` gets no link.
    pub lbn: Option<Lbn>,
    /// The length of the run, at least 1. It is 1 for a whole fingerprint.
    pub blocks: u64,
    /// The meaning of the first LBN from now on. Block i of a run is i blocks after it, in the same slot; other entries are the same for
    /// all.
    pub to: MapEntry,
    /// The block that loses a link: the one that the first LBN meant before, or, without an LBN, the one whose fingerprint entry is
    /// removed.
    pub old: Option<Pbn>,
    pub name: EntryChange<'a>,
}

impl Effect<'_> {
    /// The number of links that the block of `to` gains: one from the LBN, and one from the fingerprint of a new block.
    pub fn gains(&self) -> i16 {
        i16::from(self.lbn.is_some()) + i16::from(self.name.is_new())
    }

    /// Asserts that the effect makes sense.
    ///
    /// # Panics
    /// When it does not, which is a bug in the code that made it.
    pub fn check(&self) {
        let makes_sense = match self.name {
            EntryChange::None => self.lbn.is_some() || (self.old.is_some() && self.to == MapEntry::Unmapped),
            EntryChange::Of(entry) => self.blocks == 1 && !entry.is_none() && self.to.pbn().is_some(),
            EntryChange::Short(shorts) | EntryChange::ShortApart(shorts) => {
                self.blocks == units::count(shorts.len()) && self.to.pbn().is_some()
            }
            EntryChange::Counted => self.to.pbn().is_some(),
            EntryChange::Removed => self.lbn.is_none() && self.to == MapEntry::Unmapped && self.old.is_some(),
        };
        assert!(self.blocks > 0 && makes_sense, "{self:?} is no effect");
    }

    /// Splits the effect into its change of map and refs, and its change of fingerprints.
    pub fn apart(&self) -> (Self, Option<Self>) {
        let nowhere = Self { lbn: None, ..*self };
        match self.name {
            EntryChange::None | EntryChange::Counted => (*self, None),
            EntryChange::Of(_) | EntryChange::Short(_) | EntryChange::ShortApart(_) => {
                (Self { name: EntryChange::Counted, ..*self }, Some(Self { old: None, ..nowhere }))
            }
            EntryChange::Removed => (Self { name: EntryChange::None, ..*self }, Some(nowhere)),
        }
    }

    /// The effect on `blocks` of its blocks, from `first` on.
    pub fn part(&self, first: u64, blocks: u64) -> Self {
        let (lbn, old) = (self.lbn.map(|lbn| lbn + first), self.old.map(|pbn| pbn + first));
        Self { lbn, blocks, to: self.meaning_of(first), old, name: self.name.of(first..first + blocks) }
    }

    /// Returns the meaning of the LBN of block i from now on.
    fn meaning_of(&self, i: u64) -> MapEntry {
        if let MapEntry::Block { pbn, slot } = self.to { MapEntry::Block { pbn: pbn + i, slot } } else { self.to }
    }

    /// The fingerprint entry that block i gets, if it gets one.
    fn entry_of(&self, i: u64) -> Option<FingerprintEntry> {
        match self.name {
            EntryChange::Of(entry) => Some(entry),
            EntryChange::Short(shorts) => Some(FingerprintEntry::of_short(shorts[index(i)])),
            EntryChange::ShortApart(shorts) => Some(FingerprintEntry::of_short_apart(shorts[index(i)])),
            EntryChange::Removed => Some(FingerprintEntry::NONE),
            EntryChange::None | EntryChange::Counted => None,
        }
    }

    /// Splits the effect, in order, into pieces. The LBNs of each piece are on one map page, the fingerprints of its new blocks on one
    /// page, and those of its old blocks on one page.
    pub fn pieces(self) -> impl Iterator<Item = Self> {
        let mut rest = self;
        iter::from_fn(move || {
            let left = |region: Region, first: Option<u64>| {
                let per_page = region.entries_per_page();
                first.map_or(u64::MAX, |entry| per_page - entry % per_page)
            };
            let blocks = left(Region::Map, rest.lbn.map(Lbn::get))
                .min(left(Region::Fingerprints, rest.to.pbn().map(Pbn::get)))
                .min(left(Region::Fingerprints, rest.old.map(Pbn::get)))
                .min(rest.blocks);
            (blocks > 0).then(|| {
                let piece = rest.part(0, blocks);
                rest = rest.part(blocks, rest.blocks - blocks);
                piece
            })
        })
    }

    /// The pages that the effect changes, each once.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + use<> {
        let blocks = self.blocks;
        let pages = |region: Region, first: Option<Pbn>| pages_of(region, first.map(Pbn::get), blocks);
        let born = self.to.pbn().filter(|_| self.name.has_entry());
        let removed = self.old.filter(|_| self.name == EntryChange::Removed);
        let (refs, fewer) = (pages(Region::Refs, self.to.pbn()), pages(Region::Refs, self.old));
        let elsewhere = refs.clone();
        refs.chain(fewer.filter(move |page| !elsewhere.clone().any(|other| other == *page)))
            .chain(pages(Region::Fingerprints, born.or(removed)))
            .chain(pages_of(Region::Map, self.lbn.map(Lbn::get), blocks))
    }

    /// Changes those sectors of a page whose tags are older than `epoch`. The page holds all earlier effects.
    pub fn replay(&self, epoch: Epoch, id: PageId, content: &mut PageContent) {
        let (lbn, to, old) = (self.lbn.map(Lbn::get), self.to.pbn().map(Pbn::get), self.old.map(Pbn::get));
        match id.region {
            Region::Written => {}
            Region::Map => self.each(lbn, epoch, id, content, |content, at, i| content.set_map(at, self.meaning_of(i))),
            Region::Refs => {
                // The decrement comes first: a block of 254 links keeps its count when an LBN is written with the content that it has.
                self.each(old, epoch, id, content, |content, at, _| count(content, at, -1));
                self.each(to, epoch, id, content, |content, at, _| count(content, at, self.gains()));
            }
            Region::Fingerprints => {
                let named = if self.name == EntryChange::Removed { old } else { to };
                self.each(named, epoch, id, content, |content, at, i| {
                    self.entry_of(i).into_iter().for_each(|entry| content.set_fingerprint(at, entry));
                });
            }
        }
    }

    /// Calls `change` for each of its blocks whose entry, counted from `first`, is in an older sector of this page. It gets the place of
    /// the entry in the page, and that of the block in the run.
    fn each(&self, first: Option<u64>, epoch: Epoch, id: PageId, content: &mut PageContent, change: impl Fn(&mut PageContent, usize, u64)) {
        let Some(first) = first else { return };
        let begin = id.index * id.region.entries_per_page();
        let end = begin + id.region.entries_per_page();
        for entry in first.max(begin)..(first + self.blocks).min(end) {
            let sector = index((entry - begin) / id.region.entries_per_sector());
            if content.tag(sector) < epoch.get() {
                change(content, index(entry - begin), entry - first);
            }
        }
    }
}

/// The pages that have these entries, if there are any.
fn pages_of(region: Region, first: Option<u64>, entries: u64) -> impl Iterator<Item = PageId> + Clone {
    let pages =
        first.map_or(0..0, |first| geometry::entry_of(region, first).0.index..geometry::entry_of(region, first + entries - 1).0.index + 1);
    pages.map(move |index| PageId { region, index })
}

/// Adds to a count (invariant 4).
fn count(content: &mut PageContent, at: usize, by: i16) {
    let before = content.refs(at);
    if before != REFS_UNKNOWN {
        content.set_refs(at, u8::try_from(i16::from(before) + by).unwrap_or(REFS_UNKNOWN));
    }
}
