//! A device in memory for large volumes: it keeps metadata as written and only the name of content, and counts what reaches it.
//!
//! 1. If a volume of Onefold is on it, the class of a command must be that of its place. A bare device accepts any class.

use super::page::Page;
use crate::replay::names::{SECTORS, Words, name_of_words, words_of, write_words};
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::check::ReadMedium;
use onefold_engine::format::{ExtentKind, FormatStep, Geometry, Region, Superblock, choose, copies, format, sieve_page, unit};
use onefold_engine::interface::{Class, IoFailure};
use onefold_engine::stats::Ledger;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use rustc_hash::FxHashMap;

/// The beginnings of blocks that are no content of clients.
const KEPT: [&[u8]; 2] = [&unit::MAGIC, &sieve_page::MAGIC];

/// Counts of commands of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub commands: u64,
    pub bytes: u64,
    /// The aligned 4 KiB units of the device that commands touched.
    pub units: u64,
}

impl Count {
    fn add(&mut self, at: u64, bytes: u64) {
        self.commands += 1;
        self.bytes += bytes;
        self.units += (at + bytes).div_ceil(BLOCK_BYTES) - at / BLOCK_BYTES;
    }

    /// Returns what was counted since an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { commands: self.commands - earlier.commands, bytes: self.bytes - earlier.bytes, units: self.units - earlier.units }
    }
}

/// Counts of everything that reached the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Counts of writes, by [`Class`].
    pub written: [Count; Class::ALL.len()],
    pub read: [Count; Class::ALL.len()],
    pub flushes: u64,
    /// The writes that were FUA.
    pub fua_writes: u64,
    pub discards: u64,
    pub discarded_bytes: u64,
}

impl Tally {
    /// Returns the number of all units written.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.written.iter().map(|c| c.units).sum()
    }

    /// Returns the number of units written of one class.
    #[must_use]
    pub fn units_of(&self, class: Class) -> u64 {
        self.written[class as usize].units
    }

    /// Returns what was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: &[Count; Class::ALL.len()], then: &[Count; Class::ALL.len()]| std::array::from_fn(|i| now[i].since(then[i]));
        Self {
            written: since(&self.written, &earlier.written),
            read: since(&self.read, &earlier.read),
            flushes: self.flushes - earlier.flushes,
            fua_writes: self.fua_writes - earlier.fua_writes,
            discards: self.discards - earlier.discards,
            discarded_bytes: self.discarded_bytes - earlier.discarded_bytes,
        }
    }

    /// Compares the engine's own account with this one.
    ///
    /// # Errors
    /// Returns a description of the difference.
    pub fn compare(&self, ledger: &Ledger) -> Result<(), String> {
        for class in Class::ALL {
            for (way, mine, theirs) in [
                ("written", self.written[class as usize], ledger.written[class as usize]),
                ("read", self.read[class as usize], ledger.read[class as usize]),
            ] {
                if (mine.commands, mine.bytes, mine.units) != (theirs.commands, theirs.bytes, theirs.units) {
                    return Err(format!("{class:?} {way}: the device counts {mine:?}, the ledger says {theirs:?}"));
                }
            }
        }
        let mine = (self.flushes, self.fua_writes, self.discards, self.discarded_bytes);
        let theirs = (ledger.device_flushes, ledger.device_fua_writes, ledger.device_discards, ledger.device_discarded_bytes);
        if mine != theirs {
            return Err(format!(
                "(flushes, writes with FUA, discards, bytes discarded): the device counts {mine:?}, the ledger says {theirs:?}"
            ));
        }
        Ok(())
    }
}

/// A sparse device.
#[derive(Clone, Default)]
pub struct Device {
    /// The geometry of the volume on it; none for a bare device.
    geometry: Option<Geometry>,
    /// The metadata, by 4 KiB unit of the device.
    pages: FxHashMap<u64, Page>,
    /// Pages are compressed, and the bytes of them all are counted.
    is_compact: bool,
    pages_bytes: u64,
    /// The names of content.
    contents: FxHashMap<u64, u64>,
    /// The words of contents that are combined from several.
    mixed: FxHashMap<u64, Words>,
    pub tally: Tally,
}

impl Device {
    /// Makes a formatted device. Formatting is not counted.
    ///
    /// # Panics
    /// Panics if a formatted volume cannot be opened.
    #[must_use]
    pub fn formatted(superblock: &Superblock) -> (Self, Superblock) {
        let geometry = superblock.geometry.clone();
        let bytes = geometry.device_bytes;
        let mut device = Self { geometry: Some(geometry), ..Self::default() };
        for step in format(superblock, bytes, &[]) {
            match step {
                FormatStep::Zero { at, length } => {
                    (at.0 / BLOCK_BYTES..(at.0 + length.0) / BLOCK_BYTES).for_each(|block| device.remove_page(block));
                }
                FormatStep::Write { at, page } => {
                    let mut buffer = BufferMut::zeroed(1);
                    buffer.block_mut(0).copy_from_slice(&page[..]);
                    device.put_page(at.0 / BLOCK_BYTES, buffer.freeze().slice(0, 1));
                }
                FormatStep::Flush => {}
            }
        }
        let superblock = device.superblock();
        (device, superblock)
    }

