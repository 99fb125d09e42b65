//! The states that a power loss can leave: all of them if they are few, otherwise the adversarial ones and a seeded sample.

use crate::device::disk::{Cell, Choice, SimDisk};
use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::SECTORS;
use fastrand::Rng;
use onefold_engine::format::unit::MAGIC;

/// The largest number of metadata states that are enumerated.
pub const ENUMERATED_MAX: u64 = 1 << 16;

/// One sector, or one block of data as a whole, whose state after a power loss is undecided.
struct Undecided {
    block: u64,
    /// The sector; none if all sectors of the block are decided together.
    sector: Option<usize>,
    /// The sources that differ.
    sources: Vec<u8>,
}

/// Lists the sources of one sector, counting those with equal bytes once.
fn differing(cell: &Cell, sector: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut sources = Vec::new();
    for (i, content) in (0u8..).zip(cell.possible()) {
        if !seen.contains(&content.sector_id(sector)) {
            seen.push(content.sector_id(sector));
            sources.push(i);
        }
    }
    sources
}

/// Returns whether a unit of the log was written there since the last durable version.
fn is_unit(cell: &Cell) -> bool {
    cell.since().iter().any(|version| version.content.bytes().starts_with(&MAGIC))
}

/// The states that a power loss could leave; a sample of them if they are too many to enumerate.
pub struct PowerLossStates {
    metadata: Vec<Undecided>,
    data: Vec<(u64, u8)>,
    /// The number of metadata states; saturating.
    pub states: u64,
}

impl PowerLossStates {
    /// Collects what is undecided.
    #[must_use]
    pub fn of(disk: &SimDisk, volume: &Volume) -> Self {
        let mut metadata = Vec::new();
        let mut data = Vec::new();
        for &block in disk.undecided() {
            let cell = disk.cell(block);
            let all = u8::try_from(cell.sources()).expect("few versions");
            match volume.place(block) {
                // Each unit of an epoch is there or not, independently of its content.
                BlockUse::Data(_) if is_unit(cell) => metadata.push(Undecided { block, sector: None, sources: (0..=all).collect() }),
                BlockUse::Data(_) | BlockUse::Unused => data.push((block, all)),
                // A superblock is one structure: only torn or whole matters.
                BlockUse::Superblock => metadata.push(Undecided { block, sector: None, sources: (0..=all).collect() }),
                BlockUse::Page(_) => {
                    for sector in 0..SECTORS {
                        let sources = differing(cell, sector);
                        if sources.len() > 1 {
                            metadata.push(Undecided { block, sector: Some(sector), sources });
                        }
                    }
                }
            }
        }
        let states = metadata.iter().fold(1u64, |n, u| n.saturating_mul(u.sources.len() as u64));
        Self { metadata, data, states }
    }

    fn build(
        &self,
        disk: &SimDisk,
        rng: &mut Rng,
        mut pick: impl FnMut(usize, &Undecided) -> u8,
        mut data: impl FnMut(u64, u8, &mut Rng) -> [u8; SECTORS],
    ) -> Choice {
        let mut choice: Choice = Vec::new();
        for (i, undecided) in self.metadata.iter().enumerate() {
            let source = pick(i, undecided);
            if choice.last().is_none_or(|(block, _)| *block != undecided.block) {
                choice.push((undecided.block, [0; SECTORS]));
            }
            let sources = &mut choice.last_mut().expect("it was pushed").1;
            match undecided.sector {
                Some(sector) => sources[sector] = source,
                // A number beyond the sources stands for a torn block.
                None if usize::from(source) == disk.cell(undecided.block).sources() => *sources = torn(source, rng),
                None => *sources = [source; SECTORS],
            }
        }
        for &(block, all) in &self.data {
            choice.push((block, data(block, all, rng)));
        }
        choice
    }

