//! Volumes that grow: closed or crashed, cut off at each operation of the device, and used afterwards.

use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{chosen, format_over, found};
use crate::replay::{MODES, noise, settings};
use onefold_engine::check::{Finding, Severity};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::page::{open, seal};
use onefold_engine::format::superblock::INCOMPATIBLE_SEAMS;
use onefold_engine::format::{
    CommitMode, FRONT_COPIES, FormatStep, Geometry, GeometryError, GrowError, Growth, PageId, Region, Superblock, Wish, copies, pair_of,
};
use onefold_engine::interface::{Failure, Notice, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, index};

const SMALL: u64 = 2 << 20;
const LARGE: u64 = 5 << 20;
/// The content of the device where nobody has written.
const RUBBISH: u8 = 0xff;
const BITS: PageId = PageId { region: Region::Written, index: 0 };

/// A new volume of [`SMALL`] bytes, on a medium of that size.
fn blank(logical_blocks: u64) -> Vec<u8> {
    let wish = Wish { logical_blocks: Some(logical_blocks), reserve_blocks: Some(8), guard: false, notes_blocks: 0 };
    let geometry = Geometry::plan_tiny(Bytes(SMALL), &wish).expect("it fits");
    let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &Settings::default());
    format_over(vec![RUBBISH; index(SMALL)], &superblock)
}

fn larger(mut medium: Vec<u8>, bytes: u64) -> Vec<u8> {
    medium.resize(index(bytes), RUBBISH);
    medium
}

fn block(medium: &[u8], at: Bytes) -> Box<[u8; BLOCK_SIZE]> {
    Box::new(medium[index(at.get())..][..BLOCK_SIZE].try_into().expect("a block"))
}

/// The superblock of a medium, and the steps by which its volume takes all of it.
fn growth(medium: &[u8], logical_blocks: Option<u64>) -> Result<Option<Growth>, GrowError> {
    Growth::plan(found(medium).expect("a volume"), Bytes(medium.len() as u64), logical_blocks)
}

fn steps(medium: &[u8], growth: &Growth) -> Result<Vec<FormatStep>, GrowError> {
    let shared: Vec<_> = growth.shared_pages().map(|id| block(medium, growth.place_of(id))).collect();
    Ok(growth.steps(&shared)?.collect())
}

fn grow(medium: &mut Vec<u8>, logical_blocks: Option<u64>) {
    let growth = growth(medium, logical_blocks).expect("it can grow").expect("it is smaller");
    let steps = steps(medium, &growth).expect("no page is damaged");
    assert!(Growing { medium, unflushed: Vec::new(), operations_left: u64::MAX }.carry_out(steps));
}

/// The writes that a power loss takes, of those that were not flushed: one of this many, from this one on; or the first half of each.
#[derive(Clone, Copy, Debug)]
struct Lost {
    of: usize,
    each: usize,
    is_torn: bool,
}

const LOSSES: [Lost; 6] = [
    Lost { of: 1, each: 0, is_torn: false },
    Lost { of: 1, each: 0, is_torn: true },
    Lost { of: 2, each: 0, is_torn: false },
    Lost { of: 2, each: 1, is_torn: false },
    Lost { of: 2, each: 1, is_torn: true },
    // Nothing.
    Lost { of: 1, each: 1, is_torn: false },
];

/// A device whose power is lost when no operation is left.
struct Growing<'a> {
    medium: &'a mut Vec<u8>,
    unflushed: Vec<(Bytes, Box<[u8; BLOCK_SIZE]>)>,
    operations_left: u64,
}

