//! Content of the newest epoch differs from its record: it was lost in the crash, or has rotted since. The pages' tags show which.

use super::link;
use super::volume::{Block, Volume, content};
use onefold_engine::check::{CheckSettings, ReadMedium, check, read_log};
use onefold_engine::format::entry::MapEntry;
use onefold_engine::format::{CommitMode, PageId, Region};
use onefold_engine::interface::IoFailure;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Pbn};

const ROTTED: &str = "content differs from its record, which was flushed";
const MAP: PageId = PageId { region: Region::Map, index: 0 };

fn block(pbn: u64) -> MapEntry {
    MapEntry::Block { pbn: Pbn(pbn), slot: 0 }
}

/// A volume in which LBN 3 means block 20, and later LBNs 3 and 4 mean block 21, whose content is not there. All of this is in the log, and
/// nothing shows that the second epoch was flushed.
fn in_doubt() -> Volume {
    let mut volume = Volume::new();
    volume.store(20);
    volume.unit(1, vec![volume.new_block(3, 20, None)]);
    volume.unit(2, vec![volume.new_block(3, 21, Some(20)), link(4, 21)]);
    *volume.data(Pbn(21)) = content(99);
    volume
}

/// Writes the page of LBNs 3 and 4 as a checkpoint does when this many epochs are durable.
fn with_map_page(volume: &mut Volume, epochs: u64) {
    volume.change_page(MAP, |page| {
        page.set_map(3, block(19 + epochs));
        page.set_map(4, if epochs > 1 { block(21) } else { MapEntry::Unmapped });
        page.set_tag(0, epochs);
    });
}

impl ReadMedium for Volume {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        for (i, bytes) in buffer.chunks_mut(BLOCK_SIZE).enumerate() {
            bytes.copy_from_slice(&self.block_at(at + (i * BLOCK_SIZE) as u64)[..]);
        }
        Ok(())
    }
}

/// A volume that counts the bytes that are read.
struct Counting(Volume, u64);

impl ReadMedium for Counting {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        self.1 += buffer.len() as u64;
        self.0.read(at, buffer)
    }
}

/// The report counts all but the copies of the superblock: the log, the content in doubt, the pages that could decide it, and the rest.
#[test]
fn a_check_reports_how_much_it_has_read() {
    let mut volume = in_doubt();
    volume.store(22);
    volume.unit_as(3, vec![volume.new_block(6, 22, None), volume.new_block(7, 23, None)], |h| h.flushed_upto = 1);
    for data in [false, true] {
        let mut medium = Counting(volume.clone(), 0);
        let bytes = volume.superblock.geometry.device_bytes;
        let report = check(&mut medium, bytes, &CheckSettings { memory_bytes: 4 << 20, data }, &mut |_| ()).expect("a volume");
        assert_eq!(report.bytes_read.get(), medium.1 - 4 * BLOCK_SIZE as u64);
    }
}

/// Returns the meaning that `check` finds for LBN 3.
fn checked(volume: &Volume) -> MapEntry {
    let (mut medium, superblock) = (volume.clone(), volume.superblock.clone());
    let log = read_log(&mut medium, &superblock).expect("nothing of the log is missing");
    let bytes: Block = *medium.block_at(superblock.geometry.page_at(MAP));
    let mut opened = onefold_engine::format::page::open(&superblock.uuid, MAP, &bytes, false);
    log.put_right(MAP, &mut opened);
    opened.content.map(3)
}

#[test]
fn what_no_page_holds_was_lost() {
    for pages_of in [0, 1] {
        let mut volume = in_doubt();
        if pages_of > 0 {
            with_map_page(&mut volume, pages_of);
        }
        assert_eq!(checked(&volume), block(20));
        let mut machine = volume.open();
        assert_eq!([3, 4].map(|lbn| machine.read(lbn)), [Some(20), Some(0)]);
        assert_eq!(machine.damage(), <[&str; 0]>::default());
    }
}

