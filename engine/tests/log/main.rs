//! Opening a volume with a live log: what is read and written before the volume serves, and what it then serves (docs/log.md, Recovery).

mod compaction;
mod cut;
mod damaged;
mod forged;
mod machine;
mod recount;
mod rot;
mod spill;
mod volume;

use onefold_engine::format::REFS_UNKNOWN;
use onefold_engine::format::entry::MapEntry;
use onefold_engine::format::{CommitMode, PageId, Places, Record, Region};
use onefold_engine::interface::Notice;
use onefold_engine::stats::Progress;
use onefold_engine::units::{Epoch, Lbn, Pbn, index as index_of};
use std::cell::Cell;
use volume::{MIB, Volume, content, place};

fn link(lbn: u64, pbn: u64) -> Record {
    Record::Link { lbn: Lbn(lbn), to: MapEntry::Block { pbn: Pbn(pbn), slot: 0 }, old: None }
}

#[test]
fn what_the_log_says_is_read() {
    let mut volume = Volume::new();
    volume.store(20);
    volume.store(21);
    volume.unit(1, vec![volume.new_block(3, 20, None)]);
    volume.unit(2, vec![volume.new_block(4, 21, None), link(5, 20)]);
    let mut machine = volume.open();
    assert_eq!([3, 4, 5, 6].map(|lbn| machine.read(lbn)), [Some(20), Some(21), Some(20), Some(0)]);
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}

/// The closing unit confirms that all before it was flushed, so it may not be on the device before that flush.
#[test]
fn the_closing_unit_is_written_when_what_was_found_is_flushed() {
    let mut volume = Volume::new();
    volume.store(20);
    volume.store(21);
    volume.unit(1, vec![volume.new_block(3, 20, None)]);
    volume.unit(2, vec![volume.new_block(4, 21, None)]);
    let machine = volume.open();
    let at = |what: &str| machine.done.iter().position(|done| done == what).unwrap_or_else(|| panic!("{what} is not written"));
    let [content, unit, closing] = [Pbn(21), place(2), place(3)].map(|pbn| at(&pbn.to_string()));
    let again = content.max(unit);
    assert!(again < closing && machine.done[again..closing].contains(&"flush".to_owned()), "{:?}", machine.done);
    assert!(machine.done[closing..].contains(&"flush".to_owned()));
}

/// One lost block has thousands of links in its epoch: all of them are dropped, and stay dropped.
#[test]
fn a_lost_block_with_thousands_of_links_is_dropped_whole() {
    let mut volume = Volume::new();
    volume.store(20);
    volume.unit(1, vec![volume.new_block(3, 20, None)]);
    // Every other link is one to the lost block, so the dropped records are no run.
    let links: Vec<Record> = (0..4000).map(|i| link(100 + i, if i % 2 == 0 { 21 } else { 20 })).collect();
    let units = u32::try_from(links.len().div_ceil(300)).expect("few");
    for (unit, chunk) in (0..units).zip(links.chunks(300)) {
        let mut records = chunk.to_vec();
        if unit == 0 {
            records.insert(0, volume.new_block(4, 21, None));
        }
        volume.unit_as(2 + u64::from(unit), records, |h| {
            (h.epoch, h.unit, h.units, h.flushed_upto) = (Epoch(2), unit, units, 1);
        });
    }
    let expected = [Some(20), Some(0), Some(0), Some(20), Some(0), Some(20)];
    let seen = [3, 4, 100, 101, 4098, 4099];
    let mut machine = volume.open();
    assert_eq!(seen.map(|lbn| machine.read(lbn)), expected);
    // What was dropped stays dropped, though the content is there by now.
    let mut volume = machine.crash();
    *volume.data(Pbn(21)) = content(21);
    let mut machine = volume.open();
    assert_eq!(seen.map(|lbn| machine.read(lbn)), expected);
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}

/// A volume whose log was closed after a crash. The next unit was sent before another crash, but the opening that followed did not find it.
fn closed_and_not_there() -> Volume {
    let mut volume = Volume::new();
    volume.store(20);
    volume.unit(1, vec![volume.new_block(3, 20, None)]);
    volume.unit_as(2, vec![Record::Closing { first: 0, lost: Vec::new() }], |h| (h.incarnation, h.content_flushed) = (2, true));
    volume.superblock.incarnation = 2;
    volume.write_superblock();
    volume
}

fn is_there_now(volume: &mut Volume) {
    volume.store(21);
    let record = volume.new_block(3, 21, Some(20));
    volume.unit_as(3, vec![record], |h| h.incarnation = 2);
}

