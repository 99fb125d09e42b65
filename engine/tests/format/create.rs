//! Formatting, carried out on a volume in memory and cut off at each step.

use super::{MIB, UUID, fresh, geometry, guarded};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::page::open;
use onefold_engine::format::{
    FormatStep, GUARD_AT, Geometry, Guard, OpenError, PageContent, PageId, Region, Superblock, Wish, choose, claimed_bytes, copies,
    end_copies, format, format_guarded, pair_of,
};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, index};

struct Medium(Vec<u8>);

impl Medium {
    fn full_of(byte: u8, bytes: u64) -> Self {
        Self(vec![byte; index(bytes)])
    }

    fn page(&self, at: Bytes) -> Option<&[u8; BLOCK_SIZE]> {
        self.0.get(index(at.get())..)?.get(..BLOCK_SIZE)?.try_into().ok()
    }

    fn device_bytes(&self) -> Bytes {
        Bytes(self.0.len() as u64)
    }

    fn carry_out(&mut self, step: &FormatStep) {
        match step {
            FormatStep::Zero { at, length } => self.0[index(at.get())..][..index(length.get())].fill(0),
            FormatStep::Write { at, page } => self.0[index(at.get())..][..BLOCK_SIZE].copy_from_slice(&page[..]),
            FormatStep::Flush => (),
        }
    }

    fn open(&self) -> Result<Superblock, OpenError> {
        let front = [self.page(Bytes(0)), self.page(Bytes(4096))];
        let [a, b] = end_copies(front, self.device_bytes());
        choose([front[0], front[1], self.page(a), self.page(b)], self.device_bytes()).map(|c| c.superblock)
    }
}

fn formatted(superblock: &Superblock, mut medium: Medium) -> Medium {
    let steps: Vec<_> = format(superblock, medium.device_bytes(), &[]).collect();
    steps.iter().for_each(|step| medium.carry_out(step));
    medium
}

#[test]
fn every_page_of_a_new_volume_opens_as_empty() {
    let superblock = fresh();
    let medium = formatted(&superblock, Medium::full_of(0xa5, 64 * MIB));
    assert_eq!(medium.open(), Ok(superblock.clone()));
    for region in Region::ALL {
        for index in 0..superblock.geometry.pages(region) {
            let id = PageId { region, index };
            let bytes = medium.page(superblock.geometry.page_at(id)).expect("a page on the device");
            let opened = open(&UUID, id, bytes, region == Region::Written);
            assert_eq!((opened.damaged, opened.blank), (0, region != Region::Written));
            assert_eq!(opened.content, PageContent::empty());
        }
    }
}

#[test]
fn a_format_cut_off_anywhere_leaves_the_old_volume_the_new_one_or_none() {
    let old = fresh();
    let new_geometry = Geometry::plan(Bytes(48 * MIB), &Wish::default()).expect("a geometry");
    let new = Superblock::new(new_geometry, [8; 16], [1; 32], Algorithm::Sha256, &Settings::default());
    let old_medium = formatted(&old, Medium::full_of(0, 64 * MIB));
    let claimed = claimed_bytes(old_medium.page(Bytes(0)).expect("a page")).expect("an old volume");
    let steps: Vec<_> = format(&new, Bytes(64 * MIB), &[claimed]).collect();
    let flushes: Vec<_> = steps.iter().enumerate().filter(|(_, s)| **s == FormatStep::Flush).map(|(i, _)| i).collect();
    assert_eq!(flushes.len(), 4);
    assert_eq!(*flushes.last().expect("flushes"), steps.len() - 1);

    // Before each flush any subset of the steps since the last one may be durable. Each step is tried alone, then all are carried out.
    let mut durable = old_medium.0;
    let mut since = 0;
    for (stage, &flush) in flushes.iter().enumerate() {
        for step in &steps[since..flush] {
            let mut medium = Medium(durable.clone());
            medium.carry_out(step);
            match (stage, medium.open()) {
                (0, found) => assert!(found.is_err() || found == Ok(old.clone())),
                (1, found) => assert_eq!(found, Err(OpenError::NotOnefold)),
                // A front copy is enough once the metadata is blank. One at the end of a volume that is shorter than its device is not
                // found.
                (_, Ok(found)) => assert_eq!(found, new),
                (_, Err(error)) => {
                    assert!(error == OpenError::NotOnefold && matches!(step, FormatStep::Write { at, .. } if at.get() > 4096))
                }
            }
        }
        let mut medium = Medium(durable);
        steps[since..flush].iter().for_each(|step| medium.carry_out(step));
        durable = medium.0;
        since = flush + 1;
    }
    assert_eq!(Medium(durable).open(), Ok(new));
}

