//! The set checker of mode `ordered`: it checks P1 to P4 over *all* states that a power loss could leave, after every device event.
//!
//! Sectors survive independently (A1, A2), so no state has to be enumerated: for each sector it keeps the meaning of each possible version,
//! and from these checks
//!
//! 1. the largest number of links that each PBN could have (the maximum over the versions of each map sector; one for a fingerprint entry
//!    of any kind but none) against the smallest count of refs that it could have (P3);
//! 2. for each possible link, that the content is settled (R1, R4), and is a version at or above the floor of that LBN (P1, P2);
//! 3. for each possible fingerprint entry, that it names the settled content (P4);
//! 4. that no sector of a page whose *written* bit is possible could be zero (it would be taken for damage), and none fails its check (P6);
//! 5. that *clean* is possible only while nothing else is undecided, and while refs are exactly the links.
//!
//! It examines only the sectors that an event affected.
//! It does not check the result of recovery (the explorer does), or requests that are not acknowledged.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{Cell, SimDisk, to_index};
use crate::device::tables::{self, FINGERPRINTS, MAP, MapSector, REFS, Target, WRITTEN_BITS};
use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::Superblock;
use onefold_engine::format::copies::copies;
use onefold_engine::format::{FingerprintEntry, Kind, PageId, REFS_UNKNOWN, Region};
use onefold_engine::units::BLOCK_BYTES;
use std::rc::Rc;

/// The possible versions of one sector, decoded.
struct Versions<T> {
    ids: Vec<u64>,
    tables: Vec<Rc<T>>,
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self { ids: Vec::new(), tables: Vec::new() }
    }
}

/// Lists the distinct names that a sector could have.
fn sector_ids(cell: &Cell, sector: usize, out: &mut Vec<u64>) {
    out.clear();
    for content in cell.possible() {
        let id = content.sector_id(sector);
        if !out.contains(&id) {
            out.push(id);
        }
    }
}

impl<T> Versions<T> {
    /// Updates the versions to `ids`. Returns none if nothing changed, and otherwise the new tables.
    fn update(&mut self, ids: &[u64], mut decode: impl FnMut(u64) -> Result<Rc<T>, Violation>) -> Result<Option<Vec<Rc<T>>>, Violation> {
        if self.ids == ids {
            return Ok(None);
        }
        let mut fresh = Vec::new();
        let mut tables = Vec::with_capacity(ids.len());
        for &id in ids {
            if let Some(at) = self.ids.iter().position(|&known| known == id) {
                tables.push(self.tables[at].clone());
            } else {
                let table = decode(id)?;
                fresh.push(table.clone());
                tables.push(table);
            }
        }
        self.ids = ids.to_vec();
        self.tables = tables;
        Ok(Some(fresh))
    }
}

#[derive(Default)]
struct MapState {
    versions: Versions<MapSector>,
    /// For each PBN in any version, the largest number of links to it in one version.
    most: Vec<(u64, u32)>,
}

struct RefsState {
    versions: Versions<[u8; REFS]>,
    fewest: [u8; REFS],
}

#[derive(Default)]
struct FingerprintState {
    versions: Versions<[FingerprintEntry; FINGERPRINTS]>,
    /// A bit for each entry that exists in some version.
    some: u32,
}

/// The checker of one volume's device.
pub struct SetChecker {
    volume: Rc<Volume>,
    map: Vec<MapState>,
    refs: Vec<RefsState>,
    fingerprints: Vec<FingerprintState>,
    written: Vec<Versions<Vec<u32>>>,
    /// The largest number of links that each PBN could have.
    links: Vec<u32>,
    scratch: Vec<u32>,
    ids: Vec<u64>,
    clean_possible: bool,
    blank: Rc<MapSector>,
    /// The name of a sector of zeros.
    zero: u64,
    /// Whether the tables are being built: blank sectors are compared at the end.
    building: bool,
    /// Whether damage has been done from outside, or the device has failed: then lost entries and failed checks are no violation.
    pub damage_expected: bool,
}

/// The state that the checker reads besides its own.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub disk: &'a SimDisk,
    pub oracle: &'a Oracle,
}

