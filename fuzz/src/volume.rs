//! Small volumes in memory, hostile changes of them, and their engine's reaction.

use crate::craft::{Draw, Medium, Page, newest};
use crate::machine::Machine;
use crate::media::{chosen, pattern};
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::{CheckSettings, Finding, ReadMedium, check};
use onefold_engine::fingerprint::{Algorithm, Digest};
use onefold_engine::format::{CommitMode, FormatStep, Geometry, ProtectedRange, Superblock, Wish, format};
use onefold_engine::interface::{Event, IoFailure, Legacy, Op, Reply};
use onefold_engine::repair::{RepairMedium, carry_out, plan};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Lbn, index};
use std::sync::OnceLock;

const MEDIUM_BYTES: u64 = 1 << 20;
const UUID: [u8; 16] = [7; 16];
/// The memory of an engine: the least that a server needs.
const MEMORY_BYTES: u64 = 2 << 20;
/// The number of steps after which something that has not happened counts as a hang.
const PATIENCE: usize = 10_000;

/// Numbers from the input and, after its end, from its checksum.
pub struct Input<'a> {
    sum: u32,
    rest: &'a [u8],
    state: u64,
}

impl<'a> Input<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        let sum = crc32c::crc32c(rest);
        Self { sum, rest, state: (u64::from(sum) << 16) | 1 }
    }

    /// Returns true for one input of `of`, for tests that take long. It depends on the whole input, so that the fuzzer does not learn to be
    /// chosen.
    pub fn is_chosen(&self, of: u32) -> bool {
        self.sum % of == 0
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return self.draw().to_be_bytes()[0] };
        self.rest = rest;
        byte
    }
}

impl Draw for Input<'_> {
    fn draw(&mut self) -> u64 {
        let some = self.rest.len().min(8);
        let (word, rest) = self.rest.split_at(some);
        self.rest = rest;
        let mut wide = [0; 8];
        wide[..some].copy_from_slice(word);
        self.state = self.state.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from_le_bytes(wide)) ^ (self.state >> 29);
        if some == 8 { u64::from_le_bytes(wide) } else { self.state }
    }

    /// Draws a small number from a single byte.
    fn below(&mut self, n: u64) -> u64 {
        if n <= 256 { u64::from(self.byte()) % n } else { self.draw() % n }
    }
}

/// A medium with changes over a shared base.
pub struct Changed {
    base: &'static [u8],
    pages: Vec<(usize, Box<Page>)>,
}

impl Changed {
    pub fn of(base: &'static [u8]) -> Self {
        Self { base, pages: Vec::new() }
    }

    /// Returns the whole content.
    pub fn whole(&self) -> Vec<u8> {
        let mut whole = self.base.to_vec();
        self.pages.iter().for_each(|(at, page)| whole[*at..][..BLOCK_SIZE].copy_from_slice(&page[..]));
        whole
    }

    /// Returns the superblock of the volume, if the copies of its superblock show that there is one.
    pub fn superblock(&self) -> Option<Superblock> {
        let bytes = Bytes(self.bytes());
        let front = [0, 4096].map(|at| self.read(at));
        let ends = onefold_engine::format::end_copies([Some(&front[0]), Some(&front[1])], bytes);
        let end = ends.map(|at| (at.get() < bytes.get()).then(|| self.read(at.get())));
        let pages = [Some(&front[0]), Some(&front[1]), end[0].as_ref(), end[1].as_ref()];
        Some(onefold_engine::format::choose(pages, bytes).ok()?.into_service())
    }
}

impl Medium for Changed {
    fn bytes(&self) -> u64 {
        self.base.len() as u64
    }

    fn read(&self, at: u64) -> Page {
        let Some(at) = usize::try_from(at).ok().filter(|&at| at + BLOCK_SIZE <= self.base.len()) else { return [0; BLOCK_SIZE] };
        let changed = self.pages.iter().find(|(place, _)| *place == at);
        changed.map_or_else(|| self.base[at..][..BLOCK_SIZE].try_into().expect("a page"), |(_, page)| **page)
    }

