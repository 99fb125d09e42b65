//! The reads of a check, and its findings where the log cannot be read.

use super::volume::{MIB, Volume};
use onefold_engine::check::{Cause, CheckSettings, Finding};
use onefold_engine::format::{Kind, LogTail, MapEntry, Places, Record, UnitHeader, UnitKind, UnitWriter};
use onefold_engine::units::{Epoch, Lbn, Pbn};

/// Pages of a table lie side by side: one read takes as many as the memory allows.
#[test]
fn pages_are_read_many_at_a_time() {
    for (memory_bytes, longest) in [(64 * MIB, 1 << 20), (0, 128 << 10)] {
        let mut volume = Volume::new(2560 * MIB);
        assert_eq!(volume.checked_with(CheckSettings { memory_bytes, data: false }).0, []);
        assert_eq!(volume.medium.longest_read, longest);
    }
}

/// The missing links may be in the log. So the cause is damage, although a crash, too, may have left counts that are too high.
#[test]
fn counts_that_are_too_high_are_damage_where_the_log_cannot_be_read() {
    let place = Pbn(3000);
    let mut volume = Volume::new(36 * MIB);
    volume.store(5, Kind::Fingerprint);
    volume.add_refs(5, 3);
    volume.change_superblock(|s| {
        (s.clean, s.garbage_possible) = (false, true);
        s.log_tail = Some(LogTail::of_new_log(0, vec![Places { first: place, blocks: 1 }]));
        s.set_log_live(true);
    });
    let garbage = |cause| Finding::Garbage { blocks: 1, excess: 3, cause };
    let settings = || CheckSettings { memory_bytes: MIB, data: false };
    assert_eq!(volume.checked_with(settings()).0, [garbage(Cause::Crash)]);
    let at = volume.superblock.geometry.block_at(place);
    volume.medium.make_unreadable(at);
    assert_eq!(volume.checked_with(settings()).0, [Finding::UnreadableBlock { pbn: place }, garbage(Cause::Damage)]);
}

/// An opening would refuse this log, so no record of it is applied.
#[test]
fn a_log_that_names_what_the_volume_does_not_have_is_damage() {
    let place = Pbn(3000);
    let mut volume = Volume::new(36 * MIB);
    let blocks = volume.superblock.geometry.data_blocks;
    volume.store(5, Kind::Fingerprint);
    volume.change_superblock(|s| {
        (s.clean, s.incarnation, s.last_epoch) = (false, 1, Epoch(7));
        s.log_tail = Some(LogTail { epoch: Epoch(7), ..LogTail::of_new_log(1, vec![Places { first: place, blocks: 3 }]) });
        s.set_log_live(true);
    });
    let mut found_with = |pbn: u64, places: Pbn| {
        let (kind, incarnation, sequence, epoch) = (UnitKind::Log, 1, 1, Epoch(8));
        let header = UnitHeader { kind, incarnation, sequence, epoch, unit: 0, units: 1, flushed_upto: 0, content_flushed: false };
        let mut writer = UnitWriter::new(vec![Places { first: places, blocks: 3 }]);
        let to = MapEntry::Block { pbn: Pbn(pbn), slot: 0 };
        assert_eq!(writer.push(Record::Link { lbn: Lbn(1), to, old: None }), None);
        let at = volume.superblock.geometry.block_at(place);
        let _ = writer.seal(&volume.superblock.authenticator(), &header, place, volume.medium.block(at));
        let (findings, report) = volume.checked_with(CheckSettings { memory_bytes: MIB, data: false });
        (findings, report.counts.mapped)
    };
    assert_eq!(found_with(5, place + 1), (vec![], 1));
    assert_eq!(found_with(blocks, place + 1), (vec![Finding::LogUnitOutOfRange { sequence: 1 }], 0));
    // The unit's own block is named as the place of a later one.
    assert_eq!(found_with(5, place), (vec![Finding::LogPlaceTwice { pbn: place }], 0));
}
