//! The story of one block: what the tables hold about it, what a live log adds, whether its content agrees, and what it holds of the log.

use super::unit::UnitStory;
use crate::commands::offline::Medium;
use crate::device::backing::Backing;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::Report;
use crate::output::table::Table;
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::{LiveLog, read_log};
use onefold_engine::format::page::{Opened, PageId, SECTORS, open};
use onefold_engine::format::unit::may_have_entry;
use onefold_engine::format::{FingerprintEntry, Kind, MapEntry, REFS_UNKNOWN, Region, SLOTS_MAX, Superblock};
use onefold_engine::units::{BLOCK_BYTES, Lbn, Pbn, index};
use serde::Serialize;

/// The number of logical blocks that are listed; further ones are only counted.
const LISTED_MAX: usize = 64;

/// Reads pages of a volume's tables.
pub struct Reader<'a> {
    backing: &'a Backing,
    superblock: &'a Superblock,
    log: LiveLog,
    buffer: BufferMut,
}

/// The place of an entry.
#[derive(Debug, Serialize)]
struct EntryPlace {
    region: &'static str,
    page: u64,
    /// The number of the entry in the page.
    entry: usize,
    at: u64,
    /// The sector of the entry failed its check.
    is_damaged: bool,
    /// The page has been written since the volume was formatted, according to its bit.
    is_written: bool,
    /// Records of the live log change the page; the values shown include them.
    has_log_records: bool,
}

impl EntryPlace {
    fn text(&self) -> String {
        let state = match (self.is_damaged, self.is_written) {
            (true, _) => ", DAMAGED",
            (_, false) => ", never written as its bit says",
            _ => "",
        };
        let log = if self.has_log_records { ", with what the log says" } else { "" };
        format!("{} page {}, entry {}, at byte {}{state}{log}", self.region, self.page, self.entry, self.at)
    }
}

/// A logical block.
#[derive(Debug, Serialize)]
pub struct Logical {
    lbn: u64,
    entry: &'static str,
    slot: Option<u8>,
    map: EntryPlace,
    leads_to: Option<Physical>,
}

/// A physical block.
#[derive(Debug, Serialize)]
pub struct Physical {
    pbn: u64,
    at: u64,
    /// The count of links; none where it is not known.
    refs: Option<u8>,
    refs_place: EntryPlace,
    kind: &'static str,
    fingerprint: Option<String>,
    fingerprint_place: EntryPlace,
    /// `agrees`, `differs`, `cannot be read`, or `not comparable`.
    content: &'static str,
    links: Option<Links>,
    /// The log unit in this block. Only the log scan shows whether the log still needs it.
    unit: Option<UnitStory>,
}

/// The logical blocks that map to a physical one.
#[derive(Debug, Serialize)]
struct Links {
    count: u64,
    /// The first of them.
    lbns: Vec<u64>,
    /// The number of links to the block itself, and to each of its slots.
    by_slot: Vec<u64>,
}

impl Report for Logical {
    const NAME: &'static str = "dump-lbn";

    fn table(&self) -> Table {
        let table = Table::new()
            .row("LBN", self.lbn)
            .row("map entry", self.map.text())
            .row("means", self.entry)
            .row_if("slot", self.slot.filter(|&slot| slot > 0).map(|slot| self.slot_text(slot)));
        self.leads_to.iter().fold(table, |table, physical| physical.rows(table))
    }
}

impl Report for Physical {
    const NAME: &'static str = "dump-pbn";

    fn table(&self) -> Table {
        let table = self.rows(Table::new());
        self.unit.iter().fold(table, |table, unit| unit.rows(table))
    }
}

impl Logical {
    fn slot_text(&self, slot: u8) -> String {
        let unit = self.leads_to.as_ref().and_then(|block| block.unit.as_ref());
        unit.and_then(|unit| unit.slot(slot)).unwrap_or_else(|| format!("{slot}, which is not there"))
    }
}

impl Physical {
    fn rows(&self, table: Table) -> Table {
        let table = table
            .row("PBN", format!("{} at byte {}", self.pbn, self.at))
            .row("refs", self.refs.map_or_else(|| "unknown".to_owned(), |refs| refs.to_string()))
            .row("refs entry", self.refs_place.text())
            .row("kind", self.kind)
            .row_if("fingerprint", self.fingerprint.as_ref())
            .row("fingerprint entry", self.fingerprint_place.text())
            .row("content", self.content);
        let Some(links) = &self.links else { return table };
        let listed: Vec<String> = links.lbns.iter().map(u64::to_string).collect();
        let more = if links.count > links.lbns.len() as u64 { ", …" } else { "" };
        table.row("links from the map", format!("{}: {}{more}", links.count, listed.join(", ")))
    }
}

impl<'a> Reader<'a> {
    /// Returns a reader of that volume.
    ///
    /// # Errors
    /// When its log is live and damaged: the tables are then older than what was acknowledged.
    pub fn new(backing: &'a Backing, superblock: &'a Superblock) -> Outcome<Self> {
        let log = read_log(&mut Medium(backing), superblock).map_err(|finding| Failed::new(Exit::Damaged, finding.to_string()))?;
        Ok(Self { backing, superblock, log, buffer: BufferMut::zeroed(1) })
    }