    fn write(&mut self, at: u64, page: &Page) {
        let Some(at) = usize::try_from(at).ok().filter(|&at| at + BLOCK_SIZE <= self.base.len()) else { return };
        match self.pages.iter_mut().find(|(place, _)| *place == at) {
            Some((_, changed)) => **changed = *page,
            None => self.pages.push((at, Box::new(*page))),
        }
    }
}

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, memory_bytes: MEMORY_BYTES, noncritical_delay_ms: 0, ..Settings::default() }
}

fn formatted(mode: CommitMode) -> Vec<u8> {
    let wish = Wish { logical_blocks: Some(400), reserve_blocks: Some(8), guard: false, notes_blocks: 0 };
    let geometry = Geometry::plan_tiny(Bytes(MEDIUM_BYTES), &wish).expect("it fits");
    let mut superblock = Superblock::new(geometry, UUID, [9; 32], Algorithm::Blake3, &settings(mode));
    superblock.protected = vec![ProtectedRange { first: Lbn(30), blocks: 2, is_found: false }];
    let mut medium = vec![0; index(MEDIUM_BYTES)];
    for step in format(&superblock, Bytes(MEDIUM_BYTES), &[]) {
        if let FormatStep::Write { at, page } = step {
            medium[index(at.0)..][..BLOCK_SIZE].copy_from_slice(&page[..]);
        }
    }
    medium
}

/// Makes new, closed and killed volumes of either mode; the killed ones of the log's mode have units to scan, with or without compacted
/// units before them.
pub fn bases() -> &'static [Vec<u8>] {
    static BASES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    BASES.get_or_init(|| {
        let mut bases = Vec::new();
        for (mode, compact_beyond) in [(CommitMode::Log, 2048), (CommitMode::Log, 4), (CommitMode::Ordered, 2048)] {
            let mut machine = Machine::open(formatted(mode), settings(mode).with_knobs(|knobs| knobs.compact_beyond = compact_beyond));
            machine.patience = PATIENCE;
            for n in 0..24 {
                let half = [pattern(n, 1500), vec![5; 2596]].concat();
                machine.write(n * 4096, &half);
                machine.flush();
            }
            machine.write(40 * 4096, &pattern(99, 12 * 4096));
            machine.write(60 * 4096, &[pattern(3, 1500), vec![5; 2596]].concat());
            machine.flush();
            machine.request(Op::Discard, 4 * 4096, 3 * 4096, None, false);
            machine.request(Op::WriteZeroes, 10 * 4096, 4096, None, true);
            machine.write(512 * 3, &pattern(5, 1024));
            machine.flush();
            bases.push(machine.medium.clone());
            bases.push(machine.close());
        }
        bases.push(formatted(CommitMode::Log));
        bases
    })
}

/// Returns the newest superblock of each base.
pub fn superblocks() -> &'static [Superblock] {
    static SUPERBLOCKS: OnceLock<Vec<Superblock>> = OnceLock::new();
    SUPERBLOCKS.get_or_init(|| bases().iter().map(|base| newest(&Changed::of(base)).expect("a base is a volume")).collect())
}

/// Returns fingerprints of the content of bases, and one of nothing.
pub fn proofs() -> &'static [[u8; 20]] {
    static PROOFS: OnceLock<Vec<[u8; 20]>> = OnceLock::new();
    PROOFS.get_or_init(|| {
        let superblock = &superblocks()[0];
        let half = |n: u64| [pattern(n, 1500), vec![5; 2596]].concat();
        let noise = pattern(99, 12 * 4096);
        let blocks = (0..24).map(half).chain(noise.chunks(4096).map(<[u8]>::to_vec));
        let proof = |block: Vec<u8>| match superblock.fingerprinter().digest(block[..].try_into().expect("a block")) {
            Digest::Of(fingerprint) => fingerprint.0,
            _ => [0; 20],
        };
        blocks.map(proof).chain([[0; 20]]).collect()
    })
}

struct InMemory<'a>(&'a [u8]);

impl ReadMedium for InMemory<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        let begin = usize::try_from(at.get()).map_err(|_| IoFailure)?;
        buffer.copy_from_slice(self.0.get(begin..).and_then(|rest| rest.get(..buffer.len())).ok_or(IoFailure)?);
        Ok(())
    }
}

