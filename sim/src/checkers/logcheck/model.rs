//! Map, refs and fingerprints as the records up to the last durable epoch make them, sector by sector, and what the medium lacks of them.
//!
//! 1. A sector here has exactly the bytes that the engine has to write with a tag of that epoch.
//! 2. The sectors are also kept as they were before the last epoch: a flush for another purpose may make its units durable before the
//!    engine learns of it, and pages that it sends until then are correct without that epoch. Changes on such a page that no record makes
//!    (a recount, a fingerprint that is entered later) apply to the newest sectors as well.

use super::records::Change;
use crate::device::disk::{SimDisk, to_index};
use crate::device::volume::Volume;
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::page::{self, ENTRY_BYTES};
use onefold_engine::format::{FINGERPRINT_ENTRY_SIZE, FingerprintEntry, MAP_ENTRY_SIZE, MapEntry, PageId, REFS_UNKNOWN, Region};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// The regions that records change.
pub(super) const TABLES: [Region; 3] = [Region::Refs, Region::Fingerprints, Region::Map];
/// The bytes of a sector's tag, which follow its entries.
const TAG: std::ops::Range<usize> = ENTRY_BYTES..ENTRY_BYTES + 8;

pub(super) type Entries = Option<Box<[u8; ENTRY_BYTES]>>;

pub(super) static BLANK: [u8; ENTRY_BYTES] = [0; ENTRY_BYTES];

#[derive(Clone, Default)]
pub(super) struct Sector {
    pub(super) entries: Entries,
    /// The last epoch whose records changed it, except for changes that the medium already held when the tables were read.
    pub(super) last: u64,
    /// The tag of its durable version.
    pub(super) tag: u64,
    /// The last epoch with a record that changes it, whether or not the medium's version includes it.
    touched: u64,
    /// The epochs that changed it and are newer than that tag, in order.
    missing: Vec<u64>,
}

impl Sector {
    fn entry<const N: usize>(&self, i: usize) -> &[u8; N] {
        bytes(&self.entries)[i * N..][..N].try_into().expect("an entry")
    }

    fn set<const N: usize>(&mut self, i: usize, entry: &[u8; N]) {
        self.entries.get_or_insert_with(|| Box::new(BLANK))[i * N..][..N].copy_from_slice(entry);
    }
}

pub(super) fn bytes(entries: &Entries) -> &[u8; ENTRY_BYTES] {
    entries.as_deref().unwrap_or(&BLANK)
}

/// The identity of a sector: its region and its number there.
pub(super) type SectorId = (Region, usize);

pub(super) struct Model {
    pub(super) volume: Rc<Volume>,
    refs: Vec<Sector>,
    fingerprints: Vec<Sector>,
    map: Vec<Sector>,
    /// The sectors that the last epoch changed, as they were before (invariant 2), with the last epoch that had changed them.
    pub(super) before: FxHashMap<SectorId, (Entries, u64)>,
    /// The sectors that lack something on the medium.
    behind: FxHashSet<SectorId>,
    /// For each PBN the number of LBNs that refer to it, plus one for its entry.
    pub(super) links: Vec<u32>,
    /// The links before the last epoch, of the blocks that it changed.
    pub(super) links_before: FxHashMap<u64, u32>,
}

impl Model {
    /// Reads the tables of a device on which nothing is undecided.
    pub fn read(volume: Rc<Volume>, disk: &SimDisk) -> Result<Self, Violation> {
        let sectors = |region| vec![Sector::default(); to_index(volume.geometry.pages(region)) * 8];
        let mut model = Self {
            refs: sectors(Region::Refs),
            fingerprints: sectors(Region::Fingerprints),
            map: sectors(Region::Map),
            before: FxHashMap::default(),
            behind: FxHashSet::default(),
            links: vec![0; to_index(volume.geometry.data_blocks)],
            links_before: FxHashMap::default(),
            volume,
        };
        for region in TABLES {
            for index in 0..model.volume.geometry.pages(region) {
                let id = PageId { region, index };
                model.read_page(id, disk.cell(model.volume.block_of_page(id)).durable())?;
            }
        }
        Ok(model)
    }

    fn read_page(&mut self, id: PageId, content: &Shared) -> Result<(), Violation> {
        if content.id() == crate::ground::content::Content::zero().id() {
            return Ok(());
        }
        for i in 0..8 {
            if *content.sector(i) == [0; 512] {
                continue;
            }
            let (entries, tag) = self.open(id, i, content)?;
            let sector = self.sector_mut((id.region, to_index(id.sector(i))));
            (sector.entries, sector.tag) = (Some(Box::new(entries)), tag);
        }
        Ok(())
    }