impl SetChecker {
    /// Builds the tables from a device and checks all of it.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn new(volume: Rc<Volume>, view: View) -> Result<Self, Violation> {
        let sectors = |region: Region| to_index(volume.geometry.pages(region)) * 8;
        let mut checker = Self {
            map: (0..sectors(Region::Map)).map(|_| MapState::default()).collect(),
            refs: (0..sectors(Region::Refs)).map(|_| RefsState { versions: Versions::default(), fewest: [0; REFS] }).collect(),
            fingerprints: (0..sectors(Region::Fingerprints)).map(|_| FingerprintState::default()).collect(),
            written: (0..sectors(Region::Written)).map(|_| Versions::default()).collect(),
            links: vec![0; to_index(volume.geometry.data_blocks)],
            scratch: vec![0; to_index(volume.geometry.data_blocks)],
            ids: Vec::new(),
            clean_possible: false,
            blank: Rc::new(MapSector { targets: [Target::Zeros; MAP], blocks: Vec::new() }),
            zero: crate::ground::content::Content::zero().sector_id(0),
            building: true,
            damage_expected: false,
            volume,
        };
        // Refs come first, because links are compared with them.
        for region in [Region::Refs, Region::Written, Region::Fingerprints, Region::Map] {
            for index in 0..checker.volume.geometry.pages(region) {
                let block = checker.volume.block_of_page(PageId { region, index });
                checker.changed(block, view)?;
            }
        }
        checker.building = false;
        view.oracle.not_zero().into_iter().try_for_each(|lbn| checker.floor_raised(lbn, view))?;
        checker.superblock_changed(view)?;
        Ok(checker)
    }

    /// Checks a block of the device whose possible versions changed: a write or discard was issued, or a flush decided.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn changed(&mut self, block: u64, view: View) -> Result<(), Violation> {
        match self.volume.place(block) {
            BlockUse::Page(id) => (0..8).try_for_each(|sector| self.sector_changed(block, id, sector, view)),
            BlockUse::Data(pbn) => self.data_changed(pbn, view.disk.cell(block)),
            BlockUse::Superblock => self.superblock_changed(view),
            BlockUse::Unused => Err(violation!("format: block {block} of the device belongs to no region, and was written")),
        }
    }

    /// Checks a write that is about to be issued.
    ///
    /// # Errors
    /// Returns R4 if the content could still be linked, and would change.
    pub fn about_to_write(&self, block: u64, content: &Shared, view: View) -> Result<(), Violation> {
        let stays = view.disk.cell(block).settled().is_some_and(|settled| settled.id() == content.id());
        self.about_to_change(block, "a write", !stays)
    }

    /// Checks a discard that is about to be issued.
    ///
    /// # Errors
    /// Returns R4 if the content could still be linked.
    pub fn about_to_discard(&self, block: u64) -> Result<(), Violation> {
        self.about_to_change(block, "a discard", true)
    }

    fn about_to_change(&self, block: u64, what: &str, changes: bool) -> Result<(), Violation> {
        let place = self.volume.place(block);
        if self.clean_possible && place != BlockUse::Superblock {
            return Err(violation!("R8: {what} of {place:?} while the volume may be clean on the medium"));
        }
        let BlockUse::Data(pbn) = place else { return Ok(()) };
        let links = self.links[to_index(pbn)];
        if links > 0 && changes {
            return Err(violation!("R4: {what} of PBN {pbn} while {links} links to it are possible: {}", self.linkers(pbn)));
        }
        Ok(())
    }

    /// Checks a block whose floor was raised.
    ///
    /// # Errors
    /// Returns P1 if a link to something older is possible.
    pub fn floor_raised(&self, lbn: u64, view: View) -> Result<(), Violation> {
        let (sector, entry) = (to_index(lbn) / MAP, to_index(lbn) % MAP);
        self.map[sector].versions.tables.iter().try_for_each(|table| self.check_target(lbn, table.targets[entry], view))
    }

    /// Returns the largest number of links that a PBN could have.
    #[must_use]
    pub fn links(&self, pbn: u64) -> u32 {
        self.links[to_index(pbn)]
    }

    fn linkers(&self, pbn: u64) -> String {
        let mut found = Vec::new();
        for (sector, state) in self.map.iter().enumerate() {
            for table in &state.versions.tables {
                let of = table.targets.iter().enumerate().filter(|(_, t)| **t == Target::Block(pbn));
                found.extend(of.map(|(i, _)| format!("LBN {}", sector * MAP + i)));
            }
        }
        let (sector, entry) = (to_index(pbn) / FINGERPRINTS, to_index(pbn) % FINGERPRINTS);
        for table in self.fingerprints.get(sector).iter().flat_map(|s| &s.versions.tables) {
            if !table[entry].is_none() {
                found.push(format!("fingerprint of kind {:?}", table[entry].kind));
            }
        }
        found.dedup();
        found.join(", ")
    }

    fn data_changed(&self, pbn: u64, cell: &Cell) -> Result<(), Violation> {
        let links = self.links[to_index(pbn)];
        if links > 0 && cell.settled().is_none() {
            return Err(violation!("R4: PBN {pbn} may change while {links} links to it are possible: {}", self.linkers(pbn)));
        }
        Ok(())
    }

    fn sector_changed(&mut self, block: u64, id: PageId, sector: usize, view: View) -> Result<(), Violation> {
        let mut ids = std::mem::take(&mut self.ids);
        sector_ids(view.disk.cell(block), sector, &mut ids);
        let number = to_index(id.sector(sector));
        let result = match id.region {
            Region::Map => self.map_changed(number, block, sector, &ids, view),
            Region::Refs => self.refs_changed(number, block, sector, &ids, view),
            Region::Fingerprints => self.fingerprints_changed(number, block, sector, &ids, view),
            Region::Written => self.written_changed(number, block, sector, &ids, view),
        };
        self.ids = ids;
        result?;
        self.check_not_zero(id, block, sector, view)
    }

    fn map_changed(&mut self, number: usize, block: u64, sector: usize, ids: &[u64], view: View) -> Result<(), Violation> {
        let (volume, lenient) = (self.volume.clone(), self.damage_expected);
        let blank = self.blank.clone();
        let decode = |id| match bytes_of(view.disk.cell(block), sector, id) {
            // Most sectors of a map are blank, and all blank ones are equal.
            [0, ..] if id == self.zero => Ok(blank.clone()),
            bytes => tables::map(&volume, bytes, number as u64, lenient).map(Rc::new),
        };
        let state = &mut self.map[number];
        let known = state.versions.tables.last().cloned();
        let Some(fresh) = state.versions.update(ids, decode)? else { return Ok(()) };
        // To find the largest number of links in one version, count each version in the scratch table, which is all zero between uses.
        let mut most: Vec<(u64, u32)> = Vec::new();
        for table in &state.versions.tables {
            for &pbn in &table.blocks {
                self.scratch[to_index(pbn)] += 1;
            }
            for &pbn in &table.blocks {
                let links = std::mem::take(&mut self.scratch[to_index(pbn)]);
                if links > 0 {
                    most.push((pbn, links));
                }
            }
        }
        if state.versions.tables.len() > 1 {
            most.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            most.dedup_by_key(|m| m.0);
        }
        let before = std::mem::replace(&mut state.most, most);
        for (pbn, links) in before {
            self.links[to_index(pbn)] -= links;
        }
        for i in 0..self.map[number].most.len() {
            let (pbn, links) = self.map[number].most[i];
            self.links[to_index(pbn)] += links;
        }
        self.map[number].most.iter().try_for_each(|(pbn, _)| self.check_count(*pbn))?;
        let first = (number * MAP) as u64;
        for table in fresh {
            if self.building && Rc::ptr_eq(&table, &self.blank) {
                continue;
            }
            for (i, lbn) in (0..MAP).zip(first..) {
                // Targets that an older version contains have been checked already, and again whenever the floor rose.
                if known.as_ref().is_none_or(|k| k.targets[i] != table.targets[i]) {
                    self.check_target(lbn, table.targets[i], view)?;
                }
            }
        }
        Ok(())
    }

    fn refs_changed(&mut self, number: usize, block: u64, sector: usize, ids: &[u64], view: View) -> Result<(), Violation> {
        let (volume, lenient) = (self.volume.clone(), self.damage_expected);
        let decode = |id| tables::refs(&volume, bytes_of(view.disk.cell(block), sector, id), number as u64, lenient).map(Rc::new);
        let state = &mut self.refs[number];
        if state.versions.update(ids, decode)?.is_none() {
            return Ok(());
        }
        let mut fewest = *state.versions.tables[0];
        for table in &state.versions.tables[1..] {
            fewest.iter_mut().zip(table.iter()).for_each(|(a, b)| *a = (*a).min(*b));
        }
        let before = std::mem::replace(&mut state.fewest, fewest);
        let first = (number * REFS) as u64;
        for (pbn, (new, old)) in (first..self.links.len() as u64).zip(fewest.iter().zip(before.iter())) {
            if new < old {
                self.check_count(pbn)?;
            }
        }
        Ok(())
    }

    fn fingerprints_changed(&mut self, number: usize, block: u64, sector: usize, ids: &[u64], view: View) -> Result<(), Violation> {
        let (volume, lenient) = (self.volume.clone(), self.damage_expected);
        let decode = |id| tables::fingerprints(&volume, bytes_of(view.disk.cell(block), sector, id), number as u64, lenient).map(Rc::new);
        let state = &mut self.fingerprints[number];
        let known = state.versions.tables.last().cloned();
        let Some(fresh) = state.versions.update(ids, decode)? else { return Ok(()) };
        let mut some = 0;
        for table in &state.versions.tables {
            some |= table.iter().enumerate().filter(|(_, e)| !e.is_none()).fold(0, |bits, (i, _)| bits | (1 << i));
        }
        let before = std::mem::replace(&mut state.some, some);
        let first = (number * FINGERPRINTS) as u64;
        for (i, pbn) in (first..self.links.len() as u64).take(FINGERPRINTS).enumerate() {
            match ((before >> i) & 1, (some >> i) & 1) {
                (0, 1) => {
                    self.links[to_index(pbn)] += 1;
                    self.check_count(pbn)?;
                }
                (1, 0) => self.links[to_index(pbn)] -= 1,
                _ => {}
            }
        }
        for table in fresh {
            for (i, pbn) in (0..FINGERPRINTS).zip(first..self.links.len() as u64) {
                if known.as_ref().is_none_or(|k| k[i] != table[i]) {
                    self.check_fingerprint(pbn, &table[i], view)?;
                }
            }
        }
        Ok(())
    }

    fn written_changed(&mut self, number: usize, block: u64, sector: usize, ids: &[u64], view: View) -> Result<(), Violation> {
        let (volume, lenient) = (self.volume.clone(), self.damage_expected);
        let decode = |id| tables::written(&volume, bytes_of(view.disk.cell(block), sector, id), number as u64, lenient).map(Rc::new);
        let Some(fresh) = self.written[number].update(ids, decode)? else { return Ok(()) };
        let page = PageId { region: Region::Written, index: (number / 8) as u64 };
        for table in fresh {
            for &bit in table.iter() {
                let Some(id) = self.volume.geometry.page_of_written(page, (number % 8) * WRITTEN_BITS + bit as usize) else {
                    return Err(violation!("format: written bit {bit} of sector {number} stands for no page"));
                };
                let block = self.volume.block_of_page(id);
                (0..8).try_for_each(|s| self.check_not_zero(id, block, s, view))?;
            }
        }
        Ok(())
    }

    /// Checks invariant 4: a zero sector is empty only while its page's *written* bit is set in no version.
    fn check_not_zero(&self, id: PageId, block: u64, sector: usize, view: View) -> Result<(), Violation> {
        if id.region == Region::Written || self.damage_expected {
            return Ok(());
        }
        if !view.disk.cell(block).possible().any(|c| c.sector_id(sector) == self.zero) {
            return Ok(());
        }
        let (page, bit) = self.volume.geometry.written_of(id);
        let number = to_index(page.sector(bit / WRITTEN_BITS));
        let bit = u32::try_from(bit % WRITTEN_BITS).expect("a bit of a sector");
        if self.written[number].tables.iter().any(|t| t.binary_search(&bit).is_ok()) {
            return Err(violation!(
                "P6: sector {sector} of {} page {} may be zero while its written bit may be set",
                id.region.name(),
                id.index
            ));
        }
        Ok(())
    }

    /// Checks P3 for one PBN.
    fn check_count(&self, pbn: u64) -> Result<(), Violation> {
        let links = self.links[to_index(pbn)];
        let refs = self.refs[to_index(pbn) / REFS].fewest[to_index(pbn) % REFS];
        if refs != REFS_UNKNOWN && links > u32::from(refs) {
            return Err(violation!("P3: refs of PBN {pbn} may be {refs} while {links} links are possible: {}", self.linkers(pbn)));
        }
        Ok(())
    }

    /// Checks P1 and P2 for one possible map entry.
    fn check_target(&self, lbn: u64, target: Target, view: View) -> Result<(), Violation> {
        let id = match target {
            Target::Zeros => crate::ground::content::Content::zero().id(),
            Target::Lost if self.damage_expected => return Ok(()),
            Target::Lost => return Err(violation!("P1: LBN {lbn} may be lost")),
            Target::Block(pbn) => match view.disk.cell(self.volume.block_of(pbn)).settled() {
                Some(content) => content.id(),
                None => {
                    let cell = view.disk.cell(self.volume.block_of(pbn));
                    let all: Vec<_> = cell.possible().collect();
                    return Err(violation!("R1: LBN {lbn} may link to PBN {pbn}, whose content may be any of {all:?}"));
                }
            },
            // The slot was written by a log in an earlier life.
            Target::Slot(pbn, slot) => {
                let carrier = view.disk.cell(self.volume.block_of(pbn)).settled();
                carrier
                    .and_then(|carrier| self.volume.in_slot(carrier, slot))
                    .ok_or_else(|| violation!("R1: LBN {lbn} may refer to slot {slot} of PBN {pbn}, which has none"))?
            }
        };
        if view.oracle.may_survive(lbn, id) {
            return Ok(());
        }
        let promise = if view.oracle.remembers(lbn, id) { "P1" } else { "P2" };
        Err(violation!("{promise}: LBN {lbn} may be {target:?} with content {id:016x}; allowed are {}", view.oracle.describe(lbn)))
    }

    /// Checks P4 for one possible fingerprint entry.
    fn check_fingerprint(&self, pbn: u64, entry: &FingerprintEntry, view: View) -> Result<(), Violation> {
        if entry.is_none() {
            return Ok(());
        }
        let Some(content) = view.disk.cell(self.volume.block_of(pbn)).settled() else {
            return Err(violation!("R1: a fingerprint may name PBN {pbn}, whose content is not settled"));
        };
        let right = match entry.kind {
            Kind::None => true,
            Kind::Fingerprint | Kind::Checksum => self.volume.says(entry, content),
            Kind::Carrier => self.volume.is_carrier(pbn, content, entry.value),
        };
        if !right && !self.damage_expected {
            return Err(violation!("P4: the {:?} entry of PBN {pbn} names content that differs from {content:?}", entry.kind));
        }
        Ok(())
    }

    /// Checks invariant 5. A copy of the newest generation may win; a torn one never does, and then an older one may.
    fn superblock_changed(&mut self, view: View) -> Result<(), Violation> {
        let places = copies(self.volume.geometry.device_bytes).map(|at| view.disk.cell(at.get() / BLOCK_BYTES));
        let mut decoded: Vec<(bool, Rc<Superblock>)> = Vec::new();
        for (copy, cell) in places.iter().enumerate() {
            let sure = cell.settled().is_some();
            decoded.extend(cell.possible().filter_map(|c| self.volume.superblock(copy, c)).map(|s| (sure, s)));
        }
        let least = decoded.iter().filter(|(sure, _)| *sure).map(|(_, s)| s.generation).max().unwrap_or(0);
        let winners = || decoded.iter().map(|(_, s)| s).filter(|s| s.generation >= least);
        self.clean_possible = winners().any(|s| s.clean);
        if !self.clean_possible || self.damage_expected {
            return Ok(());
        }
        let page = |block: &&u64| matches!(self.volume.place(**block), BlockUse::Page(_));
        if let Some(block) = view.disk.undecided().iter().find(page) {
            return Err(violation!("P1: the volume may be clean while {:?} is undecided", self.volume.place(*block)));
        }
        if winners().any(|s| s.clean && !s.garbage_possible) {
            let wrong = (0..self.links.len() as u64).find(|&pbn| {
                let refs = self.refs[to_index(pbn) / REFS].fewest[to_index(pbn) % REFS];
                refs != REFS_UNKNOWN && u32::from(refs) != self.links[to_index(pbn)]
            });
            if let Some(pbn) = wrong {
                let refs = self.refs[to_index(pbn) / REFS].fewest[to_index(pbn) % REFS];
                let links = self.links[to_index(pbn)];
                return Err(violation!("P5: the volume may be clean with no garbage, but refs of PBN {pbn} are {refs} with {links} links"));
            }
        }
        Ok(())
    }
}

/// Returns the bytes of the version of a sector that has this name.
fn bytes_of(cell: &Cell, sector: usize, id: u64) -> &[u8; 512] {
    cell.possible().find(|c| c.sector_id(sector) == id).map(|c| c.sector(sector)).expect("the name came from here")
}
