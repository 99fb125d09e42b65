//! A volume with a live log made by hand, and the engine that opens it over a medium that does everything at once.

use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::fingerprint::{Algorithm, Digest};
use onefold_engine::format::page::{open, seal};
use onefold_engine::format::{
    Anchor, CommitMode, FingerprintEntry, FormatStep, Geometry, PageContent, PageId, Places, Record, Region, Superblock, UnitHeader,
    UnitKind, UnitWriter, Wish, choose, copies, format,
};
use onefold_engine::interface::{Action, Event, Hint, IoFailure, Notice, Op, Payload, Reply, Request, RequestId, Segment};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub const MIB: u64 = 1 << 20;
/// Before the first unit.
const FIRST_PLACE: u64 = 1000;
/// Places that each unit names.
const NAMED: u64 = 3;
pub type Block = [u8; BLOCK_SIZE];

struct Heap;

impl Home for Heap {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::zeroed(blocks)
    }
    fn give_back(&self, _: Box<[Frame]>, _: u32) {}
}

/// A block that no other number gives.
pub fn content(n: u64) -> Block {
    let mut block = [0xc0; BLOCK_SIZE];
    block[..8].copy_from_slice(&n.to_le_bytes());
    block
}

/// Where the unit of a sequence lies.
pub fn place(sequence: u64) -> Pbn {
    Pbn(FIRST_PLACE + sequence)
}

/// A device in memory; blocks never written are zero.
#[derive(Clone)]
pub struct Volume {
    pub superblock: Superblock,
    blocks: BTreeMap<u64, Box<Block>>,
    pub mode: CommitMode,
    pub condense_beyond: u64,
    /// How often reads of a block fail from now on.
    pub failing: BTreeMap<Pbn, u32>,
    /// How long a read takes.
    pub read_ms: u64,
    pub memory_bytes: u64,
}

impl Volume {
    /// A new volume that was not closed, with a log that holds nothing yet.
    pub fn new() -> Self {
        Self::of(32 * MIB)
    }

