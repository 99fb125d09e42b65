//! A test bench: a device, its checker, and functions that write.

use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::format::page::{self, PageContent};
use onefold_engine::format::{
    Compacted, FingerprintEntry, Kind, LogTail, MapEntry, OldRun, PageId, Places, Record, Region, Superblock, UnitHeader, UnitKind,
    UnitWriter,
};
use onefold_engine::interface::IoId;
use onefold_engine::units::{Epoch, Lbn, Pbn};
use onefold_sim::checkers::logcheck::LogChecker;
use onefold_sim::checkers::oracle::{Oracle, Patch};
use onefold_sim::checkers::setcheck::View;
use onefold_sim::device::disk::{IoOutcome, SimDisk};
use onefold_sim::device::volume::{Volume, short_of};
use onefold_sim::explorer::options::Shape;
use onefold_sim::explorer::prepare::Prepared;
use onefold_sim::ground::content::{Content, Shared, pattern};
use onefold_sim::ground::violation::Violation;
use std::rc::Rc;

pub type Checked = Result<(), Violation>;

/// The places of the first units.
pub const PLACES: [u64; 8] = [20, 21, 22, 23, 24, 25, 26, 27];

pub struct Bench {
    pub volume: Rc<Volume>,
    pub disk: SimDisk,
    pub oracle: Oracle,
    pub checker: LogChecker,
    /// The superblock as it was last written.
    pub superblock: Superblock,
    /// The header of the next unit.
    pub header: UnitHeader,
    /// Whether writes have FUA.
    pub fua: bool,
    io: u64,
}

pub fn runs(pbns: &[u64]) -> Vec<Places> {
    pbns.iter().map(|&first| Places { first: Pbn(first), blocks: 1 }).collect()
}

pub fn block(pbn: u64) -> MapEntry {
    MapEntry::Block { pbn: Pbn(pbn), slot: 0 }
}

pub fn link(lbn: u64, to: MapEntry, old: Option<u64>) -> Record {
    Record::Link { lbn: Lbn(lbn), to, old: old.map(Pbn) }
}

/// Checks that the violation contains these words, which name the rule.
pub fn says(checked: Checked, words: &str) {
    let violation = checked.expect_err("a violation");
    assert!(violation.0.contains(words), "{violation}");
}

impl Bench {
    /// Makes an empty volume that serves with an empty log, in its second incarnation.
    pub fn new() -> Self {
        let (volume, disk, oracle, superblock) = Self::medium(&mut |_| {});
        Self::over(volume, disk, oracle, superblock).expect("an empty volume is in order")
    }

    /// Makes the medium of such a volume, with changes of its superblock.
    pub fn medium(change: &mut dyn FnMut(&mut Superblock)) -> (Rc<Volume>, SimDisk, Oracle, Superblock) {
        let prepared = Prepared::new(Shape::Tiny, true).expect("a prepared volume");
        let (volume, mut disk) = (prepared.volume.clone(), prepared.disk.clone());
        let mut superblock = prepared.superblock.clone();
        (superblock.clean, superblock.incarnation) = (false, 2);
        superblock.set_log_live(true);
        superblock.log_tail = Some(LogTail { epoch: Epoch(4), ..LogTail::of_new_log(2, runs(&PLACES[..3])) });
        change(&mut superblock);
        for copies in [[0, 2], [1, 3]] {
            superblock.generation += 1;
            for copy in copies {
                disk.plant(place_of(copy, &disk), sealed(&superblock, copy));
            }
        }
        (volume, disk, prepared.oracle, superblock)
    }

    pub fn over(volume: Rc<Volume>, disk: SimDisk, oracle: Oracle, superblock: Superblock) -> Result<Self, Violation> {
        let checker = LogChecker::new(volume.clone(), View { disk: &disk, oracle: &oracle })?.expect("a volume with a log");
        let header = UnitHeader {
            kind: UnitKind::Log,
            incarnation: 2,
            sequence: 1,
            epoch: Epoch(5),
            unit: 0,
            units: 1,
            flushed_upto: 0,
            content_flushed: false,
        };
        Ok(Self { volume, disk, oracle, checker, superblock, header, fua: false, io: 0 })
    }