impl Growing<'_> {
    /// Carries the steps out, block by block; false where the power is lost meanwhile.
    fn carry_out(&mut self, steps: Vec<FormatStep>) -> bool {
        steps.into_iter().all(|step| match step {
            FormatStep::Zero { at, length } => (0..length.get() / BLOCK_BYTES).all(|i| self.write(at + i * BLOCK_BYTES, &[0; BLOCK_SIZE])),
            FormatStep::Write { at, page } => self.write(at, &page),
            FormatStep::Flush => {
                self.goes_on() && {
                    self.unflushed.clear();
                    true
                }
            }
        })
    }

    fn write(&mut self, at: Bytes, content: &[u8; BLOCK_SIZE]) -> bool {
        if !self.goes_on() {
            return false;
        }
        self.unflushed.push((at, block(self.medium, at)));
        self.medium[index(at.get())..][..BLOCK_SIZE].copy_from_slice(content);
        true
    }

    fn goes_on(&mut self) -> bool {
        let goes_on = self.operations_left > 0;
        self.operations_left = self.operations_left.saturating_sub(1);
        goes_on
    }

    fn lose(self, lost: Lost) {
        let writes = self.unflushed.into_iter().enumerate().rev();
        let bytes = if lost.is_torn { BLOCK_SIZE / 2 } else { BLOCK_SIZE };
        for (_, (at, before)) in writes.filter(|(i, _)| lost.each < lost.of && i % lost.of == lost.each) {
            self.medium[index(at.get())..][..bytes].copy_from_slice(&before[..bytes]);
        }
    }
}

/// The content of a volume that was used for a while, the LBN of each part and its seed: some of it is there twice.
const PARTS: [(u64, u64); 4] = [(0, 1), (60, 2), (120, 1), (200, 3)];
const PART: usize = 40;

fn used(mode: CommitMode, is_closed: bool) -> Vec<u8> {
    let mut m = Machine::open(blank(480), settings(mode));
    for (lbn, seed) in PARTS {
        m.write(4096 * lbn, &noise(seed + 10, PART));
        m.flush();
        m.write(4096 * lbn, &noise(seed, PART));
        m.flush();
    }
    if is_closed { m.close() } else { m.medium.clone() }
}

fn holds_its_content(m: &mut Machine) {
    for (lbn, seed) in PARTS {
        assert_eq!(m.read(4096 * lbn, 4096 * PART as u64), noise(seed, PART), "from LBN {lbn} on");
    }
    assert!(!m.notices.iter().any(|n| matches!(n, Notice::Damage { .. })), "{:?}", m.notices);
}

/// Fills a grown volume, closes it and looks at it again.
fn is_used_to_the_last_block(medium: Vec<u8>, mode: CommitMode) {
    let mut m = Machine::open(medium, settings(mode));
    m.wait(10);
    holds_its_content(&mut m);
    let (first, end) = (300, m.engine.geometry().logical_blocks);
    (first..end).for_each(|lbn| m.write(4096 * lbn, &noise(lbn, 1)));
    m.flush();
    let medium = m.close();
    assert_eq!(findings(&medium), []);
    let mut m = Machine::open(medium, settings(mode));
    holds_its_content(&mut m);
    (first..end).for_each(|lbn| assert_eq!(m.read(4096 * lbn, 4096), noise(lbn, 1), "LBN {lbn}"));
    m.close();
}

/// Whether the next update leaves a front copy alone that describes the volume as the newest superblock does.
fn front_stays(medium: &[u8]) -> bool {
    let next = chosen(medium).expect("a volume");
    let written = pair_of(next.generation + 1);
    let is_newest = |copy| {
        let front = Superblock::decode(&block(medium, Bytes(copy as u64 * BLOCK_BYTES)), copy);
        front.is_ok_and(|front| front.geometry == next.geometry)
    };
    (0..FRONT_COPIES).any(|copy| is_newest(copy) && !written.contains(&copy))
}

/// Whether a check calls anything damage. Of a volume that was closed a copy of the superblock may be: rot looks the same.
fn is_damaged(medium: &[u8]) -> bool {
    findings(medium).iter().any(|finding| finding.severity() == Severity::Damage)
}