    /// Returns the newest superblock on the device.
    ///
    /// # Panics
    /// Panics if there is none.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        let bytes = self.geometry.as_ref().expect("a volume is on it").device_bytes;
        let pages: [_; 4] = std::array::from_fn(|i| self.pages.get(&(copies(bytes)[i].0 / BLOCK_BYTES)).map(Page::bytes));
        choose(pages.each_ref().map(Option::as_ref), bytes).expect("a formatted volume opens").into_service()
    }

    /// Compares the class of a command with what lies at that byte of the device.
    fn check_class(&self, at: u64, class: Class, what: &str) {
        let Some(geometry) = &self.geometry else { return };
        // Units of the log lie among the data.
        let class = if class == Class::Log { Class::Data } else { class };
        assert_eq!(class_at(geometry, at), class, "{what} at {at} has another class than its place");
    }

    /// Returns the geometry of the volume of Onefold on it, if there is one.
    #[must_use]
    pub fn geometry(&self) -> Option<&Geometry> {
        self.geometry.as_ref()
    }

    /// Returns the number of units of metadata that were ever written, except those of the log, which lie among the data.
    #[must_use]
    pub fn metadata_units(&self) -> u64 {
        let is_data = |block: u64| self.geometry.as_ref().is_some_and(|g| class_at(g, block * BLOCK_BYTES) == Class::Data);
        self.pages.keys().filter(|&&block| !is_data(block)).count() as u64
    }

    /// Carries out a write command.
    ///
    /// # Panics
    /// Panics if its class is not that of its place.
    pub fn write(&mut self, at: Bytes, data: &[Slice], class: Class) {
        self.check_class(at.0, class, "a write");
        self.tally.written[class as usize].add(at.0, data.iter().map(Slice::length).sum());
        let mut block = at.0 / BLOCK_BYTES;
        for slice in data {
            for i in 0..slice.blocks() {
                // Packs and pages of the sieve have the class of data, but their bytes have to be kept.
                if class == Class::Data && !KEPT.iter().any(|magic| slice.block(i).starts_with(magic)) {
                    self.put_content(block, words_of(slice.block(i)));
                } else {
                    self.contents.remove(&block);
                    self.put_page(block, slice.nth(i));
                }
                block += 1;
            }
        }
    }

    /// Stores a page of metadata before anything is counted.
    pub fn format_page(&mut self, at: Bytes, page: &Slice) {
        (0..page.blocks()).for_each(|i| self.put_page(at.0 / BLOCK_BYTES + i as u64, page.nth(i)));
    }

    fn put_content(&mut self, block: u64, words: Words) {
        let name = name_of_words(&words);
        if words != [name; SECTORS] {
            self.mixed.insert(name, words);
        }
        self.remove_page(block);
        self.contents.insert(block, name);
    }

    fn put_page(&mut self, block: u64, page: Slice) {
        self.remove_page(block);
        let page = Page::new(page, self.is_compact);
        self.pages_bytes += page.held_bytes();
        self.pages.insert(block, page);
    }

    fn remove_page(&mut self, block: u64) {
        self.pages_bytes -= self.pages.remove(&block).map_or(0, |page| page.held_bytes());
    }

    /// Compresses pages from now on, which takes time and saves memory.
    pub fn become_compact(&mut self) {
        self.is_compact = true;
    }

    /// Returns the memory that it takes, but for what tables have in reserve.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let entry = |value: usize| (size_of::<u64>() + value + 1) as u64;
        let tables = self.pages.len() as u64 * entry(size_of::<Page>()) + self.contents.len() as u64 * entry(size_of::<u64>());
        self.pages_bytes + tables + self.mixed.len() as u64 * entry(size_of::<Words>())
    }

    /// Carries out a read command: fills the buffer.
    ///
    /// # Panics
    /// Panics if its class is not that of its place.
    pub fn read(&mut self, at: Bytes, buffer: &mut BufferMut, class: Class) {
        self.check_class(at.0, class, "a read");
        self.tally.read[class as usize].add(at.0, buffer.blocks() as u64 * BLOCK_BYTES);
        for i in 0..buffer.blocks() {
            self.fill(at.0 / BLOCK_BYTES + i as u64, buffer.block_mut(i));
        }
    }

    fn fill(&self, block: u64, out: &mut [u8; BLOCK_SIZE]) {
        if let Some(page) = self.pages.get(&block) {
            return out.copy_from_slice(&page.bytes());
        }
        out.fill(0);
        if let Some(name) = self.contents.get(&block) {
            write_words(self.mixed.get(name).unwrap_or(&[*name; SECTORS]), out);
        }
    }

    /// Counts a flush: everything is durable at once.
    pub fn count_flush(&mut self) {
        self.tally.flushes += 1;
    }

    /// Counts a write by whether it was one with FUA.
    pub fn count_fua(&mut self, is_fua: bool) {
        self.tally.fua_writes += u64::from(is_fua);
    }

    /// Carries out a discard command.
    ///
    /// # Panics
    /// Panics if it touches anything of a volume except content.
    pub fn discard(&mut self, at: Bytes, length: Bytes) {
        self.check_class(at.0, Class::Data, "a discard");
        self.check_class(at.0 + length.0 - BLOCK_BYTES, Class::Data, "a discard");
        self.tally.discards += 1;
        self.tally.discarded_bytes += length.0;
        for block in at.0 / BLOCK_BYTES..(at.0 + length.0) / BLOCK_BYTES {
            self.contents.remove(&block);
            self.remove_page(block);
        }
    }
}

