//! The repair of a damaged log: it is cut off before its damage, what is lost with the rest is named, and nothing else is served than what
//! was there.

use super::volume::{MIB, Volume, content, place};
use super::{link, with_refs};
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::{CheckSettings, Finding, ReadMedium, check, read_superblock};
use onefold_engine::format::entry::{Kind, MapEntry};
use onefold_engine::format::{FingerprintEntry, PageId, Record, Region, copies, pair_of};
use onefold_engine::interface::IoFailure;
use onefold_engine::repair::{Plan, RepairError, RepairMedium, carry_out, change_superblock, plan};
use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn};

const SETTINGS: CheckSettings = CheckSettings { memory_bytes: MIB, data: true };

/// A device that fails when no operation, write or flush, is left. Then every other write since the last flush is lost.
struct Medium<'a> {
    volume: &'a mut Volume,
    operations_left: u64,
    unflushed: Vec<(Bytes, [u8; BLOCK_SIZE])>,
}

impl Medium<'_> {
    fn operation(&mut self) -> Result<(), IoFailure> {
        self.operations_left = self.operations_left.checked_sub(1).ok_or(IoFailure)?;
        Ok(())
    }
}

impl ReadMedium for Medium<'_> {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        for (i, block) in (0..).zip(buffer.chunks_mut(BLOCK_SIZE)) {
            let at = at + i * 4096;
            if self.volume.failing.contains_key(&at) {
                return Err(IoFailure);
            }
            block.copy_from_slice(self.volume.block_at(at));
        }
        Ok(())
    }
}

impl RepairMedium for Medium<'_> {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        self.operation()?;
        self.unflushed.push((at, *self.volume.block_at(at)));
        *self.volume.block_at(at) = *block.block(0);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.operation()?;
        self.unflushed.clear();
        Ok(())
    }
}

fn planned(volume: &mut Volume) -> Result<(Plan, Vec<u64>), RepairError> {
    let (bytes, mut lost) = (volume.superblock.geometry.device_bytes, Vec::new());
    let mut note = |finding| match finding {
        Finding::LostEntries { first, blocks } => lost.extend(first.get()..first.get() + blocks),
        other => panic!("a plan names what is lost, and nothing else: {other}"),
    };
    let plan = plan(&mut Medium { volume, operations_left: 0, unflushed: Vec::new() }, bytes, &SETTINGS, &mut note)?;
    assert_eq!(plan.lost, u64::try_from(lost.len()).unwrap());
    Ok((plan, lost))
}

/// Repairs, with the power cut after this number of writes and flushes. Returns the logical blocks that are lost by name, and whether it
/// came to its end.
fn repair(volume: &mut Volume, operations: u64) -> (Vec<u64>, bool) {
    let (plan, lost) = planned(volume).unwrap();
    let mut medium = Medium { volume, operations_left: operations, unflushed: Vec::new() };
    let done = carry_out(&mut medium, plan, &SETTINGS, &mut |_| ());
    let unflushed = std::mem::take(&mut medium.unflushed);
    if done.is_err() {
        unflushed.into_iter().step_by(2).for_each(|(at, before)| *volume.block_at(at) = before);
    }
    (lost, done.is_ok())
}

/// Everything that a check finds but blocks that are lost.
fn findings(volume: &mut Volume) -> Vec<Finding> {
    let bytes = volume.superblock.geometry.device_bytes;
    let mut found = Vec::new();
    let mut note = |finding| found.extend(Some(finding).filter(|finding| !matches!(finding, Finding::LostEntries { .. })));
    check(&mut Medium { volume, operations_left: 0, unflushed: Vec::new() }, bytes, &SETTINGS, &mut note).expect("a volume");
    found
}

/// Four units of one new block each, LBN 1 to 4, of a log whose pages hold LBN 5 and 6; the third unit, which was flushed, is gone. LBN 7
/// and 8 share the block of LBN 2, until the fourth unit unlinks LBN 8.
fn with_a_hole() -> Volume {
    let mut volume = whole();
    volume.data(place(3)).fill(0xee);
    volume
}