    /// Returns the story of a logical block.
    ///
    /// # Errors
    /// When there is no such block, or the device fails.
    pub fn logical(&mut self, lbn: Lbn) -> Outcome<Logical> {
        let limit = self.superblock.geometry.logical_blocks;
        if lbn.get() >= limit {
            return Err(Failed::new(Exit::State, format!("LBN {} is beyond the end: the volume has {limit}", lbn.get())));
        }
        let (id, entry) = self.superblock.geometry.map_of(lbn);
        let (opened, map) = self.look_up(id, entry)?;
        let mapped = opened.content.map(entry);
        let (meaning, slot, pbn) = match mapped {
            MapEntry::Unmapped => ("never written, or discarded: zeros", None, None),
            MapEntry::Zero => ("written as zeros", None, None),
            MapEntry::Lost => ("lost to damage: an I/O error until it is written", None, None),
            MapEntry::Block { pbn, slot } => ("a block", Some(slot), Some(pbn)),
        };
        let leads_to = match pbn.filter(|pbn| pbn.get() < self.superblock.geometry.data_blocks) {
            Some(pbn) => Some(self.block(pbn)?),
            None => None,
        };
        Ok(Logical { lbn: lbn.get(), entry: meaning, slot, map, leads_to })
    }

    /// Returns the story of a physical block, with all links to it.
    ///
    /// # Errors
    /// When there is no such block, or the device fails.
    pub fn physical(&mut self, pbn: Pbn) -> Outcome<Physical> {
        let limit = self.superblock.geometry.data_blocks;
        if pbn.get() >= limit {
            return Err(Failed::new(Exit::State, format!("PBN {} is beyond the end: the volume has {limit}", pbn.get())));
        }
        let links = self.links(pbn)?;
        let mut block = self.block(pbn)?;
        block.unit.iter_mut().for_each(|unit| unit.set_links(&links.by_slot));
        Ok(Physical { links: Some(links), ..block })
    }

    fn block(&mut self, pbn: Pbn) -> Outcome<Physical> {
        let geometry = &self.superblock.geometry;
        let ((refs_id, refs_entry), (print_id, print_entry)) = (geometry.refs_of(pbn), geometry.fingerprint_of(pbn));
        let at = geometry.block_at(pbn).get();
        let (refs_page, refs_place) = self.look_up(refs_id, refs_entry)?;
        let (print_page, fingerprint_place) = self.look_up(print_id, print_entry)?;
        let print = print_page.content.fingerprint(print_entry);
        let (content, unit) = self.compare(pbn, print);
        Ok(Physical {
            pbn: pbn.get(),
            at,
            refs: Some(refs_page.content.refs(refs_entry)).filter(|&refs| refs != REFS_UNKNOWN),
            refs_place,
            kind: match print.kind {
                Kind::None => "none",
                Kind::Fingerprint => "fingerprint",
                _ if print.is_suspect() => "found damaged",
                Kind::Checksum if print.short().is_some() => "short name",
                Kind::Checksum => "checksum",
                Kind::Carrier => "carrier",
            },
            fingerprint: (!print.is_none()).then(|| format!("{:?}", print.value)),
            fingerprint_place,
            content,
            links: None,
            unit,
        })
    }

    /// Whether a block agrees with its entry, and the unit in it.
    fn compare(&mut self, pbn: Pbn, entry: FingerprintEntry) -> (&'static str, Option<UnitStory>) {
        if self.backing.read(self.superblock.geometry.block_at(pbn).get(), &mut self.buffer).is_err() {
            return ("cannot be read", None);
        }
        let block = self.buffer.block(0);
        let story = UnitStory::of(self.superblock, pbn, block);
        let agrees = match entry.kind {
            Kind::Carrier => story.is_some() && may_have_entry(&entry.value, block),
            _ => match entry.is_of(&self.superblock.fingerprinter(), block) {
                Some(agrees) => agrees,
                None => return ("not comparable", story),
            },
        };
        (if agrees { "agrees" } else { "differs" }, story)
    }

    fn links(&mut self, pbn: Pbn) -> Outcome<Links> {
        let geometry = &self.superblock.geometry;
        let mut links = Links { count: 0, lbns: Vec::new(), by_slot: vec![0; SLOTS_MAX + 1] };
        for page in 0..geometry.pages(Region::Map) {
            let id = PageId { region: Region::Map, index: page };
            let Opened { content, .. } = self.page(id)?;
            let first = geometry.first_lbn(id).get();
            let entries = Region::Map.entries_per_page().min(geometry.logical_blocks.saturating_sub(first));
            for entry in 0..index(entries) {
                let MapEntry::Block { pbn: linked, slot } = content.map(entry) else { continue };
                if linked != pbn {
                    continue;
                }
                links.count += 1;
                links.by_slot[usize::from(slot)] += 1;
                if links.lbns.len() < LISTED_MAX {
                    links.lbns.push(first + entry as u64);
                }
            }
        }
        Ok(links)
    }