/// If the record were dropped, the page would still link to a block without a count, and the next content of that block would be read as
/// that of this LBN.
#[test]
fn what_a_page_holds_was_flushed_and_is_not_dropped() {
    let mut volume = in_doubt();
    with_map_page(&mut volume, 2);
    assert_eq!(checked(&volume), block(21));
    let mut machine = volume.open();
    assert_eq!(machine.damage(), [ROTTED]);
    (0..200).for_each(|i| machine.write(100 + i, 1000 + i));
    assert_eq!([3, 4].map(|lbn| machine.read(lbn)), [None; 2], "an error, and no other LBN's content");
    machine.write(3, 22);
    let mut machine = machine.crash().open();
    assert_eq!([3, 4, 100].map(|lbn| machine.read(lbn)), [Some(22), None, Some(1000)]);
    assert_eq!(machine.damage().iter().filter(|what| **what == ROTTED).count(), 0, "it was reported once: the log was closed since");
}

/// A page of counts, too, shows that the epoch was flushed.
#[test]
fn counts_show_it_too() {
    let mut volume = in_doubt();
    volume.change_page(PageId { region: Region::Refs, index: 0 }, |page| {
        page.set_refs(21, 3);
        page.set_tag(0, 2);
    });
    assert_eq!(checked(&volume), block(21));
    let mut machine = volume.open();
    assert_eq!(machine.damage(), [ROTTED]);
    assert_eq!(machine.read(3), None);
}

/// Rot-only run 584 of seed 9001: a checkpoint had written a page with the last epoch, whose only unit rotted. The page linked to a block
/// that was not counted.
#[test]
fn pages_hold_what_more_than_the_last_unit_confirms() {
    let mut volume = Volume::new();
    volume.compact_beyond = 4;
    let mut machine = volume.open();
    let (mut pages, mut confirmed) = (0, 0);
    for i in 0..200 {
        machine.write(40 * i, 1000 + i);
        // The closing unit is the first of all; each write is a unit and an epoch.
        let (last, log_tail) = (i + 2, machine.volume.newest_log_tail());
        let upto = log_tail.flushed_upto.max(last - 1);
        let tag = newest_tag(&mut machine.volume);
        assert!(tag <= upto, "a page holds epoch {tag}, but no more than epoch {upto} is confirmed");
        pages = machine.done.iter().filter(|what| *what == "Fingerprints").count();
        confirmed += u64::from(log_tail.flushed_upto >= log_tail.sequence);
    }
    assert!(pages > 20 && confirmed > 0, "{pages} pages, {confirmed} times a superblock confirmed");
}

/// Returns the newest tag of the pages of fingerprints.
fn newest_tag(volume: &mut Volume) -> u64 {
    let tag = |index| {
        let id = PageId { region: Region::Fingerprints, index };
        let bytes: Block = *volume.block_at(volume.superblock.geometry.page_at(id));
        let page = onefold_engine::format::page::open(&volume.superblock.uuid, id, &bytes, false).content;
        (0..8).map(|sector| page.tag(sector)).max().unwrap_or(0)
    };
    (0..8).map(tag).max().unwrap_or(0)
}

/// A page that cannot be read leaves it unknown whether the epoch was flushed, and nothing is guessed.
#[test]
fn a_page_that_cannot_be_read_makes_the_log_a_damaged_one() {
    for (failures, reported) in [(2, ROTTED), (3, "the log cannot be read")] {
        let mut volume = in_doubt();
        with_map_page(&mut volume, 2);
        volume.failing.insert(volume.superblock.geometry.page_at(MAP), failures);
        let mut machine = volume.open();
        assert_eq!(machine.damage(), [reported]);
        assert_eq!(machine.digested, 1, "that of the content, and none of pages");
        assert_eq!(machine.read(3), None);
    }
}

/// Run 310 of seed 9100: a crash had kept the fingerprints of a large epoch from their page, and a flipped bit was served. The short name
/// shows it.
#[test]
fn content_of_a_large_epoch_is_known_by_its_short_name() {
    for mode in [CommitMode::Log, CommitMode::Ordered] {
        let mut volume = Volume::new();
        volume.mode = mode;
        (20..24).for_each(|pbn| volume.store(pbn));
        volume.unit_as(1, vec![volume.extent(3, 20, 4)], |header| header.content_flushed = true);
        volume.data(Pbn(21))[100] ^= 1;
        let mut machine = volume.open();
        assert_eq!([3, 4, 5, 6].map(|lbn| machine.read(lbn)), [Some(20), None, Some(22), Some(23)]);
        assert_eq!(machine.damage(), ["content differs from its fingerprint"]);
    }
}