    pub(super) fn open(&self, id: PageId, sector: usize, content: &Shared) -> Result<([u8; ENTRY_BYTES], u64), Violation> {
        let opened = page::open_sector(&self.volume.uuid, id.region, id.sector(sector), content.sector(sector));
        opened.ok_or_else(|| violation!("P6: sector {sector} of {} page {} may fail its check", id.region.name(), id.index))
    }

    pub(super) fn sector(&self, (region, number): SectorId) -> &Sector {
        let table = match region {
            Region::Refs => &self.refs,
            Region::Fingerprints => &self.fingerprints,
            Region::Map => &self.map,
            Region::Written => unreachable!("no record changes it"),
        };
        &table[number]
    }

    pub(super) fn sector_mut(&mut self, (region, number): SectorId) -> &mut Sector {
        let table = match region {
            Region::Refs => &mut self.refs,
            Region::Fingerprints => &mut self.fingerprints,
            Region::Map => &mut self.map,
            Region::Written => unreachable!("no record changes it"),
        };
        &mut table[number]
    }

    /// Counts links and entries again. If no garbage is possible, the counts have to equal these.
    pub fn count_links(&mut self, garbage_possible: bool) -> Result<(), Violation> {
        self.links.fill(0);
        let blocks = self.links.len() as u64;
        for sector in self.map.iter().filter_map(|sector| sector.entries.as_deref()) {
            for entry in sector.chunks_exact(MAP_ENTRY_SIZE) {
                let entry = MapEntry::decode(entry.try_into().expect("an entry")).map_err(|e| violation!("format: {e}"))?;
                if let Some(pbn) = entry.pbn() {
                    let links = self.links.get_mut(to_index(pbn.get()));
                    *links.ok_or_else(|| violation!("format: an LBN refers to {pbn} of {blocks}"))? += 1;
                }
            }
        }
        for pbn in 0..blocks {
            self.links[to_index(pbn)] += u32::from(!self.name(pbn).is_none());
            let (links, refs) = (self.links(pbn), self.refs_of(pbn));
            if refs != REFS_UNKNOWN && (links > u32::from(refs) || (links < u32::from(refs) && !garbage_possible)) {
                return Err(violation!("P3: after replay refs of PBN {pbn} are {refs}, but it has {links} links"));
            }
        }
        Ok(())
    }

    pub fn links(&self, pbn: u64) -> u32 {
        self.links[to_index(pbn)]
    }

    pub fn map(&self, lbn: u64) -> MapEntry {
        let (at, i) = at::<{ ENTRY_BYTES / MAP_ENTRY_SIZE }>(lbn);
        MapEntry::decode(self.map[at].entry(i)).unwrap_or(MapEntry::Lost)
    }

    fn refs_of(&self, pbn: u64) -> u8 {
        let (at, i) = at::<ENTRY_BYTES>(pbn);
        self.refs[at].entry::<1>(i)[0]
    }

    fn name(&self, pbn: u64) -> FingerprintEntry {
        let (at, i) = at::<{ ENTRY_BYTES / FINGERPRINT_ENTRY_SIZE }>(pbn);
        FingerprintEntry::decode(self.fingerprints[at].entry(i)).unwrap_or(FingerprintEntry::NONE)
    }

    /// Returns whether the volume has these blocks.
    pub fn has(&self, lbn: Option<u64>, pbn: Option<u64>) -> bool {
        lbn.is_none_or(|lbn| lbn < self.volume.geometry.logical_blocks) && pbn.is_none_or(|pbn| pbn < self.links.len() as u64)
    }

    /// Begins another durable epoch: the changes of the last one become old.
    pub fn begin_epoch(&mut self) {
        self.before.clear();
        self.links_before.clear();
    }