/// The other pair of copies has yet to follow, and the new end copies may be missing. An opening writes all of them.
#[test]
fn a_check_does_not_call_a_growth_that_was_cut_off_damage() {
    for mode in MODES {
        let mut medium = larger(used(mode, true), LARGE);
        let after = growth(&medium, Some(1000)).unwrap().unwrap();
        let before = medium.clone();
        let all = steps(&medium, &after).unwrap();
        assert!(Growing { medium: &mut medium, unflushed: Vec::new(), operations_left: u64::MAX }.carry_out(all));
        let newest = chosen(&medium).unwrap();
        // The first pair alone has got so far.
        for copy in pair_of(newest.generation) {
            let at = copies(newest.geometry.device_bytes)[copy];
            let old = if copy < FRONT_COPIES { block(&before, at) } else { Box::new([0; BLOCK_SIZE]) };
            medium[index(at.get())..][..BLOCK_SIZE].copy_from_slice(&old[..]);
        }
        assert_eq!(findings(&medium).iter().map(Finding::severity).collect::<Vec<_>>(), [Severity::Note; 2], "{mode:?}");
        let mut m = Machine::open(medium, settings(mode));
        holds_its_content(&mut m);
        assert_eq!(findings(&m.close()), [], "{mode:?}");
    }
}

#[test]
fn a_growth_that_is_cut_off_anywhere_leaves_the_volume_and_goes_on() {
    for (mode, is_closed) in MODES.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let before = larger(used(mode, is_closed), LARGE);
        let after = growth(&before, Some(1000)).unwrap().unwrap();
        let all = steps(&before, &after).unwrap();
        let operations = {
            let mut medium = before.clone();
            let mut growing = Growing { medium: &mut medium, unflushed: Vec::new(), operations_left: u64::MAX };
            assert!(growing.carry_out(all.clone()));
            u64::MAX - growing.operations_left
        };
        assert!(operations > 12, "{operations} operations");
        for (cut, lost) in (0..operations).flat_map(|cut| LOSSES.map(|lost| (cut, lost))) {
            let mut medium = before.clone();
            let mut growing = Growing { medium: &mut medium, unflushed: Vec::new(), operations_left: cut };
            assert!(!growing.carry_out(all.clone()));
            growing.lose(lost);
            assert!(front_stays(&medium), "{mode:?}, {cut} of {operations}, {lost:?}");
            assert!(is_closed || !is_damaged(&medium), "{mode:?}, {cut} of {operations}, {lost:?}: {:?}", findings(&medium));
            let mut m = Machine::open(medium.clone(), settings(mode));
            holds_its_content(&mut m);
            m.write(4096 * 300, &noise(9, PART));
            m.flush();
            let mut medium = m.close();
            assert_eq!(findings(&medium), [], "{mode:?}, {cut} of {operations}, {lost:?}");
            if growth(&medium, Some(1000)).unwrap().is_some() {
                grow(&mut medium, Some(1000));
            }
            let geometry = chosen(&medium).unwrap().geometry;
            assert_eq!((geometry.device_bytes, geometry.logical_blocks), (Bytes(LARGE), 1000), "{mode:?}, {cut}, {lost:?}");
            let mut m = Machine::open(medium, settings(mode));
            holds_its_content(&mut m);
            assert_eq!(m.read(4096 * 300, 4096 * PART as u64), noise(9, PART));
            m.write(4096 * 900, &noise(8, PART));
            m.close();
        }
    }
}

/// A server that was killed leaves an update of the superblock in the device's cache, and the growth goes on from that one.
#[test]
fn a_growth_flushes_what_a_killed_server_has_written() {
    let mut before = larger(used(CommitMode::Log, false), LARGE);
    let mut newest = chosen(&before).unwrap();
    newest.generation += 1;
    let unflushed: Vec<_> = pair_of(newest.generation)
        .map(|copy| {
            let at = copies(newest.geometry.device_bytes)[copy];
            let old = block(&before, at);
            let mut page = Box::new([0; BLOCK_SIZE]);
            newest.encode(copy, &mut page);
            before[index(at.get())..][..BLOCK_SIZE].copy_from_slice(&page[..]);
            (at, old)
        })
        .into();
    let growth = growth(&before, None).unwrap().unwrap();
    let all = steps(&before, &growth).unwrap();
    for (cut, lost) in (0..40).flat_map(|cut| LOSSES.map(|lost| (cut, lost))) {
        let mut medium = before.clone();
        let mut growing = Growing { medium: &mut medium, unflushed: unflushed.clone(), operations_left: cut };
        growing.carry_out(all.clone());
        growing.lose(lost);
        assert!(chosen(&medium).is_some(), "{cut}, {lost:?}");
    }
}

