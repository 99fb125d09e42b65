//! A trace that is small enough to derive every count by hand.

use crate::{on, records, trace};
use onefold_engine::interface::Class;
use onefold_engine::settings::Persistence;
use onefold_sim::laboratory::replay::figures::{Duplication, Figures};
use onefold_sim::laboratory::replay::report::Report;
use onefold_sim::laboratory::replay::run::{Plan, replay};
use onefold_sim::laboratory::replay::scheme::Scheme;
use onefold_sim::machine::account::Epochs;
use onefold_trace::info::Duplication as Shares;

/// The part before the first mark must not count for the measured phase.
const TRACE: &str = "\
0 W 100 1 W 9
1 M 0 0 run
10 W 0 4 W a b c d
20 F 0 0
30 W 4 1 WF a
31 F 0 0
40 W 5 1 W 620f0b67a91f7f74
50 F 0 0
60 W 0 1 W a
70 F 0 0
80 W 1 1 W e
90 F 0 0
100 W 6 1 W b
110 F 0 0
120 R 0 8
130 M 0 0 umount
140 W 7 1 W f
";

fn report(plan: &Plan) -> Report {
    let trace = trace(TRACE);
    replay("by hand", records(&trace), 1000, plan).unwrap_or_else(|error| panic!("{error}"))
}

fn class(f: &Figures) -> [u64; Class::ALL.len()] {
    ["data", "refs", "map", "fingerprints", "written", "superblock", "log"].map(|class| f.device_units[class])
}

#[test]
fn every_count_is_the_one_derived_by_hand() {
    let report = report(&Plan { scheme: Scheme::Ordered, ..on("instant") });
    let f = &report.measured;
    assert_eq!(report.phase, "run");
    assert_eq!((f.client_units, f.client_writes, f.client_flushes, f.client_fua, f.client_reads), (9, 6, 5, 1, 1));
    // The flush after a block is rewritten with its own content commits nothing.
    assert_eq!(f.epochs, Some(Epochs { flush: 4, fua: 1, ..Epochs::default() }));
    // The data are a b c d e. Refs are written with each epoch that links a block, map pages with each epoch. After the delay, the page
    // with the five fingerprints is written, and the page with the bit that says that this page has been written; the phase before the mark
    // needed it, too, but there was no flush since.
    assert_eq!(class(f), [5, 4, 5, 1, 1, 0, 0]);
    assert_eq!(f.device_units_all, 16);
    // There are two an epoch, but one for that of zeros alone: nothing has to be durable before its link.
    assert_eq!(f.device_flushes, 9);
    // a occurs twice; b recurs when no block holds it any more.
    let ninth = |n: f64| n / 9.0;
    assert_eq!(
        f.duplication,
        Duplication { shares: Shares { live: ninth(2.0), ever: ninth(3.0), zero: ninth(1.0) }, found: Some(ninth(4.0)) }
    );
    assert!((f.ideal - ninth(6.0)).abs() < 1e-12 && (f.write_ratio - ninth(16.0)).abs() < 1e-12);
    assert!((f.efficiency.expect("duplicates") - (9.0 - 16.0) / 3.0).abs() < 1e-12);
    // There are four new blocks, then four epochs of at least a unit.
    assert_eq!((f.bound, f.bound_epochs), (ninth(8.0), 5));
    assert_eq!(f.flush_ratio, Some(9.0 / 5.0));
    assert_eq!(f.metadata_per_epoch.as_ref().map(|m| m["map"]), Some(1.0));
    assert_eq!(f.virtual_seconds, 0.0, "not a millisecond");
    let s = report.space;
    assert_eq!((s.client_blocks, s.client_contents), (8, 6));
    assert_eq!((s.unique, s.shared, s.kept), (Some(5), Some(1), Some(0)));
    assert_eq!(report.whole.client_units, 11);
}

