//! A volume with a live log made by hand.

use super::machine::Machine;
use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::fingerprint::{Algorithm, Digest};
use onefold_engine::format::page::{open, seal};
use onefold_engine::format::{
    Authenticator, CommitMode, Compacted, FingerprintEntry, FormatStep, Geometry, LogTail, OldRun, PageContent, PageId, Places, Record,
    Region, Superblock, UnitHeader, UnitKind, UnitWriter, Wish, choose, copies, format,
};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MIB: u64 = 1 << 20;
/// The block before that of the first unit.
const FIRST_PLACE: u64 = 1000;
/// The number of places that each unit gives.
const NAMED: u64 = 3;
pub type Block = [u8; BLOCK_SIZE];

struct Heap;

impl Home for Heap {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::zeroed(blocks)
    }
    fn give_back(&self, _: Box<[Frame]>, _: u32) {}
}

/// Returns the content of this number, which differs from that of any other.
pub fn content(n: u64) -> Block {
    let mut block = [0xc0; BLOCK_SIZE];
    block[..8].copy_from_slice(&n.to_le_bytes());
    block
}

/// Returns the block in which the unit with this sequence lies.
pub fn place(sequence: u64) -> Pbn {
    Pbn(FIRST_PLACE + sequence)
}

/// A device in memory; blocks never written are zero.
#[derive(Clone)]
pub struct Volume {
    pub superblock: Superblock,
    blocks: BTreeMap<u64, Box<Block>>,
    /// The authenticator that seals units.
    pub authenticator: Authenticator,
    pub mode: CommitMode,
    pub compact_beyond: u64,
    /// The number of reads that fail from now on, by address.
    pub failing: BTreeMap<Bytes, u32>,
    /// The time that a read takes.
    pub read_ms: u64,
    pub memory_bytes: u64,
    /// Whether the volume is opened read-only.
    pub read_only: bool,
}

impl Volume {
    /// A new volume that was not closed, with a log that holds nothing yet.
    pub fn new() -> Self {
        Self::of(32 * MIB)
    }

