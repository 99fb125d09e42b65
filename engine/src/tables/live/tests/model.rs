//! A model of the tables after each epoch: it does what the records say, block by block, in plain vectors.

use crate::format::entry::{FingerprintEntry, MapEntry, REFS_MAX, REFS_UNKNOWN};
use crate::format::page::{PageContent, PageId, Region, SECTORS};
use crate::tables::effect::{Effect, EntryChange};
use crate::units::{Lbn, Pbn, count, index};

/// Two map pages and a half.
pub(super) const LBNS: usize = 2000;
/// A refs page and a bit.
pub(super) const PBNS: usize = 4600;

/// The beginning of the part of the volume that is tested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub map_page: u64,
    pub refs_page: u64,
}

impl Origin {
    pub fn lbn(self, i: usize) -> Lbn {
        Lbn(self.map_page * 800 + count(i))
    }

    pub fn pbn(self, i: usize) -> Pbn {
        Pbn(self.refs_page * 4000 + count(i))
    }

    pub fn lbn_index(self, lbn: Lbn) -> usize {
        index(lbn.get() - self.map_page * 800)
    }

    pub fn pbn_index(self, pbn: Pbn) -> usize {
        index(pbn.get() - self.refs_page * 4000)
    }

    /// All pages of the tested part.
    pub fn pages(self) -> Vec<PageId> {
        let pages = |region, first: u64, n: u64| (first..first + n).map(move |index| PageId { region, index });
        let refs = pages(Region::Refs, self.refs_page, 2);
        refs.chain(pages(Region::Fingerprints, self.refs_page * 20, 23)).chain(pages(Region::Map, self.map_page, 3)).collect()
    }
}

/// The tables.
#[derive(Clone)]
pub(super) struct Tables {
    origin: Origin,
    pub map: Vec<MapEntry>,
    pub refs: Vec<u8>,
    pub names: Vec<FingerprintEntry>,
    /// Links of each block that no LBN has.
    pub strays: Vec<u8>,
}

impl Tables {
    /// Nothing is mapped. Some counts are full or unknown, some blocks have links that no LBN has.
    pub fn new(origin: Origin) -> Self {
        let refs = (0..PBNS).map(|i| match i % 64 {
            5 => REFS_UNKNOWN,
            6 => REFS_MAX - 1,
            7 => 20,
            _ => 0,
        });
        let strays = (0..PBNS).map(|i| if i % 64 == 7 { 20 } else { 0 }).collect();
        Self { origin, map: vec![MapEntry::Unmapped; LBNS], refs: refs.collect(), names: vec![FingerprintEntry::NONE; PBNS], strays }
    }

    fn count(&mut self, pbn: Pbn, by: i16) {
        let refs = &mut self.refs[self.origin.pbn_index(pbn)];
        if *refs != REFS_UNKNOWN {
            *refs = u8::try_from(i16::from(*refs) + by).unwrap();
        }
    }

    /// Does what an effect says.
    pub fn do_it(&mut self, effect: &Effect<'_>) {
        for i in 0..effect.blocks {
            let old = effect.old.map(|pbn| pbn + i);
            if let Some(pbn) = old {
                self.count(pbn, -1);
            }
            let to = match effect.to {
                MapEntry::Block { pbn, slot } => MapEntry::Block { pbn: pbn + i, slot },
                other => other,
            };
            if let Some(lbn) = effect.lbn {
                let at = self.origin.lbn_index(lbn + i);
                self.map[at] = to;
                to.pbn().into_iter().for_each(|pbn| self.count(pbn, 1));
            }
            let (named, entry) = match effect.name {
                EntryChange::None => {
                    if let (None, Some(pbn)) = (effect.lbn, old) {
                        self.strays[self.origin.pbn_index(pbn)] -= 1;
                    }
                    continue;
                }
                EntryChange::Of(entry) => (to.pbn().unwrap(), entry),
                EntryChange::Short(shorts) => (to.pbn().unwrap(), FingerprintEntry::of_short(shorts[index(i)])),
                EntryChange::ShortApart(shorts) => (to.pbn().unwrap(), FingerprintEntry::of_short_apart(shorts[index(i)])),
                EntryChange::Removed => (old.unwrap(), FingerprintEntry::NONE),
                EntryChange::Counted => unreachable!("no step makes one"),
            };
            self.names[self.origin.pbn_index(named)] = entry;
            if effect.name != EntryChange::Removed {
                self.count(named, 1);
            }
        }
    }

    /// Writes one sector of a page.
    pub fn write(&self, id: PageId, sector: usize, content: &mut PageContent) {
        let per_sector = index(id.region.entries_per_sector());
        let first = match id.region {
            Region::Map => (id.index - self.origin.map_page) * 800,
            Region::Refs => (id.index - self.origin.refs_page) * 4000,
            Region::Fingerprints => (id.index - self.origin.refs_page * 20) * 200,
            Region::Written => unreachable!("no part of the model"),
        };
        for at in sector * per_sector..(sector + 1) * per_sector {
            let entry = index(first) + at;
            match id.region {
                Region::Map => content.set_map(at, self.map.get(entry).copied().unwrap_or_default()),
                Region::Refs => content.set_refs(at, self.refs.get(entry).copied().unwrap_or_default()),
                _ => content.set_fingerprint(at, self.names.get(entry).copied().unwrap_or_default()),
            }
        }
    }

    /// A page.
    pub fn page(&self, id: PageId) -> PageContent {
        let mut content = PageContent::empty();
        (0..SECTORS).for_each(|sector| self.write(id, sector, &mut content));
        content
    }
}
