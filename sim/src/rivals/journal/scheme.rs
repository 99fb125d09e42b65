//! The ring, its write-back and the superblock.

use super::home::{Home, Layout, ring_blocks};
use super::log::{RECORDS_MIN, Record, pack, unpack};
use crate::rivals::Settings;
use crate::rivals::dedup::{Changes, Limits, PageWrite, Scheme};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::Class;
use onefold_engine::units::{BLOCK_SIZE, Blocks, Bytes, Time};
use twox_hash::XxHash3_64;

const WRITEBACK_MS: u64 = 30_000;
/// The fraction of the ring that one epoch may fill is 1 / EPOCH_PART.
const EPOCH_PART: u64 = 4;

/// The state of a write-back; when it is complete, the ring is free up to the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writeback {
    Idle,
    /// Home pages are in flight; written; covered by a flush.
    Pages(u64),
    Written(u64),
    Durable(u64),
    /// The superblock is written with a commit.
    Riding(u64),
    /// The superblock is written separately: in flight; written.
    Alone(u64),
    AloneWritten(u64),
}

/// Counts of what was written.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    journal: u64,
    map: u64,
    counts: u64,
    names: u64,
    superblocks: u64,
    writebacks: u64,
    /// The largest number of ring blocks in use.
    ring_most: u64,
}

/// A journal and its home tables.
pub struct Journal {
    home: Home,
    /// The numbers of journal blocks: the first that recovery needs, the first that is not applied to the home pages, the next to write.
    tail: u64,
    applied: u64,
    head: u64,
    writeback: Writeback,
    /// The time of the first change that is not being written to the home pages.
    dirty_since: Option<Time>,
    /// The records of the epoch that commits, as they will be applied.
    records: Vec<Record>,
    counts: Counts,
}

