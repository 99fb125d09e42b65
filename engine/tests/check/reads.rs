//! The reads of a check, and its findings where the log cannot be read.

use super::volume::{MIB, Volume};
use onefold_engine::check::{Cause, CheckSettings, Finding};
use onefold_engine::format::{Kind, LogTail, Places};
use onefold_engine::units::Pbn;

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