fn whole() -> Volume {
    let mut volume = with_refs(32 << 20, |pbn| if [25, 26].contains(&pbn) { 2 } else { 0 });
    for i in 1..=6 {
        volume.store(20 + i);
    }
    let unlinks = |lbn, pbn| Record::Link { lbn: Lbn(lbn), to: MapEntry::Zero, old: Some(Pbn(pbn)) };
    for (i, more) in [(1, vec![]), (2, vec![link(7, 22), link(8, 22)]), (3, vec![]), (4, vec![unlinks(8, 22)])] {
        let record = volume.new_block(i, 20 + i, None);
        volume.unit(i, [vec![record], more].concat());
    }
    on_pages(&mut volume, 5, 25);
    on_pages(&mut volume, 6, 26);
    volume
}

/// Writes the fingerprint of a block to its page, and a link to it.
fn on_pages(volume: &mut Volume, lbn: u64, pbn: u64) {
    let name = volume.name(&content(pbn));
    volume.change_page(PageId { region: Region::Fingerprints, index: 0 }, |page| {
        page.set_fingerprint(usize::try_from(pbn).expect("small"), name);
    });
    volume.change_page(PageId { region: Region::Map, index: 0 }, |page| {
        page.set_map(usize::try_from(lbn).expect("small"), MapEntry::Block { pbn: Pbn(pbn), slot: 0 });
    });
}

fn set_tag(volume: &mut Volume, region: Region, tag: u64) {
    volume.change_page(PageId { region, index: 0 }, |page| page.set_tag(0, tag));
}

fn set_entry(volume: &mut Volume, pbn: usize, entry: FingerprintEntry) {
    volume.change_page(PageId { region: Region::Fingerprints, index: 0 }, |page| page.set_fingerprint(pbn, entry));
}

/// Gives a block the checksum of the content of a number.
fn set_checksum(volume: &mut Volume, pbn: usize, n: u64) {
    let value = volume.superblock.fingerprinter().checksum(&content(n));
    set_entry(volume, pbn, FingerprintEntry { kind: Kind::Checksum, value });
}

#[test]
fn what_counts_before_the_damage_stays_and_what_is_known_of_the_rest_is_lost_by_name() {
    let mut volume = with_a_hole();
    assert_eq!(planned(&mut volume).unwrap().0.cut(), Some(&Finding::LogUnitMissing { sequence: 3 }));
    assert_eq!(repair(&mut volume, u64::MAX), (vec![4, 8], true));
    assert_eq!(findings(&mut volume), []);
    let (plan, lost) = planned(&mut volume).unwrap();
    assert!(plan.is_empty() && lost.is_empty(), "a second repair has something to do");
    let after = volume.newest();
    assert!(after.last_epoch >= Epoch(4) && after.last_log_sequence >= 4, "an epoch or a sequence of the log would be used again");
    let mut machine = volume.open();
    assert_eq!(machine.damage(), <[&str; 0]>::default());
    let found = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|lbn| machine.read(lbn));
    assert_eq!(found, [Some(21), Some(22), Some(0), None, Some(25), Some(26), Some(22), None, Some(0)]);
    // It takes writes again, and no unit from before comes back.
    machine.write(4, 30);
    machine.write(3, 31);
    let mut machine = machine.crash().open();
    assert_eq!(machine.damage(), <[&str; 0]>::default());
    assert_eq!([1, 2, 3, 4, 5].map(|lbn| machine.read(lbn)), [Some(21), Some(22), Some(31), Some(30), Some(25)]);
}

/// Units that no other one shows to be missing: a page has their epoch.
#[test]
fn a_log_that_ends_before_a_page_is_cut_at_its_end() {
    let mut volume = whole();
    volume.change_page(PageId { region: Region::Map, index: 1 }, |page| page.set_tag(2, 6));
    assert_eq!(planned(&mut volume).unwrap().0.cut(), Some(&Finding::UnexpectedTag { region: Region::Map, sector: 10, tag: 6 }));
    assert_eq!(repair(&mut volume, u64::MAX), (vec![], true));
    assert_eq!(findings(&mut volume), []);
    let mut machine = volume.open();
    assert_eq!([1, 2, 3, 4, 5, 6].map(|lbn| machine.read(lbn)), [21, 22, 23, 24, 25, 26].map(Some));
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}