    /// A new volume on a device of this many bytes.
    pub fn of(bytes: u64) -> Self {
        let geometry = Geometry::plan(Bytes(bytes), &Wish::default()).expect("a geometry");
        let superblock = Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default());
        let mut volume = Self {
            authenticator: superblock.authenticator(),
            superblock,
            blocks: BTreeMap::new(),
            mode: CommitMode::Log,
            compact_beyond: 2048,
            failing: BTreeMap::new(),
            read_ms: 0,
            memory_bytes: Settings::default().memory_bytes,
            read_only: false,
        };
        for step in format(&volume.superblock.clone(), Bytes(bytes), &[]) {
            if let FormatStep::Write { at, page } = step {
                volume.blocks.insert(at.get(), page);
            }
        }
        let places = vec![Places { first: place(1), blocks: 3 }];
        let s = &mut volume.superblock;
        s.clean = false;
        s.incarnation = 1;
        s.log_tail = Some(LogTail::of_new_log(1, places));
        s.set_log_live(true);
        volume.write_superblock();
        volume
    }

    pub fn write_superblock(&mut self) {
        for (copy, at) in copies(self.superblock.geometry.device_bytes).into_iter().enumerate() {
            let mut page = [0; BLOCK_SIZE];
            self.superblock.encode(copy, &mut page);
            self.blocks.insert(at.get(), Box::new(page));
        }
    }

    /// The log tail of the newest superblock on the medium.
    pub fn newest_log_tail(&self) -> LogTail {
        self.newest().log_tail.expect("it has a log")
    }

    /// The newest superblock on the medium.
    pub fn newest(&self) -> Superblock {
        let bytes = self.superblock.geometry.device_bytes;
        let pages = copies(bytes).map(|at| **self.blocks.get(&at.get()).expect("it was written"));
        let chosen = choose([0, 1, 2, 3].map(|copy| Some(&pages[copy])), bytes).expect("a volume");
        chosen.into_service()
    }

    pub fn block_at(&mut self, at: Bytes) -> &mut Block {
        self.blocks.entry(at.get()).or_insert_with(|| Box::new([0; BLOCK_SIZE]))
    }

    pub fn data(&mut self, pbn: Pbn) -> &mut Block {
        let at = self.superblock.geometry.block_at(pbn);
        self.block_at(at)
    }

    /// Makes this many reads of a block fail from now on.
    pub fn fail_reads_of(&mut self, pbn: Pbn, reads: u32) {
        self.failing.insert(self.superblock.geometry.block_at(pbn), reads);
    }

    /// The entry of a block with this content.
    pub fn name(&self, block: &Block) -> FingerprintEntry {
        let Digest::Of(fingerprint) = self.superblock.fingerprinter().digest(block) else { panic!("content is not zero") };
        FingerprintEntry::of(fingerprint)
    }

    /// A record of a new block with this content, which may be there or not.
    pub fn new_block(&self, lbn: u64, pbn: u64, old: Option<u64>) -> Record {
        Record::New { lbn: Lbn(lbn), pbn: Pbn(pbn), old: old.map(Pbn), name: self.name(&content(pbn)) }
    }

    /// A record of a run of new blocks of a large epoch, for a run of LBNs.
    pub fn extent(&self, lbn: u64, pbn: u64, blocks: u64) -> Record {
        let shorts = (pbn..pbn + blocks).map(|pbn| self.name(&content(pbn)).value.short()).collect();
        Record::Extent { lbn: Lbn(lbn), pbn: Pbn(pbn), olds: vec![OldRun { first: None, blocks }], shorts, is_apart: false }
    }

    pub fn store(&mut self, pbn: u64) {
        *self.data(Pbn(pbn)) = content(pbn);
    }

    /// Writes a unit that is the only one of its epoch, which has the same number. The unit before is known to be flushed.
    pub fn unit(&mut self, sequence: u64, records: Vec<Record>) {
        self.unit_as(sequence, records, |_| ());
    }

    pub fn unit_as(&mut self, sequence: u64, records: Vec<Record>, change: impl FnOnce(&mut UnitHeader)) {
        let places = vec![Places { first: place(sequence + 1), blocks: u8::try_from(NAMED).expect("few") }];
        self.unit_naming(sequence, places, records, change);
    }

    pub fn unit_naming(&mut self, sequence: u64, places: Vec<Places>, records: Vec<Record>, change: impl FnOnce(&mut UnitHeader)) {
        let mut header = UnitHeader {
            kind: UnitKind::Log,
            incarnation: 1,
            sequence,
            epoch: Epoch(sequence),
            unit: 0,
            units: 1,
            flushed_upto: sequence - 1,
            content_flushed: false,
        };
        change(&mut header);
        let mut writer = UnitWriter::new(places);
        records.into_iter().for_each(|record| assert_eq!(writer.push(record), None, "they fit"));
        let _ = writer.seal(&self.authenticator.clone(), &header, place(sequence), self.data(place(sequence)));
    }

    /// Moves the log tail behind this unit and epoch, and lets it give compacted units at this many places, from the first on.
    pub fn compacted(&mut self, upto: u64, epoch: Epoch, units: u64) {
        let run = |i: u64| Places { first: place(i), blocks: u8::try_from((units + 1 - i).min(64)).expect("at most 64") };
        let compacted = Compacted { since: 0, places: (1..=units).step_by(64).map(run).collect() };
        let places = vec![Places { first: place(upto + 1), blocks: 3 }];
        (self.superblock.last_log_sequence, self.superblock.last_epoch) = (upto, epoch);
        self.superblock.log_tail =
            Some(LogTail { sequence: upto + 1, epoch, flushed_upto: upto, compacted, ..LogTail::of_new_log(1, places) });
        self.write_superblock();
    }

    /// Changes a page, seals it, and sets its bit.
    pub fn change_page(&mut self, id: PageId, change: impl FnOnce(&mut PageContent)) {
        self.rewrite(id, change);
        let (written, bit) = self.superblock.geometry.written_of(id);
        self.rewrite(written, |page| page.set_bit(bit, true));
    }

    fn rewrite(&mut self, id: PageId, change: impl FnOnce(&mut PageContent)) {
        let uuid = self.superblock.uuid;
        let at = self.superblock.geometry.page_at(id);
        let mut page = open(&uuid, id, self.block_at(at), id.region == Region::Written).content;
        change(&mut page);
        seal(&uuid, id, &mut page, self.block_at(at));
    }

    /// Opens the volume with the superblock on the medium.
    pub fn open(self) -> Machine {
        self.open_until(|_| false)
    }

    /// Opens the volume, up to a crash: from the first operation for which `stop` returns true the device does nothing any more.
    pub fn open_until(mut self, stop: impl Fn(&str) -> bool + 'static) -> Machine {
        let bytes = self.superblock.geometry.device_bytes;
        let pages = copies(bytes).map(|at| *self.block_at(at));
        let chosen = choose([0, 1, 2, 3].map(|copy| Some(&pages[copy])), bytes).expect("a volume");
        self.superblock = chosen.into_service();
        let (commit_mode, compact_beyond, read_only) = (self.mode, self.compact_beyond, self.read_only);
        let settings = Settings { commit_mode, read_only, anticipation_ms: 0, ..Settings::default() }
            .with_knobs(|knobs| knobs.compact_beyond = compact_beyond);
        let accountant = Accountant::divided(self.memory_bytes, settings.commit_mode.has_log());
        let engine = Engine::open(self.superblock.clone(), settings, Arc::new(Heap), accountant, Time(0));
        Machine::start(self, engine, stop)
    }
}
