//! An opening whose log has more records than fit into their share of memory.

use super::volume::{MIB, Volume};
use onefold_engine::format::{MapEntry, Record, UnitKind};
use onefold_engine::interface::Notice;
use onefold_engine::stats::Progress;
use onefold_engine::units::{Epoch, Lbn, Pbn};

/// A volume with 301 units, which link the same hundred LBNs to one block and the other in turn.
fn volume() -> Volume {
    let mut volume = Volume::new();
    volume.store(20);
    // Each link replaces the one before.
    let old = |sequence: u64| (sequence > 1).then(|| Pbn(19 + (sequence - 1) % 2));
    let records = |sequence: u64| {
        let to = MapEntry::Block { pbn: Pbn(19 + sequence % 2), slot: 0 };
        (0..100).map(|i| Record::Link { lbn: Lbn(1000 + i), to, old: old(sequence) }).collect::<Vec<_>>()
    };
    (1..=301).for_each(|sequence| volume.unit(sequence, records(sequence)));
    volume
}

fn assert_right(machine: &mut super::machine::Machine) {
    assert_eq!([999, 1000, 1099].map(|lbn| machine.read(lbn)), [Some(0), Some(20), Some(20)]);
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}

/// Records enter pages while the log is read, so that memory is bounded. A checkpoint follows at once, even if no client writes.
#[test]
fn records_beyond_their_share_are_put_on_pages_though_nobody_writes() {
    let mut volume = volume();
    (volume.memory_bytes, volume.read_ms) = (2 * MIB, 10);
    let log_tail = volume.newest_log_tail().sequence;
    let mut machine = volume.open();
    let (_, used, peak, share) = machine.engine.stats().memory.into_iter().find(|part| part.0 == "log records").expect("it is there");
    assert!(peak > share && peak < share + share / 4, "{peak} of {share}: as much as was being read");
    assert!(used < share / 2, "{used} of {share}");
    let opened = machine.done.iter().position(|what| what == "Superblock");
    let page = machine.done.iter().position(|what| what == "Map");
    assert!(page.is_some() && page < opened, "a page is written before the volume says that it is open: {:?}", machine.done);
    assert_eq!((log_tail, machine.volume.newest_log_tail().sequence > 300), (1, true));
    let mut seen = machine.notices.iter().filter_map(|notice| if let Notice::Opening(progress) = notice { Some(progress) } else { None });
    let Progress { records, records_on_pages, .. } = *seen.next_back().expect("it took seconds");
    assert!(records > 20_000 && records_on_pages > 15_000, "{records_on_pages} of {records}");
    assert_right(&mut machine);
}

/// Wherever the opening is cut off, another one finds the same.
#[test]
fn a_crash_while_records_enter_pages_changes_nothing() {
    let writes = |volume: &Volume| volume.clone().open().done.iter().take_while(|what| *what != "Superblock").count();
    let volume = volume();
    let mut small = volume.clone();
    small.memory_bytes = 2 * MIB;
    let steps = writes(&small);
    assert!(steps > 4 && writes(&volume) <= 1, "{steps} before the superblock, and {} where there is memory", writes(&volume));
    for stop in 0..steps {
        let done = std::cell::Cell::new(0);
        let cut = small.clone().open_until(move |_| done.replace(done.get() + 1) == stop);
        assert!(cut.stopped, "{stop} of {steps}");
        let volume = cut.crash();
        for memory_bytes in [2 * MIB, 64 * MIB] {
            let mut again = volume.clone();
            again.memory_bytes = memory_bytes;
            assert_right(&mut again.open());
        }
    }
}

/// A read-only opening writes no pages, so all live records have to stay in memory.
#[test]
fn a_read_only_opening_keeps_all_records() {
    let mut small = volume();
    small.memory_bytes = 2 * MIB;
    small.read_only = true;
    let mut machine = small.open();
    assert_eq!(machine.done, ["flush"]);
    let (live, share) = machine.live_records();
    assert!(live > share, "{live} of {share}");
    assert_right(&mut machine);
}

/// A compacted unit may end within an epoch: no page may have the tag of that epoch before the next unit was read.
#[test]
fn no_page_holds_part_of_an_epoch_of_compacted_units() {
    const UNITS: u64 = 200;
    const LINKS: u64 = 240;
    let mut volume = Volume::of(256 * MIB);
    volume.memory_bytes = 2 * MIB;
    for i in 0..UNITS {
        volume.store(2000 + i);
        let to = MapEntry::Block { pbn: Pbn(2000 + i), slot: 0 };
        let records = (0..LINKS).map(|n| Record::Link { lbn: Lbn(n * UNITS + i), to, old: None }).collect();
        volume.unit_naming(1 + i, Vec::new(), records, |header| {
            (header.kind, header.sequence, header.epoch, header.flushed_upto) = (UnitKind::Compacted, 500, Epoch(7), 0);
            (header.unit, header.units) = (u32::try_from(i).expect("few"), u32::try_from(UNITS).expect("few"));
        });
    }
    volume.compacted(500, Epoch(7), UNITS);
    let mut machine = volume.open();
    let lbns = [0, 1, UNITS - 1, UNITS, 70 * UNITS + 64, 239 * UNITS + 63, LINKS * UNITS - 1];
    assert_eq!(lbns.map(|lbn| machine.read(lbn)), lbns.map(|lbn| Some(2000 + lbn % UNITS)));
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}
