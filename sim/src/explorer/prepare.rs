//! Volumes to work on: they are formatted, filled and closed once, then cloned for each run.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{IoOutcome, SimDisk};
use crate::device::volume::Volume;
use crate::explorer::opening::open_engine;
use crate::explorer::options::{Mix, Options, ROOMY_BLOCKS, ROOMY_LBNS, Shape};
use crate::explorer::setting::Setting;
use crate::explorer::setting::Stretch;
use crate::explorer::world::World;
use crate::ground::content::{Content, Shared};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::create::{FormatStep, format};
use onefold_engine::format::superblock::{ProtectedRange, Superblock};
use onefold_engine::format::{CommitMode, Geometry, Wish};
use onefold_engine::interface::IoId;
use onefold_engine::settings::{Persistence, Settings};
use onefold_engine::units::{BLOCK_BYTES, Bytes, Lbn};
use std::rc::Rc;

/// A volume that runs start from.
pub struct Prepared {
    pub volume: Rc<Volume>,
    pub superblock: Superblock,
    pub disk: SimDisk,
    pub oracle: Oracle,
    /// The blocks that writes may go to.
    pub stretches: Vec<Stretch>,
}

/// The number of blocks of a tiny volume's data.
const TINY_DATA: u64 = 40;
/// The logical blocks of a tiny volume: four pages of map.
const TINY_LOGICAL: u64 = 2500;
/// The first of two protected blocks.
const PROTECTED: u64 = 799;
/// The first LBN and the number of LBNs of a linked volume that share one content: nearly as many as the limit of links allows. Runs do not
/// write to them.
const LINKED: [(u64, u64); 2] = [(1010, 250), (1300, 252)];
/// The pages of a wide volume's map.
const WIDE_PAGES: u64 = 160;
/// The number of blocks of a spread volume's data, and of those that no client can use.
const SPREAD_DATA: u64 = 1100;
const SPREAD_RESERVE: u64 = 4;
/// The number of blocks of a roomy volume's data: twice what runs write to.
const ROOMY_DATA: u64 = 2 * ROOMY_LBNS as u64;
/// The logical blocks of a roomy volume: two pages of map.
const ROOMY_LOGICAL: u64 = 1000;
/// The additional blocks that no client can use if there is a log.
const LOG_RESERVE: u64 = 4;
/// The number of blocks that a run writes to; they lie at the edges of map sectors and pages.
const USED: u64 = 64;

impl Prepared {
    /// Formats a device and fills the part that does not change; it has more blocks if it is for a log.
    ///
    /// # Errors
    /// Fails if the machine breaks a rule on the way.
    pub fn new(shape: Shape, for_log: bool) -> Result<Self, Violation> {
        // The log needs blocks for three units and what they hold back.
        let more = if for_log { LOG_RESERVE } else { 0 };
        let (blocks, wish) = match shape {
            // These are superblocks 2 + 2, written 1, refs 1, fingerprints 1, map 4; data begin at the next multiple of 16.
            Shape::Tiny | Shape::Linked => (
                16 + TINY_DATA + more + 2,
                Wish { logical_blocks: Some(TINY_LOGICAL), reserve_blocks: Some(2 + more), guard: false, notes_blocks: 0 },
            ),
            Shape::Wide => {
                let wish = Wish { logical_blocks: Some(WIDE_PAGES * 800), reserve_blocks: Some(2 + more), guard: false, notes_blocks: 0 };
                (16 + WIDE_PAGES + TINY_DATA + more + 2, wish)
            }
            Shape::Roomy => (
                16 + ROOMY_DATA + more + 2,
                Wish { logical_blocks: Some(ROOMY_LOGICAL), reserve_blocks: Some(2 + more), guard: false, notes_blocks: 0 },
            ),
            Shape::Spread => (
                16 + SPREAD_DATA + more + 2,
                Wish {
                    logical_blocks: Some(SPREAD_DATA - SPREAD_RESERVE),
                    reserve_blocks: Some(SPREAD_RESERVE + more),
                    guard: false,
                    notes_blocks: 0,
                },
            ),
        };
        let geometry = Geometry::plan_tiny(Bytes(blocks * BLOCK_BYTES), &wish).map_err(|e| violation!("kit: no geometry: {e}"))?;
        let mut superblock = Superblock::new(geometry.clone(), *b"onefold-sim-uuid", [7; 32], Algorithm::Blake3, &Settings::default());
        // Some of the blocks that runs write to are excluded from deduplication, so that there are entries of kind 2.
        superblock.protected = vec![ProtectedRange { first: Lbn(PROTECTED), blocks: 2, is_found: false }];
        let mut disk = SimDisk::new(blocks);
        for step in format(&superblock, Bytes(blocks * BLOCK_BYTES), &[]) {
            match step {
                FormatStep::Zero { at, length } => {
                    let first = at.get() / BLOCK_BYTES;
                    (first..first + length.get() / BLOCK_BYTES).for_each(|b| disk.plant(b, Content::zero()));
                }
                FormatStep::Write { at, page } => disk.plant(at.get() / BLOCK_BYTES, Content::of(&page)),
                FormatStep::Flush => {}
            }
        }
        let volume = Rc::new(Volume::new(&superblock));
        // The superblocks are left out: they count openings, and would make equal states look different.
        disk.name_metadata(2..volume.data_from());
        let stretches = match shape {
            // One of the ranges crosses the edge of a page.
            Shape::Roomy => (0..ROOMY_LBNS as u64 / ROOMY_BLOCKS).map(|i| (i * 49 + 8, ROOMY_BLOCKS)).collect(),
            _ => stretches(volume.geometry.logical_blocks),
        };
        let mut prepared = Self { oracle: Oracle::new(Vec::new()), superblock, disk, volume, stretches };
        match shape {
            Shape::Spread => prepared.fill_all()?,
            Shape::Linked => prepared.fill_with_links(for_log)?,
            Shape::Tiny | Shape::Wide | Shape::Roomy => {}
        }
        Ok(prepared)
    }