#[test]
fn a_grown_volume_is_used_to_the_last_block() {
    for (mode, is_closed) in MODES.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let mut medium = used(mode, is_closed);
        for (bytes, logical) in [(SMALL + 8192, None), (3 << 20, None), (LARGE, Some(1000))] {
            medium = larger(medium, bytes);
            grow(&mut medium, logical);
        }
        // A program that takes numbers for places must not write it.
        let superblock = chosen(&medium).expect("a volume");
        assert_eq!(superblock.features.incompatible & INCOMPATIBLE_SEAMS, INCOMPATIBLE_SEAMS, "{mode:?}");
        is_used_to_the_last_block(medium, mode);
    }
}

/// A write that finds no room fails, and succeeds once the volume has grown.
#[test]
fn a_full_thin_volume_goes_on_after_it_has_grown() {
    for mode in MODES {
        let mut m = Machine::open(blank(900), settings(mode));
        let is_stored = |m: &mut Machine, lbn: u64| match m.request_write(4096 * lbn, &noise(lbn, 1)) {
            Reply::Done => true,
            Reply::Failed(Failure::NoSpace) => false,
            other => panic!("{other:?}"),
        };
        let stored = (0..900).take_while(|&lbn| is_stored(&mut m, lbn)).count() as u64;
        assert!(stored > 300 && stored < 500, "{stored} blocks");
        m.flush();
        let mut medium = larger(m.medium.clone(), LARGE);
        grow(&mut medium, None);
        let mut m = Machine::open(medium, settings(mode));
        assert_eq!(m.engine.geometry().logical_blocks, 900, "clients see what they saw");
        (stored..900).for_each(|lbn| m.write(4096 * lbn, &noise(lbn, 1)));
        m.flush();
        (0..900).for_each(|lbn| assert_eq!(m.read(4096 * lbn, 4096), noise(lbn, 1)));
        assert_eq!(findings(&m.close()), []);
    }
}

fn with_bits(medium: &mut [u8], change: impl FnOnce(&mut [u8; BLOCK_SIZE])) {
    let at = index(chosen(medium).unwrap().geometry.page_at(BITS).get());
    let page: &mut [u8; BLOCK_SIZE] = (&mut medium[at..at + BLOCK_SIZE]).try_into().unwrap();
    change(page);
}

/// Damage that was written back, sealed, has set all bits of a sector, also those that stood for no page then.
#[test]
fn bits_that_stood_for_no_page_are_clear_in_the_grown_volume() {
    for mode in MODES {
        let mut medium = used(mode, true);
        with_bits(&mut medium, |page| {
            let mut content = open(&[7; 16], BITS, page, true).content;
            (20..32_000).for_each(|bit| content.set_bit(bit, true));
            seal(&[7; 16], BITS, &mut content, page);
        });
        let mut medium = larger(medium, LARGE);
        grow(&mut medium, Some(1000));
        is_used_to_the_last_block(medium, mode);
    }
}

#[test]
fn a_volume_does_not_grow_over_damaged_bits() {
    let mut medium = larger(used(CommitMode::Log, true), LARGE);
    with_bits(&mut medium, |page| page[700] ^= 1);
    let growth = growth(&medium, None).unwrap().unwrap();
    assert!(matches!(steps(&medium, &growth), Err(GrowError::DamagedBits { .. })));
}

#[test]
fn a_volume_grows_until_its_table_is_full() {
    let mut medium = used(CommitMode::Log, true);
    let mut times = 0;
    let refused = loop {
        let bytes = medium.len() as u64 + (1 << 20);
        medium = larger(medium, bytes);
        match growth(&medium, None) {
            Ok(_) => grow(&mut medium, None),
            Err(error) => break error,
        }
        times += 1;
    };
    assert!(matches!(refused, GrowError::Geometry(GeometryError::TooManyExtents { .. })), "{refused}");
    assert!(times >= 12, "{times} times");
    medium.truncate(medium.len() - (1 << 20));
    is_used_to_the_last_block(medium, CommitMode::Log);
}