    pub fn view(&self) -> View<'_> {
        View { disk: &self.disk, oracle: &self.oracle }
    }

    fn send(&mut self, at: u64, content: &Shared) -> Checked {
        self.checker.about_to_write(at, content, View { disk: &self.disk, oracle: &self.oracle })?;
        self.io += 1;
        let contents = std::slice::from_ref(content);
        if self.fua {
            self.disk.write_fua(IoId(self.io), at, contents)?
        } else {
            self.disk.write(IoId(self.io), at, contents)?
        }
        self.checker.changed(at, View { disk: &self.disk, oracle: &self.oracle })
    }

    /// Issues a write that completes.
    pub fn write(&mut self, at: u64, content: &Shared) -> Checked {
        self.send(at, content)?;
        self.complete()
    }

    /// Completes the last write.
    pub fn complete(&mut self) -> Checked {
        let decided = self.disk.finish(IoId(self.io), IoOutcome::Done);
        if self.fua { self.checker.decided(&decided, View { disk: &self.disk, oracle: &self.oracle }) } else { Ok(()) }
    }

    pub fn discard(&mut self, pbn: u64) -> Checked {
        self.checker.about_to_discard(self.volume.block_of(pbn))
    }

    pub fn flush(&mut self) -> Checked {
        self.io += 1;
        self.disk.flush(IoId(self.io));
        let decided = self.disk.finish(IoId(self.io), IoOutcome::Done);
        self.checker.decided(&decided, View { disk: &self.disk, oracle: &self.oracle })
    }

    pub fn data(&mut self, pbn: u64, content: &Shared) -> Checked {
        self.write(self.volume.block_of(pbn), content)
    }

    /// Makes a client send this content to an LBN.
    pub fn client(&mut self, lbn: u64, label: &str) {
        self.oracle.send(lbn, Patch::Whole(pattern(label)), true);
    }

    pub fn name(&self, label: &str) -> FingerprintEntry {
        let Digest::Of(value) = self.volume.digest(&pattern(label)) else { panic!("content with a fingerprint") };
        FingerprintEntry::of(value)
    }

    pub fn new_block(&self, lbn: u64, pbn: u64, label: &str, old: Option<u64>) -> Record {
        Record::New { lbn: Lbn(lbn), pbn: Pbn(pbn), old: old.map(Pbn), name: self.name(label) }
    }

    /// Makes the record of a new block in a large epoch.
    pub fn extent(&self, lbn: u64, pbn: u64, label: &str) -> Record {
        let shorts = vec![short_of(&self.name(label).value)];
        Record::Extent { lbn: Lbn(lbn), pbn: Pbn(pbn), olds: vec![OldRun { first: None, blocks: 1 }], shorts, is_apart: false }
    }

    /// Makes a unit with this header for a place.
    pub fn unit(&self, header: &UnitHeader, pbn: u64, places: &[u64], records: Vec<Record>) -> Shared {
        let mut writer = UnitWriter::new(runs(places));
        records.into_iter().for_each(|record| assert!(writer.push(record).is_none(), "few records"));
        let mut bytes = [0; 4096];
        let _ = writer.seal(&self.superblock.authenticator(), header, Pbn(pbn), &mut bytes);
        Content::of(&bytes)
    }

    /// Writes the next unit, which is complete and alone in its epoch, and prepares the header of the following one.
    pub fn epoch(&mut self, records: Vec<Record>) -> Checked {
        self.change_unit(records, |_, _, _| {})
    }

    /// Does the same with changes of the header, the block or the places.
    pub fn change_unit(&mut self, records: Vec<Record>, change: impl FnOnce(&mut UnitHeader, &mut u64, &mut Vec<u64>)) -> Checked {
        let (pbn, unit) = self.next_unit(records, change);
        self.data(pbn, &unit)?;
        self.follows();
        Ok(())
    }

    /// Sends the next unit, alone in its epoch; it does not complete.
    pub fn send_epoch(&mut self, records: Vec<Record>) -> Checked {
        let (pbn, unit) = self.next_unit(records, |_, _, _| {});
        self.send(self.volume.block_of(pbn), &unit)?;
        self.follows();
        Ok(())
    }

    fn next_unit(&self, records: Vec<Record>, change: impl FnOnce(&mut UnitHeader, &mut u64, &mut Vec<u64>)) -> (u64, Shared) {
        let at = usize::try_from(self.header.sequence - 1).expect("few units");
        let (mut header, mut pbn, mut places) = (self.header, PLACES[at], PLACES[at + 1..(at + 3).min(8)].to_vec());
        change(&mut header, &mut pbn, &mut places);
        (pbn, self.unit(&header, pbn, &places, records))
    }

    fn follows(&mut self) {
        self.header.flushed_upto = self.header.sequence;
        self.header.sequence += 1;
        self.header.epoch += 1;
    }

    /// Makes a bench on which LBN 5 refers to PBN 3 with `a`, committed in epoch 5 and freed in epoch 6, which gives LBN 6 the same
    /// content.
    pub fn with_two_links() -> Self {
        let mut bench = Self::new();
        bench.link_twice();
        bench
    }

    /// Writes the two epochs of [`Bench::with_two_links`].
    pub fn link_twice(&mut self) {
        self.client(5, "a");
        self.client(6, "a");
        self.data(3, &pattern("a")).unwrap();
        let new = self.new_block(5, 3, "a", None);
        self.epoch(vec![new]).unwrap();
        self.flush().unwrap();
        self.epoch(vec![link(6, block(3), None)]).unwrap();
        self.flush().unwrap();
    }

    /// Writes the first page of a region with this tag and a change.
    pub fn page(&mut self, region: Region, tag: u64, change: impl FnOnce(&mut PageContent)) -> Checked {
        let id = PageId { region, index: 0 };
        let at = self.volume.block_of_page(id);
        let mut content = page::open(&self.volume.uuid, id, self.disk.cell(at).newest().bytes(), false).content;
        change(&mut content);
        (0..8).for_each(|sector| content.set_tag(sector, tag));
        let mut bytes = [0; 4096];
        page::seal(&self.volume.uuid, id, &mut content, &mut bytes);
        self.write(at, &Content::of(&bytes))
    }

    pub fn bits(&mut self, change: impl FnOnce(&mut PageContent)) -> Checked {
        self.page(Region::Written, 0, change)
    }

    /// Writes the pages of [`Bench::with_two_links`], each with its bit, durably.
    pub fn pages(&mut self) -> Checked {
        self.confirm()?;
        let name = self.name("a");
        self.page(Region::Map, 6, |page| {
            page.set_map(5, block(3));
            page.set_map(6, block(3));
        })?;
        self.page(Region::Refs, 6, |page| page.set_refs(3, 3))?;
        self.page(Region::Fingerprints, 6, |page| page.set_fingerprint(3, name))?;
        self.flush()?;
        let at = [Region::Map, Region::Refs, Region::Fingerprints].map(|region| {
            let (_, bit) = self.volume.geometry.written_of(PageId { region, index: 0 });
            bit
        });
        self.bits(|page| at.iter().for_each(|&bit| page.set_bit(bit, true)))?;
        self.flush()
    }

    pub fn kind_two(value: u8) -> FingerprintEntry {
        FingerprintEntry { kind: Kind::Checksum, value: Fingerprint::of_digest(&[value; 16]) }
    }

    /// Writes one copy of the next generation.
    pub fn copy(&mut self, copy: usize) -> Checked {
        let content = sealed(&self.superblock, copy);
        self.write(place_of(copy, &self.disk), &content)
    }

    /// Writes the next superblock in one pair of copies, and flushes.
    pub fn say(&mut self, change: impl FnOnce(&mut Superblock)) -> Checked {
        change(&mut self.superblock);
        self.superblock.generation += 1;
        for copy in onefold_engine::format::pair_of(self.superblock.generation) {
            self.copy(copy)?;
        }
        self.flush()
    }

    /// Writes a superblock that confirms all units so far as flushed.
    pub fn confirm(&mut self) -> Checked {
        let flushed = self.header.sequence - 1;
        self.say(|superblock| superblock.log_tail.as_mut().expect("it has a log").flushed_upto = flushed)
    }

    /// Moves the log tail behind this unit and epoch, with places from there on.
    pub fn move_log_tail(&mut self, sequence: u64, epoch: u64, compacted: Compacted) -> Checked {
        let at = usize::try_from(sequence).expect("few units");
        self.say(|superblock| superblock.log_tail = Some(log_tail_behind(sequence, epoch, &PLACES[at..at + 1], compacted)))
    }
}

pub fn log_tail_behind(sequence: u64, epoch: u64, places: &[u64], compacted: Compacted) -> LogTail {
    LogTail {
        sequence: sequence + 1,
        incarnation: 2,
        epoch: Epoch(epoch),
        flushed_upto: sequence,
        places: runs(places),
        barrier: None,
        compacted,
    }
}

fn place_of(copy: usize, disk: &SimDisk) -> u64 {
    [0, 1, disk.blocks() - 2, disk.blocks() - 1][copy]
}

/// Seals a superblock as the engine would: no number of its log tail is ahead of the superblock's own.
fn sealed(superblock: &Superblock, copy: usize) -> Shared {
    let (mut bytes, mut superblock) = ([0; 4096], superblock.clone());
    if let Some(log_tail) = &superblock.log_tail {
        superblock.last_epoch = superblock.last_epoch.max(log_tail.epoch);
        superblock.last_log_sequence = superblock.last_log_sequence.max(log_tail.sequence - 1);
    }
    superblock.encode(copy, &mut bytes);
    Content::of(&bytes)
}