    /// Writes unique content to each block that no run writes to, and closes.
    fn fill_all(&mut self) -> Result<(), Violation> {
        let logical = self.volume.geometry.logical_blocks;
        let mut base: Vec<Shared> = (0..logical).map(|lbn| crate::ground::content::pattern(&format!("s{lbn}"))).collect();
        for &(first, blocks) in &self.stretches {
            (first..first + blocks).for_each(|lbn| base[crate::device::disk::to_index(lbn)] = Content::zero());
        }
        self.fill(base, quiet_options(Shape::Spread))
    }

    /// Writes two letters of the runs' alphabet to many blocks (one letter if it is for a log), so that compressible content lies in slots.
    fn fill_with_links(&mut self, for_log: bool) -> Result<(), Violation> {
        let mut base = vec![Content::zero(); crate::device::disk::to_index(LINKED[1].0 + LINKED[1].1)];
        for (&(first, blocks), i) in LINKED.iter().zip(0..) {
            let content = crate::ground::content::pattern(&crate::explorer::client::letter(i));
            (first..first + blocks).for_each(|lbn| base[crate::device::disk::to_index(lbn)] = content.clone());
        }
        let mut options = quiet_options(Shape::Linked);
        if for_log {
            options.settings.commit_mode = CommitMode::Log;
        }
        self.fill(base, options)
    }

    /// Writes `base`, and closes.
    fn fill(&mut self, base: Vec<Shared>, options: Options) -> Result<(), Violation> {
        let options = Rc::new(options);
        let setting = Setting { volume: self.volume.clone(), options, stretches: Rc::new(self.stretches.clone()) };
        let mut rng = Rng::with_seed(1);
        let machine = open_engine(&self.disk, &setting, &mut rng).map_err(|e| violation!("kit: the new volume does not open: {e}"))?;
        let mut world = World::new(setting, self.disk.clone(), self.oracle.clone(), machine, rng);
        for (lbn, content) in (0..).zip(&base).filter(|(_, c)| c.id() != Content::zero().id()) {
            let request = world.client.write(lbn, std::slice::from_ref(content), false, &mut world.oracle);
            world.send(request)?;
            world.settle()?;
        }
        world.close()?;
        self.disk = world.disk.clone();
        self.disk.flush(IoId(u64::MAX));
        self.disk.finish(IoId(u64::MAX), IoOutcome::Done);
        self.oracle = Oracle::new(base);
        Ok(())
    }

    /// Returns the setting that runs with these options start from.
    #[must_use]
    pub fn setting(&self, options: Rc<Options>) -> Setting {
        let mut left = options.lbns as u64;
        let mut stretches = self.stretches.clone();
        stretches.retain_mut(|(_, blocks)| {
            *blocks = (*blocks).min(left);
            left -= *blocks;
            *blocks > 0
        });
        Setting { volume: self.volume.clone(), options, stretches: Rc::new(stretches) }
    }
}

/// Returns the used blocks, in ranges that cross the edges of map sectors (100) and pages (800).
#[must_use]
pub fn stretches(logical: u64) -> Vec<Stretch> {
    let starts = [798, 98, 1, 398, 1598, 698, 2397, 900, 998, 250, 500, 598, 300, 810, 30, 60, 120, 160, 200, 450];
    // On a wide volume each range has two pages of its own.
    let wide = (1..=USED / 4).map(|i| i * 8 * 800 - 2);
    let starts: Vec<u64> = if logical < WIDE_PAGES * 800 { starts.to_vec() } else { wide.collect() };
    let mut left = USED;
    let mut stretches = Vec::new();
    for first in starts.into_iter().filter(|s| s + 4 <= logical) {
        let blocks = left.min(4);
        left -= blocks;
        if blocks > 0 {
            stretches.push((first, blocks));
        }
    }
    stretches
}

/// Returns the options of a run without random events.
#[must_use]
pub fn quiet_options(shape: Shape) -> Options {
    Options {
        shape,
        settings: Settings { persistence: Persistence::Weak, memory_bytes: 2 << 20, ..Settings::default() },
        mix: Mix { write: 1, part: 0, read: 0, flush: 0, discard: 0, zeroes: 0 },
        alphabet: 4,
        unique: 0,
        zero: 0,
        fua: 0,
        deferred: 0,
        delay: 0,
        late: 0,
        coincide: false,
        jump: 0,
        runs_short: false,
        in_file: false,
        runs_out: false,
        orders: 0,
        scrubs: 0,
        hinted: 0,
        streams: 0,
        protects: 0,
        depth: 1,
        blocks: 1,
        lbns: USED as usize,
        pages: None,
        cached: None,
    }
}