#[test]
fn the_guard_block_is_durable_before_there_is_a_volume() {
    let (superblock, guard) = (guarded(), Guard::new(UUID, [1; 16], (2, 3)));
    let steps: Vec<_> = format_guarded(&superblock, Some(&guard), Bytes(64 * MIB), &[]).collect();
    let written =
        |place: u64| steps.iter().position(|s| matches!(s, FormatStep::Write { at, .. } if at.get() == place)).expect("it is written");
    let (block, first_copy) = (written(GUARD_AT.get()), written(BLOCK_BYTES).min(written(0)));
    assert!(steps[block..first_copy].contains(&FormatStep::Flush));
    let mut medium = Medium::full_of(0x55, 64 * MIB);
    steps.iter().for_each(|step| medium.carry_out(step));
    let page = medium.0[8192..12288].try_into().expect("a page");
    assert_eq!(Guard::decode(page, &UUID), Ok(guard), "no region lies over it");
    let opened = medium.open().expect("a volume");
    assert!(opened.is_guarded() && opened.guard_ms == 5000);
}

#[test]
fn the_first_update_leaves_the_pair_alone_that_a_cut_off_format_has_made_durable() {
    // The volume is shorter than its device, so that only a front copy can be found. The format is cut off in its last step.
    let superblock = fresh();
    let steps: Vec<_> = format(&superblock, Bytes(64 * MIB + 4096), &[]).collect();
    let last_but_one = steps.iter().enumerate().filter(|(_, s)| **s == FormatStep::Flush).map(|(i, _)| i).nth(2).expect("a third flush");
    let mut medium = Medium::full_of(0, 64 * MIB + 4096);
    steps[..last_but_one].iter().for_each(|step| medium.carry_out(step));
    let opened = medium.open().expect("a volume");
    // The update that opening does is cut off too: neither of its copies is whole.
    let places = copies(superblock.geometry.device_bytes);
    for copy in pair_of(opened.generation + 1) {
        medium.carry_out(&FormatStep::Write { at: places[copy], page: Box::new([0x5a; 4096]) });
    }
    assert_eq!(medium.open(), Ok(superblock));
}

#[test]
fn the_copies_of_an_old_volume_that_was_larger_or_smaller_go_too() {
    let device = Bytes(64 * MIB);
    let zeroed = |old: &[Bytes]| -> Vec<u64> {
        let superblock = fresh();
        let first = format(&superblock, device, old).take_while(|s| *s != FormatStep::Flush);
        first.map(|s| if let FormatStep::Zero { at, length: Bytes(4096) } = s { at.get() } else { panic!("{s:?}") }).collect()
    };
    let ends = [0, 4096, 64 * MIB - 8192, 64 * MIB - 4096];
    assert_eq!(zeroed(&[]), ends);
    assert_eq!(zeroed(&[Bytes(20 * MIB + 7)]), [0, 4096, 20 * MIB - 8192, 20 * MIB - 4096, ends[2], ends[3]]);
    assert_eq!(zeroed(&[Bytes(80 * MIB)]), ends, "places beyond the device are not touched");
    assert_eq!(zeroed(&[Bytes(u64::MAX), Bytes(0), Bytes(5)]), ends);
}

#[test]
fn steps_stay_inside_their_regions() {
    let superblock = Superblock { geometry: geometry(1 << 40), ..fresh() };
    let data = superblock.geometry.block_at(onefold_engine::units::Pbn(0));
    let mut zeroed = 0;
    for step in format(&superblock, Bytes(1 << 40), &[]) {
        if let FormatStep::Zero { at, length } = step {
            assert!(length.get() <= 64 * MIB);
            if length.get() > 4096 {
                assert!(at + length.get() <= data);
            }
            zeroed += length.get();
        }
    }
    let pages: u64 = [Region::Refs, Region::Fingerprints, Region::Map].map(|r| superblock.geometry.pages(r)).iter().sum();
    assert_eq!(zeroed, (pages + 4) * 4096);
}

/// An old volume that survives a power loss has to be whole: it may have data where the new, shorter one has its end copies.
#[test]
fn before_its_first_flush_a_format_touches_only_old_copies() {
    let device = Bytes(64 * MIB);
    let geometry = Geometry::plan(Bytes(device.get() - 2 * BLOCK_BYTES), &Wish::default()).expect("fits");
    let superblock = Superblock { geometry, ..fresh() };
    let steps = format(&superblock, device, &[device]).take_while(|step| *step != FormatStep::Flush);
    let touched = steps.map(|step| if let FormatStep::Zero { at, length: Bytes(BLOCK_BYTES) } = step { at } else { panic!("{step:?}") });
    assert_eq!(touched.collect::<Vec<_>>(), copies(device));
}