#[test]
fn a_log_that_is_not_damaged_is_not_cut() {
    assert_eq!(planned(&mut whole()).map(|_| ()), Err(RepairError::NotClosed));
    let mut volume = with_a_hole();
    let bytes = volume.superblock.geometry.device_bytes;
    let mut medium = Medium { volume: &mut volume, operations_left: u64::MAX, unflushed: Vec::new() };
    assert_eq!(change_superblock(&mut medium, bytes, |_| ()).map(|_| ()), Err(RepairError::NotClosed));
}

#[test]
fn a_link_that_nothing_proves_is_lost() {
    type Harm = fn(&mut Volume);
    let harms: [(&str, Harm, &[u64]); 10] = [
        ("other content", |v| *v.data(Pbn(21)) = content(29), &[1, 4, 8]),
        ("other content on pages", |v| *v.data(Pbn(25)) = content(29), &[4, 5, 8]),
        (
            "a newer map",
            |v| {
                [1, 2].into_iter().for_each(|lbn| on_pages(v, lbn, 20 + lbn));
                set_tag(v, Region::Map, 4);
            },
            &[1, 2, 4, 5, 6, 8],
        ),
        ("newer fingerprints of 21 and 22", |v| set_tag(v, Region::Fingerprints, 4), &[1, 2, 4, 7, 8]),
        ("a device that cannot read", |v| v.fail_reads_of(Pbn(26), 1), &[4, 6, 8]),
        ("a checksum", |v| set_checksum(v, 25, 25), &[4, 8]),
        ("a checksum of other content", |v| set_checksum(v, 25, 29), &[4, 5, 8]),
        ("no entry", |v| set_entry(v, 25, FingerprintEntry::NONE), &[4, 5, 8]),
        ("a short name", |v| v.unit(2, vec![v.extent(2, 22, 1)]), &[4, 8]),
        (
            "a short name of other content",
            |v| {
                v.unit(2, vec![v.extent(2, 22, 1)]);
                *v.data(Pbn(22)) = content(29);
            },
            &[2, 4, 8],
        ),
    ];
    for (name, harm, expected) in harms {
        let mut volume = with_a_hole();
        harm(&mut volume);
        let (lost, is_done) = repair(&mut volume, u64::MAX);
        assert!(is_done);
        assert_eq!(lost, expected, "{name}");
        assert_eq!(findings(&mut volume).iter().filter(|finding| !matches!(finding, Finding::UnreadableBlock { .. })).count(), 0, "{name}");
        volume.failing.clear();
        let mut machine = volume.open();
        for lbn in 1..=6 {
            let found = machine.read(lbn);
            assert!(if lost.contains(&lbn) { found.is_none() } else { found == Some(20 + lbn) || lbn == 3 }, "{name}: {lbn} is {found:?}");
        }
    }
}

#[test]
fn nothing_counts_of_a_log_that_cannot_be_believed() {
    let unreadable = || {
        let mut volume = whole();
        volume.fail_reads_of(place(3), 1);
        volume
    };
    let outside = || {
        let mut volume = whole();
        let beyond = volume.superblock.geometry.data_blocks;
        volume.unit(2, vec![link(2, beyond)]);
        volume
    };
    for (name, volume) in [("unreadable", unreadable()), ("outside", outside())] {
        let mut volume = volume;
        let (lost, is_done) = repair(&mut volume, u64::MAX);
        // What an unreadable unit names is not known.
        let expected: &[u64] = if name == "outside" { &[1, 2, 3, 4, 8] } else { &[1, 2, 4, 7, 8] };
        assert_eq!((&lost[..], is_done), (expected, true), "{name}");
        volume.failing.clear();
        assert_eq!(findings(&mut volume), [], "{name}");
        let mut machine = volume.open();
        assert_eq!([1, 2, 4, 5, 6].map(|lbn| machine.read(lbn)), [None, None, None, Some(25), Some(26)], "{name}");
    }
}