struct Writable<'a>(&'a mut [u8]);

impl ReadMedium for Writable<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        InMemory(self.0).read(at, buffer)
    }
}

impl RepairMedium for Writable<'_> {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        let begin = usize::try_from(at.get()).map_err(|_| IoFailure)?;
        let place = self.0.get_mut(begin..).and_then(|rest| rest.get_mut(..block.bytes().len())).ok_or(IoFailure)?;
        place.copy_from_slice(block.bytes());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        Ok(())
    }
}

const CHECK: CheckSettings = CheckSettings { memory_bytes: MEMORY_BYTES, data: true };

/// Checks that the offline check of a changed volume ends.
pub fn is_checked(medium: &[u8]) {
    let _ = findings(medium);
}

/// Returns what it finds; none where there is no volume.
fn findings(medium: &[u8]) -> Option<Vec<Finding>> {
    let mut found = Vec::new();
    check(&mut InMemory(medium), Bytes(MEDIUM_BYTES), &CHECK, &mut |finding: Finding| {
        drop(finding.to_string());
        found.push(finding);
    })
    .ok()?;
    Some(found)
}

/// Checks that a changed volume is repaired or refused: afterwards a check finds nothing but blocks that are lost.
///
/// # Panics
/// When it finds something else.
pub fn is_repaired(mut medium: Vec<u8>) {
    let Ok(plan) = plan(&mut Writable(&mut medium), Bytes(MEDIUM_BYTES), &CHECK, &mut |_| ()) else { return };
    carry_out(&mut Writable(&mut medium), plan, &CHECK, &mut |_| ()).expect("memory does not fail");
    let left = findings(&medium).expect("it is a volume");
    let is_loss = |finding: &&Finding| matches!(finding, Finding::LostEntries { .. } | Finding::RefsUnknown { .. });
    assert_eq!(left.iter().find(|finding| !is_loss(finding)), None, "after a repair");
}

/// Runs a server on a changed volume with the content of the acknowledgement journal: each request is answered, and the volume closes.
/// Returns whether it served at all.
pub fn is_served(medium: Vec<u8>, mode: Option<CommitMode>, legacy: Legacy, draw: &mut dyn Draw) -> bool {
    let Some(superblock) = chosen(&medium) else { return false };
    let start = Settings::from(&superblock.settings);
    let mut settings = Settings { commit_mode: mode.unwrap_or(start.commit_mode), memory_bytes: MEMORY_BYTES, ..start };
    settings.verify_duplicates = draw.below(2) == 0;
    settings.facts.keeps_journal = !legacy.promises.is_empty();
    settings.knobs.compact_beyond = [2048, 4][index(draw.below(2))];
    settings.knobs.checkpoint_beyond = [4096, 3][index(draw.below(2))];
    let end = superblock.geometry.logical_blocks * 4096;
    let mut machine = Machine::over(medium, superblock, settings, legacy);
    machine.patience = PATIENCE;
    machine.feed(Event::Tick);
    machine.request(Op::Read, 0, end.min(64 * 4096), None, false);
    for n in 0..=draw.below(8) {
        let lbn = draw.below(64);
        match draw.below(6) {
            0 => drop(machine.request(Op::Discard, lbn * 4096, draw.below(64) * 4096, None, false)),
            1 => drop(machine.request(Op::WriteZeroes, lbn * 4096, 4096, None, draw.below(2) == 0)),
            2 => drop(machine.request(Op::Read, lbn * 4096, 8 * 4096, None, false)),
            _ => {
                let bytes = [512, 4096, 4096, 12 * 4096][index(draw.below(4))];
                let mut content = pattern(n % 5, bytes);
                content[bytes / 2..].fill(n.to_le_bytes()[0]);
                let id = machine.begin_write(lbn * 4096, &content);
                drop(machine.answer(id));
            }
        }
        if draw.below(2) == 0 {
            drop(machine.request(Op::Flush, 0, 0, None, false));
        }
    }
    let read = machine.request(Op::Read, 0, 4096, None, false);
    assert!(matches!(read, Reply::Data(_) | Reply::Failed(_)), "{read:?}");
    machine.wait(20);
    machine.ends();
    true
}