    /// One on a device of so many bytes.
    pub fn of(bytes: u64) -> Self {
        let geometry = Geometry::plan(Bytes(bytes), &Wish::default()).expect("a geometry");
        let superblock = Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default());
        let mut volume = Self {
            superblock,
            blocks: BTreeMap::new(),
            mode: CommitMode::Log,
            condense_beyond: 2048,
            failing: BTreeMap::new(),
            read_ms: 0,
            memory_bytes: Settings::default().memory_bytes,
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
        s.anchor = Some(Anchor::of_new_log(1, places));
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

    /// The anchor of the newest superblock on the medium.
    pub fn newest_anchor(&self) -> Anchor {
        let bytes = self.superblock.geometry.device_bytes;
        let pages = copies(bytes).map(|at| **self.blocks.get(&at.get()).expect("it was written"));
        let chosen = choose([0, 1, 2, 3].map(|copy| Some(&pages[copy])), bytes).expect("a volume");
        chosen.into_service().anchor.expect("it has a log")
    }

    fn block_at(&mut self, at: Bytes) -> &mut Block {
        self.blocks.entry(at.get()).or_insert_with(|| Box::new([0; BLOCK_SIZE]))
    }

    pub fn data(&mut self, pbn: Pbn) -> &mut Block {
        let at = self.superblock.geometry.block_at(pbn);
        self.block_at(at)
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

    pub fn store(&mut self, pbn: u64) {
        *self.data(Pbn(pbn)) = content(pbn);
    }

    /// A unit that is the only one of its epoch, of the same number; the one before is known to be flushed.
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
        let auth = self.superblock.authenticator();
        let _ = writer.seal(&auth, &header, place(sequence), self.data(place(sequence)));
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

    /// Opens it, as the superblock on the medium has it.
    pub fn open(self) -> Machine {
        self.open_until(|_| false)
    }

    /// The same, up to a crash: when the device is asked for this, it does nothing any more.
    pub fn open_until(mut self, stop: impl Fn(&str) -> bool + 'static) -> Machine {
        let bytes = self.superblock.geometry.device_bytes;
        let pages = copies(bytes).map(|at| *self.block_at(at));
        let chosen = choose([0, 1, 2, 3].map(|copy| Some(&pages[copy])), bytes).expect("a volume");
        self.superblock = chosen.into_service();
        let (commit_mode, condense_beyond) = (self.mode, self.condense_beyond);
        let settings = Settings { commit_mode, condense_beyond, anticipation_ms: 0, ..Settings::default() };
        let accountant = Accountant::for_mode(self.memory_bytes, settings.commit_mode);
        let engine = Engine::open(self.superblock.clone(), settings, Arc::new(Heap), accountant, Time(0));
        let mut machine = Machine {
            volume: self,
            engine,
            told: Vec::new(),
            notices: Vec::new(),
            replies: BTreeMap::new(),
            withholds: None,
            withheld: Vec::new(),
            next: 1,
            now: 0,
            wake: None,
            stop: Box::new(stop),
            stopped: false,
        };
        machine.feed(Event::Tick);
        machine
    }
}

pub struct Machine {
    pub volume: Volume,
    pub engine: Engine,
    /// Writes, by block where they are of the data region, else by class, and flushes.
    pub told: Vec<String>,
    pub notices: Vec<Notice>,
    replies: BTreeMap<u64, Reply>,
    /// Writes of this class are not answered, until they are let go.
    pub withholds: Option<&'static str>,
    withheld: Vec<Event>,
    next: u64,
    now: u64,
    wake: Option<u64>,
    stop: Box<dyn Fn(&str) -> bool>,
    pub stopped: bool,
}

impl Machine {
    fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let fingerprinter = self.volume.superblock.fingerprinter();
        while let Some(event) = events.pop_front() {
            let mut out = Vec::new();
            self.engine.step(Time(self.now), event, &mut out);
            for action in out {
                match action {
                    Action::Read { io, at, mut buffer, digest, .. } => {
                        let result = self.read_in(at, &mut buffer);
                        let blocks = if digest { buffer.blocks() } else { 0 };
                        let digests = (0..blocks).map(|i| fingerprinter.digest(buffer.block(i))).collect();
                        events.push_back(Event::Read { io, buffer, digests, result });
                    }
                    Action::Write { io, at, data, class, .. } => {
                        let what = match self.pbn_at(at) {
                            Some(pbn) => format!("{pbn}"),
                            None => format!("{class:?}"),
                        };
                        if self.goes_on(&what) {
                            let bytes: Vec<u8> = data.iter().flat_map(|slice| slice.bytes().to_vec()).collect();
                            for (i, block) in bytes.chunks(BLOCK_SIZE).enumerate() {
                                self.volume.block_at(at + (i * BLOCK_SIZE) as u64).copy_from_slice(block);
                            }
                            let written = Event::Written { io, result: Ok(()) };
                            if self.withholds == Some(&what) {
                                self.withheld.push(written);
                            } else {
                                events.push_back(written);
                            }
                        }
                    }
                    Action::Flush { io } => {
                        if self.goes_on("flush") {
                            events.push_back(Event::Flushed { io, result: Ok(()) });
                        }
                    }
                    Action::Discard { io, .. } => events.push_back(Event::Discarded { io, result: Ok(()) }),
                    Action::Compress { io, .. } => events.push_back(Event::Compressed { io, data: None }),
                    Action::Digest { io, block } => {
                        events.push_back(Event::Digested { io, digest: fingerprinter.digest(block.block(0)) });
                    }
                    Action::Reply { request, reply } => {
                        self.replies.insert(request.0, reply);
                    }
                    Action::Notice(notice) => self.notices.push(notice),
                    Action::Wake { at } => self.wake = Some(at.0),
                    Action::Remember(_) | Action::Forget { .. } | Action::Recalled | Action::Closed { .. } => {}
                }
            }
        }
    }

    /// What was withheld is answered, and nothing is withheld any more.
    pub fn let_go(&mut self) {
        self.withholds = None;
        std::mem::take(&mut self.withheld).into_iter().for_each(|event| self.feed(event));
    }

    /// Bytes that live records take now, and their share.
    pub fn live_records(&self) -> (u64, u64) {
        let stats = self.engine.stats();
        let (_, now, _, share) = stats.memory.into_iter().find(|part| part.0 == "log records").expect("it is there");
        (now, share)
    }

    /// Whether the device does it.
    fn goes_on(&mut self, what: &str) -> bool {
        self.stopped |= (self.stop)(what);
        if !self.stopped {
            self.told.push(what.to_owned());
        }
        !self.stopped
    }

    fn read_in(&mut self, at: Bytes, buffer: &mut BufferMut) -> Result<(), IoFailure> {
        self.now = Time(self.now).plus_ms(self.volume.read_ms).0;
        if let Some(left) = self.pbn_at(at).and_then(|pbn| self.volume.failing.get_mut(&pbn)).filter(|left| **left > 0) {
            *left -= 1;
            return Err(IoFailure);
        }
        for i in 0..buffer.blocks() {
            *buffer.block_mut(i) = *self.volume.block_at(at + (i * BLOCK_SIZE) as u64);
        }
        Ok(())
    }

    fn pbn_at(&self, at: Bytes) -> Option<Pbn> {
        let geometry = &self.volume.superblock.geometry;
        let blocks = at.get().checked_sub(geometry.block_at(Pbn(0)).get())? / BLOCK_SIZE as u64;
        (blocks < geometry.data_blocks && geometry.block_at(Pbn(blocks)) == at).then_some(Pbn(blocks))
    }

    fn request(&mut self, op: Op, lbn: u64, payload: Option<Payload>) -> Reply {
        let blocks = u64::from(op != Op::Flush);
        self.request_of(op, lbn, blocks, payload).expect("it is answered")
    }

    /// Sends a request; its answer, if there is one, however long that takes.
    fn request_of(&mut self, op: Op, lbn: u64, blocks: u64, payload: Option<Payload>) -> Option<Reply> {
        let id = RequestId(self.next);
        self.next += 1;
        let [offset, length] = [lbn, blocks].map(|n| Bytes(n * BLOCK_SIZE as u64));
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua: false, hint: Hint::None }));
        self.rest(id.0);
        self.replies.remove(&id.0)
    }

    /// Time passes, as long as the engine wants to be woken and the request is not answered.
    fn rest(&mut self, request: u64) {
        for _ in 0..10_000 {
            let Some(wake) = self.wake.take().filter(|_| !self.replies.contains_key(&request)) else { return };
            self.now = self.now.max(wake);
            self.feed(Event::Tick);
        }
    }

    /// What a logical block reads as: the number of its content, 0 for zeros; none for an error.
    pub fn read(&mut self, lbn: u64) -> Option<u64> {
        let Reply::Data(segments) = self.request(Op::Read, lbn, None) else { return None };
        let [segment] = &segments[..] else { panic!("one block is one segment") };
        Some(match segment {
            Segment::Zeroes { .. } => 0,
            Segment::Data { slice, start, .. } => {
                let n = u64::from_le_bytes(slice.bytes()[*start..*start + 8].try_into().expect("eight bytes"));
                assert_eq!(slice.bytes()[*start..*start + BLOCK_SIZE], content(n));
                n
            }
        })
    }

    /// Writes the content of this number. Whether that was answered.
    pub fn try_write_only(&mut self, lbn: u64, n: u64) -> bool {
        let mut buffer = BufferMut::zeroed(1);
        *buffer.block_mut(0) = content(n);
        let digests = vec![self.volume.superblock.fingerprinter().digest(buffer.block(0))];
        let reply = self.request_of(Op::Write, lbn, 1, Some(Payload { buffer: buffer.freeze(), digests }));
        assert!(matches!(reply, None | Some(Reply::Done)), "{reply:?}");
        reply.is_some()
    }

    /// Writes the content of this number.
    pub fn write_only(&mut self, lbn: u64, n: u64) {
        assert!(self.try_write_only(lbn, n), "it is answered");
    }

    /// The same, and flushes, where the device may stop meanwhile.
    pub fn try_write(&mut self, lbn: u64, n: u64) {
        let _ = self.try_write_only(lbn, n);
        let _ = self.request_of(Op::Flush, 0, 0, None);
    }

    /// Writes the content of this number, and flushes.
    pub fn write(&mut self, lbn: u64, n: u64) {
        self.write_only(lbn, n);
        self.flush();
    }

    pub fn flush(&mut self) {
        let reply = self.request_of(Op::Flush, 0, 0, None);
        assert!(matches!(reply, Some(Reply::Done)), "{reply:?}");
    }

    pub fn discard(&mut self, lbn: u64, blocks: u64) {
        let reply = self.request_of(Op::Discard, lbn, blocks, None);
        assert!(matches!(reply, Some(Reply::Done)), "{reply:?}");
    }

    /// What was noticed of damage.
    pub fn damage(&self) -> Vec<&'static str> {
        self.notices.iter().filter_map(|notice| if let Notice::Damage { what, .. } = notice { Some(*what) } else { None }).collect()
    }

    /// A crash: what the device has is what there is.
    pub fn crash(self) -> Volume {
        self.volume
    }
}