    fn look_up(&mut self, id: PageId, entry: usize) -> Outcome<(Opened, EntryPlace)> {
        let is_written = self.is_written(id)?;
        let mut opened = self.page_on_medium(id)?;
        let has_log_records = self.log.put_right(id, &mut opened);
        let sector = entry / index(id.region.entries_per_sector());
        assert!(sector < SECTORS, "an entry of its page");
        let place = EntryPlace {
            region: id.region.name(),
            page: id.index,
            entry,
            at: self.superblock.geometry.page_at(id).get(),
            is_damaged: !opened.is_sound(sector),
            is_written,
            has_log_records,
        };
        Ok((opened, place))
    }

    fn is_written(&mut self, id: PageId) -> Outcome<bool> {
        if id.region == Region::Written {
            return Ok(true);
        }
        let (bits, bit) = self.superblock.geometry.written_of(id);
        Ok(self.read(bits, true)?.content.bit(bit))
    }

    fn page(&mut self, id: PageId) -> Outcome<Opened> {
        let mut opened = self.page_on_medium(id)?;
        self.log.put_right(id, &mut opened);
        Ok(opened)
    }

    fn page_on_medium(&mut self, id: PageId) -> Outcome<Opened> {
        let written = self.is_written(id)?;
        self.read(id, written)
    }

    fn read(&mut self, id: PageId, written: bool) -> Outcome<Opened> {
        let at = self.superblock.geometry.page_at(id).get();
        self.backing
            .read(at, &mut self.buffer)
            .map_err(|e| Failed::system(format!("cannot read the {} page {} at byte {at}", id.region.name(), id.index), e))?;
        debug_assert_eq!(self.buffer.bytes().len() as u64, BLOCK_BYTES);
        Ok(open(&self.superblock.origin, id, self.buffer.block(0), written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::fingerprint::{Algorithm, Digest};
    use onefold_engine::format::{FormatStep, Geometry, LogTail, Places, Record, UnitHeader, UnitKind, UnitWriter, Wish, copies, format};
    use onefold_engine::settings::Settings;
    use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch};
    use std::os::unix::fs::FileExt;

    /// A volume whose log maps LBN 5 to PBN 20, which no page knows yet.
    fn with_live_log(backing: &std::fs::File, bytes: u64) -> Superblock {
        let geometry = Geometry::plan(Bytes(bytes), &Wish::default()).unwrap();
        let mut s = Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default());
        for step in format(&s.clone(), Bytes(bytes), &[]) {
            if let FormatStep::Write { at, page } = step {
                backing.write_all_at(&page[..], at.get()).unwrap();
            }
        }
        let places = vec![Places { first: Pbn(100), blocks: 3 }];
        (s.clean, s.incarnation) = (false, 1);
        s.log_tail = Some(LogTail::of_new_log(1, places));
        s.set_log_live(true);
        let mut page = [0; BLOCK_SIZE];
        for (copy, at) in copies(Bytes(bytes)).into_iter().enumerate() {
            s.encode(copy, &mut page);
            backing.write_all_at(&page, at.get()).unwrap();
        }
        let content = [7; BLOCK_SIZE];
        backing.write_all_at(&content, s.geometry.block_at(Pbn(20)).get()).unwrap();
        let Digest::Of(fingerprint) = s.fingerprinter().digest(&content) else { panic!("it is not zero") };
        let mut writer = UnitWriter::new(vec![Places { first: Pbn(101), blocks: 3 }]);
        let name = FingerprintEntry::of(fingerprint);
        assert_eq!(writer.push(Record::New { lbn: Lbn(5), pbn: Pbn(20), old: None, name }), None);
        let header = UnitHeader {
            kind: UnitKind::Log,
            incarnation: 1,
            sequence: 1,
            epoch: Epoch(1),
            unit: 0,
            units: 1,
            flushed_upto: 0,
            content_flushed: false,
        };
        let _ = writer.seal(&s.authenticator(), &header, Pbn(100), &mut page);
        backing.write_all_at(&page, s.geometry.block_at(Pbn(100)).get()).unwrap();
        s
    }

    #[test]
    fn what_a_live_log_says_is_part_of_the_story() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(32 << 20).unwrap();
        let superblock = with_live_log(&file, 32 << 20);
        let backing = Backing::open(&path, crate::device::backing::Access::Read).unwrap();
        let mut reader = Reader::new(&backing, &superblock).unwrap();
        let story = reader.logical(Lbn(5)).unwrap();
        let block = story.leads_to.expect("it is mapped");
        assert_eq!((block.pbn, block.refs, block.kind, block.content), (20, Some(2), "fingerprint", "agrees"));
        assert!(story.map.has_log_records && story.map.text().contains("with what the log says"));
        assert_eq!(reader.physical(Pbn(20)).unwrap().links.expect("all are listed").lbns, [5]);
        let unit = reader.physical(Pbn(100)).unwrap();
        assert_eq!((unit.kind, unit.content), ("none", "not comparable"));
        assert!(unit.table().to_string().contains("plain unit, sequence 1"));
        assert_eq!(reader.logical(Lbn(6)).unwrap().entry, "never written, or discarded: zeros");
    }
}