/// Until it has ended, a server serves what is proved, whatever comes back meanwhile, and the next repair ends it.
#[test]
fn a_cut_that_is_cut_off_anywhere_can_be_repeated() {
    let unit = *whole().data(place(3));
    for operations in 0.. {
        let mut volume = with_a_hole();
        let (lost, is_done) = repair(&mut volume, operations);
        let mut healed = volume.clone();
        *healed.data(place(3)) = unit;
        let (is_untouched, is_closed) = (healed.newest().generation == whole().newest().generation, healed.newest().clean);
        if is_untouched {
            assert_eq!(findings(&mut healed), [], "healed, cut off after {operations}");
        }
        for (name, volume) in [("damaged", volume.clone()), ("healed", healed)] {
            let mut machine = volume.open();
            let found = [1, 2, 3, 4, 5, 6].map(|lbn| machine.read(lbn));
            for (lbn, found) in (1..).zip(found) {
                let is_old = (lbn == 3 && found == Some(0) && is_closed) || found.is_none() || found == Some(20 + lbn);
                assert!(is_old, "{name}, cut off after {operations}: {lbn} is {found:?}");
            }
            let is_whole = name == "healed" && is_untouched;
            assert_eq!(machine.damage().is_empty(), is_whole || is_closed, "{name}, cut off after {operations}");
            if is_whole {
                assert_eq!(found, [1, 2, 3, 4, 5, 6].map(|lbn| Some(20 + lbn)), "cut off after {operations}");
            }
        }
        if is_done {
            assert!(operations > 10, "it writes");
            return;
        }
        let (again, is_done) = repair(&mut volume, u64::MAX);
        assert!(is_done && again.iter().all(|lbn| lost.contains(lbn)), "cut off after {operations}: {again:?}");
        assert_eq!(findings(&mut volume), [], "cut off after {operations}");
        let mut machine = volume.open();
        assert_eq!([1, 2, 3, 4, 5].map(|lbn| machine.read(lbn)), [Some(21), Some(22), Some(0), None, Some(25)], "{operations}");
    }
}

#[test]
fn blocks_that_records_alone_refer_to_are_free_again() {
    let mut volume = with_a_hole();
    let record = Record::Link { lbn: Lbn(5), to: MapEntry::Zero, old: Some(Pbn(25)) };
    volume.unit(2, vec![record]);
    assert_eq!(repair(&mut volume, u64::MAX), (vec![4, 8], true));
    assert_eq!(findings(&mut volume), []);
    let mut machine = volume.open();
    assert_eq!([1, 2, 5, 6].map(|lbn| machine.read(lbn)), [Some(21), Some(0), Some(0), Some(26)]);
}

/// The server whose log is damaged was killed while it updated the superblock: that pair of copies lies in the device's cache alone.
#[test]
fn a_repair_flushes_what_a_killed_server_has_left() {
    for operations in 0..40 {
        for survivors in 0..2 {
            let mut volume = with_a_hole();
            let mut superblock = volume.newest();
            let bytes = superblock.geometry.device_bytes;
            superblock.generation += 1;
            let mut unflushed = Vec::new();
            for copy in pair_of(superblock.generation) {
                let at = copies(bytes)[copy];
                unflushed.push((at, *volume.block_at(at)));
                superblock.encode(copy, volume.block_at(at));
            }
            let (plan, _) = planned(&mut volume).expect("it can be repaired");
            let mut medium = Medium { volume: &mut volume, operations_left: operations, unflushed };
            let done = carry_out(&mut medium, plan, &SETTINGS, &mut |_| ());
            // Of each block only every second sector survives.
            for (at, before) in std::mem::take(&mut medium.unflushed).into_iter().rev() {
                let lost = (0..BLOCK_SIZE / 512).filter(|sector| sector % 2 == survivors);
                lost.for_each(|sector| volume.block_at(at)[sector * 512..][..512].copy_from_slice(&before[sector * 512..][..512]));
            }
            let mut medium = Medium { volume: &mut volume, operations_left: 0, unflushed: Vec::new() };
            let found = read_superblock(&mut medium, bytes);
            assert!(found.is_ok(), "power lost after {operations} operations (repaired: {}): {:?}", done.is_ok(), found.err());
        }
    }
}