    /// Applies a change of an epoch that is durable. Sectors whose durable version already includes it stay as they are.
    pub fn apply(&mut self, epoch: u64, change: &Change) -> Result<(), Violation> {
        match *change {
            Change::Link { lbn, to, old } => {
                let (at, i) = at::<{ ENTRY_BYTES / MAP_ENTRY_SIZE }>(lbn);
                let before = self.map(lbn);
                if let Some(sector) = self.touch((Region::Map, at), epoch) {
                    sector.set(i, &to.encode());
                    before.pbn().into_iter().for_each(|pbn| self.link(pbn.get(), -1));
                    to.pbn().into_iter().for_each(|pbn| self.link(pbn.get(), 1));
                }
                old.map_or(Ok(()), |old| self.count(epoch, old, -1))?;
                to.pbn().map_or(Ok(()), |pbn| self.count(epoch, pbn.get(), 1))
            }
            Change::NewEntry { pbn, name } => {
                if let Some(name) = name {
                    self.rename(epoch, pbn, name);
                }
                self.count(epoch, pbn, 1)
            }
            Change::Removed { pbn } => {
                self.rename(epoch, pbn, FingerprintEntry::NONE);
                self.count(epoch, pbn, -1)
            }
        }
    }

    fn rename(&mut self, epoch: u64, pbn: u64, name: FingerprintEntry) {
        let (at, i) = at::<{ ENTRY_BYTES / FINGERPRINT_ENTRY_SIZE }>(pbn);
        let before = self.name(pbn);
        if let Some(sector) = self.touch((Region::Fingerprints, at), epoch) {
            sector.set(i, &name.encode());
            self.link(pbn, i32::from(!name.is_none()) - i32::from(!before.is_none()));
        }
    }

    fn link(&mut self, pbn: u64, by: i32) {
        // While the tables are being read, nothing has been counted yet.
        let links = &mut self.links[to_index(pbn)];
        self.links_before.entry(pbn).or_insert(*links);
        *links = links.saturating_add_signed(by);
    }

    fn count(&mut self, epoch: u64, pbn: u64, by: i16) -> Result<(), Violation> {
        let (at, i) = at::<ENTRY_BYTES>(pbn);
        let refs = self.refs_of(pbn);
        let Some(sector) = self.touch((Region::Refs, at), epoch) else { return Ok(()) };
        let sum = u8::try_from(i16::from(refs) + by).ok().filter(|sum| *sum != REFS_UNKNOWN);
        match sum {
            _ if refs == REFS_UNKNOWN => Ok(()),
            Some(sum) => {
                sector.set(i, &[sum]);
                Ok(())
            }
            None => Err(violation!("L1: records of epoch {epoch} change refs of PBN {pbn} from {refs} by {by}, which gives no count")),
        }
    }

    /// Returns a sector that an epoch changes; none if its durable version already includes the change.
    fn touch(&mut self, id: SectorId, epoch: u64) -> Option<&mut Sector> {
        let sector = self.sector_mut(id);
        sector.touched = sector.touched.max(epoch);
        if sector.tag >= epoch {
            return None;
        }
        if sector.last < epoch {
            let was = (sector.entries.clone(), sector.last);
            self.before.insert(id, was);
            let sector = self.sector_mut(id);
            sector.last = epoch;
            sector.missing.push(epoch);
            self.behind.insert(id);
        }
        Some(self.sector_mut(id))
    }

    /// Notes that a flush has decided a page.
    pub fn page_decided(&mut self, id: PageId, content: &Shared) {
        for i in 0..8 {
            let at = (id.region, to_index(id.sector(i)));
            let tag = u64::from_le_bytes(content.sector(i)[TAG].try_into().expect("a tag"));
            let sector = self.sector_mut(at);
            sector.tag = tag;
            sector.missing.retain(|&epoch| epoch > tag);
            if sector.missing.is_empty() {
                self.behind.remove(&at);
            }
        }
    }

    /// Returns a sector that lacks, on the medium, an epoch up to `names` (for fingerprints) or up to `links` (for map and refs), and that
    /// epoch.
    pub fn lacking(&self, names: u64, links: u64) -> Option<(SectorId, u64)> {
        let lacks = |&id: &SectorId| {
            let upto = if id.0 == Region::Fingerprints { names } else { links };
            let oldest = *self.sector(id).missing.first()?;
            (oldest <= upto).then_some((id, oldest))
        };
        self.behind.iter().find_map(lacks)
    }

    /// Returns whether a record of an epoch after these changes a page.
    pub fn is_live(&self, id: PageId, names: u64, links: u64) -> bool {
        let upto = if id.region == Region::Fingerprints { names } else { links };
        (0..8).any(|i| self.sector((id.region, to_index(id.sector(i)))).touched > upto)
    }
}

/// Returns the sector of an entry, of which there are N in each, and its place there.
fn at<const N: usize>(entry: u64) -> (usize, usize) {
    (to_index(entry) / N, to_index(entry) % N)
}