/// With a log there are a unit and a flush for each epoch, and none for the flush after a rewrite of what a block held already.
#[test]
fn a_log_pays_one_unit_and_one_flush_an_epoch_and_none_for_nothing() {
    let log = |scheme, lines: &str| {
        let plan = Plan { scheme, ..on("instant") };
        replay("by hand", records(&trace(lines)), 1000, &plan).unwrap_or_else(|error| panic!("{error}")).measured
    };
    let f = log(Scheme::Log, TRACE);
    assert_eq!((class(&f), f.device_flushes), ([5, 0, 0, 0, 0, 0, 5], 5));
    assert_eq!((f.idle_flushes, f.idle_device_flushes, f.metadata_units_all), (1, 0, 5));
    let e = f.log_epochs.expect("it keeps a log");
    assert_eq!((e.riding.epochs, e.bare.epochs, e.large.epochs, e.removals.epochs), (0, 5, 0, 0));
    assert_eq!((e.bare.new_blocks, e.bare.plain, e.bare.flushes), (5, 5, 5));
    // The last block of each write of the journal compresses to half: it is stored in the unit's slot, alone.
    let journal = TRACE.replace("W 0 4 W a b c d", "J 0 4 W a b c d").replace("W 1 1 W e", "J 1 1 W e");
    for scheme in [Scheme::Carried, Scheme::Packed] {
        let f = log(scheme, &journal);
        assert_eq!((class(&f), f.device_flushes), ([3, 0, 0, 0, 0, 0, 5], 5), "{}", scheme.name());
        // Two of the units hold content.
        assert_eq!((f.metadata_units_all, f.metadata_per_unit["log"]), (3, 3.0 / 9.0));
        let e = f.log_epochs.expect("it keeps a log");
        assert_eq!((e.riding.epochs, e.riding.new_blocks, e.riding.riders, e.riding.carriers, e.riding.plain), (2, 5, 2, 2, 0));
        assert_eq!((e.bare.epochs, e.bare.plain, e.riding.flushes + e.bare.flushes), (3, 3, 5));
        assert_eq!(f.bound, 8.0 / 9.0, "two halves do not fit one block");
    }
}

/// Four of 100 new blocks fit a block; the content that reads find in packs is compared.
#[test]
fn sizes_in_the_trace_are_those_of_slots() {
    let lines: Vec<String> = (0..100).map(|i| format!("{i} W {i} 1 W {:016x}\n", i + 1)).collect();
    let mut trace = trace(&format!("0 M 0 0 run\n{}200 F 0 0\n300 W 200 1 W {:016x}\n301 F 0 0\n400 R 0 100\n", lines.concat(), 7777));
    trace.iter_mut().for_each(|record| record.blocks.iter_mut().for_each(|block| block.compressed = Some(940)));
    let of = |scheme| {
        let plan = Plan { scheme, ..on("instant") };
        replay("by hand", records(&trace), 1000, &plan).unwrap_or_else(|error| panic!("{error}")).measured
    };
    let packed = of(Scheme::Packed);
    let e = packed.log_epochs.expect("it keeps a log");
    assert_eq!((e.large.epochs, e.large.new_blocks, e.packs, e.packed_blocks, e.large.flushes), (1, 100, 25, 100, 2));
    assert_eq!((e.riding.epochs, e.riding.carriers), (1, 1));
    assert_eq!(packed.device_units_all, 25 + 1 + 1);
    assert_eq!(packed.bound, 26.0 / 101.0);
    let carried = of(Scheme::Carried);
    let e = carried.log_epochs.expect("it keeps a log");
    assert_eq!((carried.device_units["data"], e.packs, e.large.epochs, e.riding.carriers), (100, 0, 1, 1));
}

#[test]
fn no_deduplication_writes_what_the_client_writes() {
    let report = report(&Plan { scheme: Scheme::None, ..on("instant") });
    assert_eq!((class(&report.measured), report.measured.device_flushes), ([9, 0, 0, 0, 0, 0, 0], 6));
    assert_eq!((report.measured.write_ratio, report.measured.efficiency), (1.0, Some(0.0)));
}

#[test]
fn every_scheme_runs_it_weak_and_strong_and_the_same_twice() {
    for scheme in Scheme::ALL {
        for persistence in [Persistence::Weak, Persistence::Strong] {
            let plan = Plan { scheme, persistence, ..on("ufs") };
            let first = report(&plan);
            assert_eq!(first, report(&plan), "{} {persistence:?}", scheme.name());
            assert_eq!(first.measured.client_units, 9);
            let shown = first.to_string();
            assert!(shown.contains("write ratio") && shown.contains(scheme.name()), "{shown}");
            let json = serde_json::to_value(&first).expect("it serialises");
            for key in ["trace", "scheme", "persistence", "client_units", "client_flushes", "epochs", "device_units", "device_flushes"] {
                assert!(json.get(key).is_some(), "{key} in {json}");
            }
        }
    }
}

#[test]
fn strong_persistence_makes_an_epoch_of_each_write_that_comes_alone() {
    let strong = report(&Plan { scheme: Scheme::Ordered, persistence: Persistence::Strong, ..on("instant") });
    assert_eq!(strong.measured.epochs, Some(Epochs { fua: 1, strong: 4, ..Epochs::default() }));
    assert_eq!(strong.outstanding, Some(32));
}