/// Returns the class of what lies at a byte of a volume.
///
/// # Panics
/// Panics if nothing of the volume lies there.
fn class_at(geometry: &Geometry, at: u64) -> Class {
    if copies(geometry.device_bytes).iter().any(|copy| copy.0 == at) {
        return Class::Superblock;
    }
    let extent = geometry.extents.iter().find(|e| at >= e.offset.0 && at - e.offset.0 < e.length.0);
    match extent.unwrap_or_else(|| panic!("nothing of the volume lies at byte {at}")).kind {
        ExtentKind::Data => Class::Data,
        ExtentKind::Pages(Region::Written) => Class::Written,
        ExtentKind::Pages(Region::Refs) => Class::Refs,
        ExtentKind::Pages(Region::Fingerprints) => Class::Fingerprints,
        ExtentKind::Pages(Region::Map) => Class::Map,
    }
}

impl ReadMedium for Device {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        for (i, block) in buffer.chunks_exact_mut(BLOCK_SIZE).enumerate() {
            self.fill(at.0 / BLOCK_BYTES + i as u64, block.try_into().expect("a block"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::fingerprint::Algorithm;
    use onefold_engine::format::Wish;
    use onefold_engine::settings::Settings;

    #[test]
    fn both_accounts_must_agree_in_everything() {
        let geometry = Geometry::plan(Bytes(16 << 20), &Wish::default()).expect("fits");
        let (mut device, superblock) =
            Device::formatted(&Superblock::new(geometry, [1; 16], [2; 32], Algorithm::Blake3, &Settings::default()));
        let mut ledger = Ledger::default();
        assert_eq!(device.tally.compare(&ledger), Ok(()));
        let at = superblock.geometry.block_at(onefold_engine::units::Pbn(3));
        device.write(at, &[BufferMut::zeroed(2).freeze().slice(0, 2)], Class::Data);
        assert!(device.tally.compare(&ledger).unwrap_err().starts_with("Data written"));
        ledger.wrote(Class::Data, 8192);
        assert_eq!(device.tally.compare(&ledger), Ok(()));
        ledger.device_flushes += 1;
        assert!(device.tally.compare(&ledger).is_err());
        device.tally.flushes += 1;
        ledger.device_fua_writes += 1;
        assert!(device.tally.compare(&ledger).unwrap_err().contains("writes with FUA"));
        device.tally.fua_writes += 1;
        assert_eq!(device.tally.compare(&ledger), Ok(()));
        let mut buffer = BufferMut::zeroed(1);
        device.read(superblock.geometry.page_at(onefold_engine::format::PageId { region: Region::Map, index: 0 }), &mut buffer, Class::Map);
        assert!(device.tally.compare(&ledger).unwrap_err().starts_with("Map read"));
    }

    #[test]
    fn a_pack_is_data_and_reads_back_as_it_was_written() {
        let geometry = Geometry::plan(Bytes(16 << 20), &Wish::default()).expect("fits");
        let (mut device, superblock) =
            Device::formatted(&Superblock::new(geometry, [1; 16], [2; 32], Algorithm::Blake3, &Settings::default()));
        let at = superblock.geometry.block_at(onefold_engine::units::Pbn(3));
        let (pages, mut pack) = (device.metadata_units(), BufferMut::zeroed(1));
        pack.block_mut(0)[..8].copy_from_slice(b"1LOG\x02\0\x01\0");
        pack.block_mut(0)[100..].fill(9);
        let pack = pack.freeze();
        device.write(at, &[pack.slice(0, 1)], Class::Data);
        let mut back = BufferMut::zeroed(1);
        device.read(at, &mut back, Class::Data);
        assert!(back.block(0) == pack.slice(0, 1).block(0));
        assert_eq!((device.metadata_units(), device.tally.units_of(Class::Data)), (pages, 1), "it is no metadata");
    }

    #[test]
    #[should_panic(expected = "another class")]
    fn a_write_to_another_place_than_its_class_has_is_noticed() {
        let geometry = Geometry::plan(Bytes(16 << 20), &Wish::default()).expect("fits");
        let (mut device, superblock) =
            Device::formatted(&Superblock::new(geometry, [1; 16], [2; 32], Algorithm::Blake3, &Settings::default()));
        let at = superblock.geometry.page_at(onefold_engine::format::PageId { region: Region::Refs, index: 0 });
        device.write(at, &[BufferMut::zeroed(1).freeze().slice(0, 1)], Class::Map);
    }
}