    fn any(&self, disk: &SimDisk, rng: &mut Rng) -> Choice {
        let mut other = rng.fork();
        self.build(disk, rng, |_, u| u.sources[other.usize(0..u.sources.len())], any_data)
    }

    /// Returns the states to try: every metadata state if there are at most `limit`, otherwise about `limit` of them.
    pub fn choices(&self, disk: &SimDisk, limit: u64, rng: &mut Rng) -> Vec<Choice> {
        if self.states <= limit.min(ENUMERATED_MAX) {
            return (0..self.states)
                .map(|mut number| {
                    self.build(
                        disk,
                        rng,
                        |_, u| {
                            let n = u.sources.len() as u64;
                            let source = u.sources[usize::try_from(number % n).expect("a small number")];
                            number /= n;
                            source
                        },
                        any_data,
                    )
                })
                .collect();
        }
        let newest = |u: &Undecided| match u.sector {
            Some(_) => *u.sources.last().expect("a source"),
            None => u.sources[u.sources.len() - 2],
        };
        let old = |_: u64, _: u8, _: &mut Rng| [0; SECTORS];
        let new = |_: u64, all: u8, _: &mut Rng| [all - 1; SECTORS];
        let mut choices = vec![
            self.build(disk, rng, |_, u| newest(u), old),
            self.build(disk, rng, |_, _| 0, new),
            self.build(disk, rng, |_, u| newest(u), new),
        ];
        // Try the newest first: only what was issued from some operation on survives.
        let mut ios: Vec<u64> = disk.undecided().iter().flat_map(|&b| disk.cell(b).since().iter().map(|v| v.io().0)).collect();
        ios.sort_unstable();
        for _ in 0..2 {
            let from = ios[rng.usize(0..ios.len())];
            let newer = |block: u64, source: u8| {
                let cell = disk.cell(block);
                let at = usize::from(source).checked_sub(cell.sources() - cell.since().len());
                at.is_some_and(|at| cell.since().get(at).is_some_and(|v| v.io().0 >= from))
            };
            let pick = |_: usize, u: &Undecided| if newer(u.block, newest(u)) { newest(u) } else { 0 };
            choices.push(self.build(
                disk,
                rng,
                pick,
                |block, all, _| if newer(block, all - 1) { [all - 1; SECTORS] } else { [0; SECTORS] },
            ));
        }
        // One page is torn, the others are whole.
        for _ in 0..2 {
            let torn = self.metadata[rng.usize(0..self.metadata.len())].block;
            let mut other = rng.fork();
            let pick = |_: usize, u: &Undecided| if u.block == torn { u.sources[other.usize(0..u.sources.len())] } else { newest(u) };
            choices.push(self.build(disk, rng, pick, any_data));
        }
        while (choices.len() as u64) < limit {
            choices.push(self.any(disk, rng));
        }
        choices
    }
}

fn torn(all: u8, rng: &mut Rng) -> [u8; SECTORS] {
    std::array::from_fn(|_| rng.u8(0..all))
}

/// Draws the state of a block of data: old, new, or torn.
fn any_data(_: u64, all: u8, rng: &mut Rng) -> [u8; SECTORS] {
    match rng.u8(0..4) {
        0 => torn(all, rng),
        1 => [0; SECTORS],
        _ => [rng.u8(0..all); SECTORS],
    }
}

/// Returns a name for the state after a power loss: the metadata's bytes and, for undecided content, whether it is old, new or torn.
#[must_use]
pub fn state_name(disk: &SimDisk, choice: &Choice, after: &SimDisk, volume: &Volume) -> u64 {
    let mut name = after.media();
    for (block, sources) in choice {
        let class = match volume.place(*block) {
            BlockUse::Page(_) => continue,
            _ if sources.iter().all(|s| *s == sources[0]) => u64::from(sources[0] > 0),
            _ => 2,
        };
        name = (name ^ ((block << 2) | class)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
    debug_assert!(disk.blocks() == after.blocks());
    name
}