/// A device may return any content for a block that it was asked to discard: P7 holds all the same, and no recovery adds to the log.
#[test]
fn what_was_not_there_behind_a_closed_log_does_not_count_later() {
    let mut volume = closed_and_not_there();
    for _ in 0..3 {
        let mut machine = volume.open();
        assert_eq!(machine.read(3), Some(20));
        let units = (3..20).map(|sequence| place(sequence).to_string()).filter(|unit| machine.done.contains(unit)).count();
        assert_eq!(units, 0, "a closed log gets no unit: {:?}", machine.done);
        volume = machine.crash();
        is_there_now(&mut volume);
    }
    // What is written from now on does count.
    let mut machine = volume.open();
    machine.write(3, 22);
    let mut machine = machine.crash().open();
    assert_eq!(machine.read(3), Some(22));
}

/// The same holds where the log tail has moved behind the closing unit, because nothing came after it.
#[test]
fn what_was_not_there_behind_a_log_tail_does_not_count_later() {
    let mut volume = closed_and_not_there();
    volume.mode = CommitMode::Ordered;
    // Both pairs mark the volume open, then the checkpoint writes one pair. The pair after that would end the log.
    let writes = Cell::new(0);
    let machine = volume.open_until(move |what| {
        writes.set(writes.get() + u32::from(what == "Superblock"));
        writes.get() > 6
    });
    assert!(machine.stopped);
    let mut volume = machine.crash();
    is_there_now(&mut volume);
    volume.mode = CommitMode::Log;
    assert_eq!(volume.open().read(3), Some(20));
}

/// Two reads of each block may fail. A third failure makes the log a damaged one.
#[test]
fn each_block_is_read_three_times() {
    let mut volume = Volume::new();
    for i in 1..=4 {
        volume.store(20 + i);
        let record = volume.new_block(i, 20 + i, None);
        volume.unit(i, vec![record]);
        volume.fail_reads_of(place(i), 2);
    }
    volume.fail_reads_of(Pbn(24), 2);
    let mut machine = volume.clone().open();
    assert_eq!([1, 4].map(|lbn| machine.read(lbn)), [Some(21), Some(24)]);
    for failing in [place(2), Pbn(24)] {
        let mut volume = volume.clone();
        volume.fail_reads_of(failing, 3);
        let mut machine = volume.open();
        assert_eq!((machine.read(1), machine.damage()), (None, vec!["the log cannot be read"]));
    }
}

#[test]
fn a_unit_that_names_what_the_volume_does_not_have_is_damage() {
    let mut volume = Volume::new();
    volume.unit(1, vec![link(3, volume.superblock.geometry.data_blocks)]);
    let mut machine = volume.open();
    assert_eq!((machine.read(1), machine.damage()), (None, vec!["a unit of the log names what the volume does not have"]));
}

/// Such a block would be freed twice when the volume closes.
#[test]
fn a_block_that_is_two_places_of_the_log_is_damage() {
    let mut volume = Volume::new();
    volume.unit_naming(1, vec![Places { first: place(1), blocks: 3 }], vec![link(3, 20)], |_| ());
    let mut machine = volume.open();
    assert_eq!((machine.read(3), machine.damage()), (None, vec!["a block is two places of the log"]));
}

/// A page's tag shows which epochs were flushed. If the log ends before that epoch, acknowledged writes are lost.
#[test]
fn a_page_newer_than_the_logs_end_is_a_damaged_log() {
    for (tag, damage) in [(2, &[][..]), (3, &["a metadata page is newer than the end of the log"])] {
        let mut volume = Volume::new();
        volume.store(20);
        volume.unit(1, vec![volume.new_block(3, 20, None)]);
        volume.unit_as(2, vec![Record::Closing { first: 0, lost: Vec::new() }], |h| h.content_flushed = true);
        // This is not the sector of the block that is read, whose content is proved as before.
        volume.change_page(PageId { region: Region::Map, index: 0 }, |page| page.set_tag(5, tag));
        let mut machine = volume.open();
        assert_eq!([3, 3].map(|lbn| machine.read(lbn)), [Some(20); 2], "a tag of {tag}");
        assert_eq!(machine.damage(), damage);
        assert_eq!(machine.read(501), damage.is_empty().then_some(0), "a page that is newer proves no zeros");
    }
}

/// A volume whose blocks have these counts.
fn with_refs(bytes: u64, refs: impl Fn(u64) -> u8) -> Volume {
    let mut volume = Volume::of(bytes);
    let (blocks, per_page) = (volume.superblock.geometry.data_blocks, Region::Refs.entries_per_page());
    for index in 0..blocks.div_ceil(per_page) {
        let first = index * per_page;
        volume.change_page(PageId { region: Region::Refs, index }, |page| {
            (0..per_page.min(blocks - first)).for_each(|i| page.set_refs(index_of(i), refs(first + i)));
        });
    }
    volume
}