/// Encodes the superblock: the checked number of the first journal block that recovery reads; within one sector, so never torn (A2).
#[must_use]
pub fn superblock(tail: u64) -> [u8; 24] {
    let mut bytes = *b"OFjournl................";
    bytes[8..16].copy_from_slice(&tail.to_le_bytes());
    let sum = XxHash3_64::oneshot(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

impl Journal {
    /// Makes an empty volume, with a ring as large as ext4's journal.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self::with_ring(settings, ring_blocks(settings.logical.0))
    }

    /// Makes an empty volume with a ring of this many blocks.
    ///
    /// # Panics
    /// Panics if there are fewer than 8: an epoch would have no room.
    #[must_use]
    pub fn with_ring(settings: &Settings, ring_blocks: u64) -> Self {
        assert!(ring_blocks >= 2 * EPOCH_PART, "a ring of {ring_blocks} blocks is too small");
        Self {
            home: Home::new(Layout::new(settings, ring_blocks)),
            tail: 0,
            applied: 0,
            head: 0,
            writeback: Writeback::Idle,
            dirty_since: None,
            records: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn layout(&self) -> Layout {
        self.home.layout
    }

    fn superblock_write(&mut self, tail: u64) -> PageWrite {
        self.counts.superblocks += 1;
        PageWrite::page(Bytes(0), &superblock(tail), Class::Superblock)
    }

    fn begin_writeback(&mut self) -> Vec<PageWrite> {
        self.counts.writebacks += 1;
        self.writeback = Writeback::Pages(self.applied);
        self.dirty_since = None;
        let (layout, counts) = (self.home.layout, &mut self.counts);
        let write = |(block, bytes): (u64, &[u8; BLOCK_SIZE])| {
            let class = layout.class(block);
            match class {
                Class::Map => counts.map += 1,
                Class::Refs => counts.counts += 1,
                _ => counts.names += 1,
            }
            PageWrite::page(Blocks(block).bytes(), bytes, class)
        };
        self.home.take_dirty().into_iter().map(write).collect()
    }

    /// Writes each run of the ring's blocks by one command: two where the ring wraps around.
    fn ring_writes(&self, blocks: &[[u8; BLOCK_SIZE]]) -> Vec<PageWrite> {
        let layout = self.home.layout;
        let to_end = usize::try_from(layout.ring_blocks - self.head % layout.ring_blocks).expect("the ring is in memory");
        let (front, back) = blocks.split_at(to_end.min(blocks.len()));
        let mut writes = Vec::new();
        for (number, run) in [(self.head, front), (self.head + front.len() as u64, back)] {
            if run.is_empty() {
                continue;
            }
            let mut buffer = BufferMut::zeroed(run.len());
            run.iter().enumerate().for_each(|(i, block)| *buffer.block_mut(i) = *block);
            let data = buffer.freeze().slice(0, run.len());
            writes.push(PageWrite { at: Blocks(layout.ring_block(number)).bytes(), data, class: Class::Written });
        }
        writes
    }
}

impl Scheme for Journal {
    const NAME: &'static str = "journal";
    const IN_MEMORY: &'static str = "every home page (no metadata is ever read), the map, the index and the counts";
    const CONTENT_FIRST: bool = false;

    fn limits(&self) -> Limits {
        let layout = self.home.layout;
        Limits { data_blocks: layout.data_blocks, data_first: layout.data_first, links_max: u32::from(u16::MAX), zero_is_content: false }
    }

    fn device_bytes(&self) -> Bytes {
        self.home.layout.device_bytes()
    }

    fn format(&self) -> Vec<PageWrite> {
        vec![PageWrite::page(Bytes(0), &superblock(0), Class::Superblock)]
    }

    fn changes_max(&self) -> usize {
        // This is one block less, because an epoch may exceed the limit by the entries of one client block.
        let blocks = usize::try_from(self.home.layout.ring_blocks / EPOCH_PART).expect("the ring is in memory");
        (blocks - 1) * RECORDS_MIN
    }

    fn has_room(&self, changes: &Changes) -> bool {
        let blocks = changes.len().div_ceil(RECORDS_MIN) as u64;
        self.head + blocks - self.tail <= self.home.layout.ring_blocks
    }

    fn compose(&mut self, changes: &Changes) -> Vec<PageWrite> {
        let blocks = pack(changes, self.head);
        // The records are those that recovery would read, so that the two can never differ.
        let unpacked = blocks.iter().zip(self.head..).flat_map(|(block, number)| unpack(block, number).expect("it was just packed").0);
        self.records = unpacked.collect();
        let mut writes = self.ring_writes(&blocks);
        self.head += blocks.len() as u64;
        assert!(self.head - self.tail <= self.home.layout.ring_blocks, "the ring ran over");
        self.counts.journal += blocks.len() as u64;
        self.counts.ring_most = self.counts.ring_most.max(self.head - self.tail);
        if let Writeback::Durable(upto) = self.writeback {
            writes.push(self.superblock_write(upto));
            self.writeback = Writeback::Riding(upto);
        }
        writes
    }

    fn durable(&mut self, now: Time, _: &Changes) {
        for record in std::mem::take(&mut self.records) {
            self.home.apply(record);
        }
        self.applied = self.head;
        self.dirty_since.get_or_insert(now);
        if let Writeback::Riding(upto) = self.writeback {
            self.tail = upto;
            self.writeback = Writeback::Idle;
        }
    }

    fn work(&mut self, now: Time, pressing: bool) -> Vec<PageWrite> {
        match self.writeback {
            Writeback::Idle if !self.home.is_clean() => {
                let half_full = (self.applied - self.tail) * 2 >= self.home.layout.ring_blocks;
                let old = self.work_due().is_some_and(|due| due <= now);
                if pressing || half_full || old { self.begin_writeback() } else { Vec::new() }
            }
            Writeback::Durable(upto) if pressing => {
                self.writeback = Writeback::Alone(upto);
                vec![self.superblock_write(upto)]
            }
            _ => Vec::new(),
        }
    }

    fn work_written(&mut self) {
        self.writeback = match self.writeback {
            Writeback::Pages(upto) => Writeback::Written(upto),
            Writeback::Alone(upto) => Writeback::AloneWritten(upto),
            other => unreachable!("nothing is in flight in {other:?}"),
        }
    }

    fn work_flushed(&mut self) {
        self.writeback = match self.writeback {
            Writeback::Written(upto) => Writeback::Durable(upto),
            Writeback::AloneWritten(upto) => {
                self.tail = upto;
                Writeback::Idle
            }
            other => unreachable!("no flush is missing in {other:?}"),
        }
    }

    fn work_wants_flush(&self) -> bool {
        matches!(self.writeback, Writeback::Written(_) | Writeback::AloneWritten(_))
    }

    fn work_due(&self) -> Option<Time> {
        if self.writeback == Writeback::Idle { self.dirty_since.map(|since| since.plus_ms(WRITEBACK_MS)) } else { None }
    }

    fn work_done(&self) -> bool {
        self.writeback == Writeback::Idle && self.home.is_clean()
    }

    fn facts(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counts;
        vec![
            ("blocks of the ring", self.home.layout.ring_blocks),
            ("blocks of the ring in use, at most", c.ring_most),
            ("journal blocks written", c.journal),
            ("home pages written: map", c.map),
            ("home pages written: counts", c.counts),
            ("home pages written: fingerprints", c.names),
            ("superblocks written", c.superblocks),
            ("write-backs", c.writebacks),
        ]
    }
}
