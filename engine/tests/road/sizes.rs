//! The log's epochs, counted by what could ride in them; and carriers of one slot.

use crate::carriers::{served, settings, soft, written};
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::stats::{EpochCounts, LogEpochs};
use std::collections::BTreeMap;

#[test]
fn epochs_are_counted_by_what_could_ride_in_them() {
    let mut m = served(blank(32 << 20, None));
    let mut sync = |lbn: u64, content: &[u8]| {
        m.write(4096 * lbn, content);
        m.flush();
    };
    sync(0, &soft(1, 3));
    sync(10, &pattern(2, 4096));
    sync(20, &soft(1, 2));
    sync(100, &[soft(3, 65), pattern(4, 4096)].concat());
    m.flush();
    let found = m.engine.ledger().log_epochs;
    let riding = EpochCounts { epochs: 1, new_blocks: 3, riders: 3, plain: 0, carriers: 1, flushes: 1, by_fua: 0 };
    let bare = EpochCounts { epochs: 2, new_blocks: 1, riders: 0, plain: 2, carriers: 0, flushes: 2, by_fua: 0 };
    let large = EpochCounts { epochs: 1, new_blocks: 66, riders: 0, plain: 1, carriers: 0, flushes: 2, by_fua: 0 };
    assert_eq!(found, LogEpochs { riding, bare, large, removals: EpochCounts::default() });
}

#[test]
fn of_one_slot_a_carrier_the_others_go_to_their_own_blocks() {
    let mut m = Machine::open(blank(32 << 20, None), settings().with_knobs(|knobs| knobs.carrier_slots_max = 1));
    m.read(0, 512);
    (m.flushes, m.written) = (0, BTreeMap::new());
    m.write(0, &soft(1, 3));
    m.flush();
    assert_eq!(written(&mut m), (2, 1, 1));
    assert_eq!(m.read(0, 3 * 4096), soft(1, 3));
}

/// A block that no LBN means when its epoch is sealed has no record, and does not make the epoch a large one.
#[test]
fn what_was_overwritten_in_its_epoch_is_none_of_its_new_blocks() {
    for keeps_journal in [false, true] {
        let mut m = Machine::open(blank(32 << 20, None), settings().with_facts(|facts| facts.keeps_journal = keeps_journal));
        m.read(0, 512);
        (m.flushes, m.written) = (0, BTreeMap::new());
        let overwritten = pattern(1, 4096);
        m.write(0, &overwritten);
        m.write(0, &pattern(2, 4096 * 64));
        m.flush();
        assert_eq!(written(&mut m), (65, 1, 1), "a large epoch has two flushes");
        m.write(4096 * 100, &overwritten);
        m.flush();
        assert_eq!(written(&mut m), (1, 1, 1), "nobody links to it");
        assert_eq!(m.read(4096 * 100, 4096), overwritten);
    }
}