/// The records of a discard take no more places than there are: records that do not fit come with later epochs.
#[test]
fn a_discard_of_scattered_blocks_finds_places_for_its_records() {
    const WRITTEN: u64 = 2400;
    for left in [8, 20] {
        let mut machine = with_refs(32 * MIB, |pbn| if pbn < WRITTEN + left { 0 } else { REFS_UNKNOWN }).open();
        // Neighbours lie apart, so each is a run of its own.
        (0..WRITTEN).for_each(|i| machine.write_only(i * 1009 % WRITTEN, 5000 + i));
        machine.flush();
        machine.discard(0, WRITTEN);
        machine.flush();
        assert_eq!([0, 1, WRITTEN - 1].map(|lbn| machine.read(lbn)), [Some(0); 3]);
        let mut machine = machine.crash().open();
        assert_eq!([0, 1, WRITTEN - 1].map(|lbn| machine.read(lbn)), [Some(0); 3]);
        assert_eq!(machine.damage(), <[&str; 0]>::default());
    }
}

/// An opening that takes less than half a second reports nothing. A longer one reports its progress each second.
#[test]
fn a_long_opening_reports_its_progress() {
    let reported = |read_ms| {
        let mut volume = Volume::new();
        volume.read_ms = read_ms;
        (1..=300).for_each(|sequence| volume.unit(sequence, vec![link(sequence, 20), link(1000 + sequence, 21)]));
        volume.store(20);
        volume.store(21);
        let mut machine = volume.open();
        assert_eq!(machine.read(7), Some(20));
        assert_eq!(machine.engine.stats().opening, None, "it serves");
        machine
            .notices
            .into_iter()
            .filter_map(|notice| if let Notice::Opening(progress) = notice { Some(progress) } else { None })
            .collect::<Vec<_>>()
    };
    assert_eq!(reported(1), []);
    let reported = reported(10);
    assert!((2..=4).contains(&reported.len()), "{reported:?}");
    for (pair, i) in reported.windows(2).zip(1..) {
        assert!(pair[0].units < pair[1].units && pair[0].records < pair[1].records, "notice {i}: {pair:?}");
    }
    for Progress { units, units_most, records, .. } in reported {
        // The newest units wait for a later one that confirms that they were flushed.
        assert!(
            units < 300 && units_most >= 300 && records <= 2 * units && records + 10 >= 2 * units,
            "{units} of {units_most}, {records}"
        );
    }
}

/// A new block among scattered free blocks takes the room of its neighbours in memory, too, and is charged for it.
#[test]
fn scattered_births_are_charged_for_their_room() {
    const WRITES: u64 = 128;
    let charged = |step: u64| {
        let mut machine = with_refs(32 * MIB, |pbn| if pbn % step == 0 { 0 } else { REFS_UNKNOWN }).open();
        (0..WRITES).for_each(|i| machine.write_only(i, 5000 + i));
        machine.memory("dirty records").0
    };
    let (in_a_run, scattered) = (charged(1), charged(8));
    assert!(in_a_run >= 3 * 64 * WRITES, "{in_a_run}: the meaning of an LBN, the new blocks of the epoch, and the pending block");
    assert!(scattered >= in_a_run + 100 * WRITES, "{scattered}, and in a run {in_a_run}");
}

/// While a checkpoint is under way, writers may not make more live records than twice their share.
#[test]
fn writers_wait_for_a_checkpoint_that_falls_behind() {
    let mut volume = Volume::of(256 * MIB);
    volume.memory_bytes = 2 * MIB;
    let mut machine = volume.open();
    machine.withholds = Some("Superblock");
    let lbn_of = |n: u64| n * 7919 % 40_000;
    let mut written = 0;
    while machine.try_write_only(lbn_of(written), 1000 + written) {
        written += 1;
        if written % 64 == 0 {
            machine.flush();
        }
        assert!(written < 100_000, "no write was held back: {:?}", machine.live_records());
    }
    let (live, share) = machine.live_records();
    assert!(live > 2 * share && live < 2 * share + share / 8, "{live} bytes of live records for {share}");
    machine.release();
    assert!(machine.live_records().0 < live * 3 / 4, "those from before the checkpoint are gone: {:?}", machine.live_records());
    machine.write(50_000, 7);
    assert!(machine.live_records().0 < share, "and another one has come: {:?}", machine.live_records());
    let kept = [0, 1, written - 1, written].map(|n| machine.read(lbn_of(n)));
    assert_eq!(kept, [0, 1, written - 1, written].map(|n| Some(1000 + n)));
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}
