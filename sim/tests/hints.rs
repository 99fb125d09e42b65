//! The evaluation of Using Hints at a small size: what the rival does with hints, and the page.

use onefold_engine::interface::Policy;
use onefold_engine::settings::Persistence;
use onefold_engine::units::Bytes;
use onefold_sim::laboratory::papers::pages::hints::figures::pairs;
use onefold_sim::laboratory::papers::pages::hints::page::page;
use onefold_sim::laboratory::papers::pages::hints::rows::rows;
use onefold_sim::laboratory::papers::results::Results;
use onefold_sim::laboratory::papers::studies::hints::cases::{Hint, Load};
use onefold_sim::laboratory::papers::studies::hints::runs::{MODELS, run};
use onefold_sim::laboratory::papers::verdict::{RowResult, Tally};
use onefold_sim::laboratory::replay::report::Report;
use onefold_sim::laboratory::replay::run::{Plan, replay_on};
use onefold_sim::laboratory::replay::scheme::{Scheme, shadow_with_cache};
use onefold_sim::laboratory::replay::streams::Hinting;
use std::convert::Infallible;

const WRITES: u64 = 8192;
/// Memory for four leaves of metadata.
const CACHE: Bytes = Bytes(16_384);

/// Replays a load on the rival, which has little memory for its metadata.
fn on_rival(load: Load, hinting: Hinting) -> Report {
    let made = load.made(WRITES, true);
    let plan = Plan { scheme: Scheme::Shadow, hinting, is_copy: true, verify: true, ..Plan::default() };
    let ready = shadow_with_cache(Persistence::Weak, made.blocks(), plan.memory_bytes, CACHE);
    replay_on(ready, "hints", made.records().map(Ok::<_, Infallible>), &plan).unwrap_or_else(|error| panic!("{error}"))
}

fn fact(report: &Report, name: &str) -> u64 {
    *report.facts.get(name).unwrap_or_else(|| panic!("no fact {name}: {:?}", report.facts))
}

#[test]
fn a_nodedup_write_of_the_rival_makes_no_index_entry_and_looks_nothing_up_there() {
    let apart = Policy::DEFAULT.apart();
    let (off, on) = (on_rival(Load::Dd, Hinting::default()), on_rival(Load::Dd, Hinting { data: apart, ..Hinting::default() }));
    let index = ["look-ups in the hash index", "blocks without a hash", "pages written: tree fingerprints"];
    let counts = |report: &Report| index.map(|name| fact(report, name));
    let [looked_up, without, written] = counts(&off);
    assert!((looked_up, without) == (WRITES, 0) && written > 0, "{:?}", off.facts);
    assert_eq!(counts(&on), [0, WRITES, 0], "{:?}", on.facts);
    assert!(fact(&off, "look-ups in the hash index that read the medium") > WRITES / 2, "the index does not fit its cache");
    assert!(on.measured.table_read_units < off.measured.table_read_units / 10, "the map is looked up, in sequence");
    // What stays apart has no duplicates, and takes a block each time.
    let both = Hinting { metadata: apart, data: apart, ..Hinting::default() };
    let server = on_rival(Load::FileServer(4), both);
    assert_eq!((fact(&server, "new blocks"), fact(&server, "duplicates")), (WRITES, 0));
}

#[test]
fn a_prefetched_entry_of_the_rival_is_found_without_reading_the_medium() {
    let reads = Policy::DEFAULT.prefetched();
    let (off, on) = (on_rival(Load::Copy(1), Hinting::default()), on_rival(Load::Copy(1), Hinting { reads, ..Hinting::default() }));
    let (file, copied) = (WRITES / 4, WRITES / 2);
    for report in [&off, &on] {
        assert_eq!((fact(report, "new blocks"), fact(report, "duplicates")), (file, copied), "a hint changes no content");
    }
    assert_eq!((fact(&off, "hashes found prefetched"), fact(&off, "look-ups in the hash index")), (0, file + copied));
    assert_eq!((fact(&on, "hashes found prefetched"), fact(&on, "look-ups in the hash index")), (copied, file));
    let index_read = |report: &Report| fact(report, "look-ups in the hash index that read the medium");
    assert!(index_read(&off) > index_read(&on) + copied / 2, "{} and {}", index_read(&off), index_read(&on));
    assert!(on.measured.virtual_seconds <= off.measured.virtual_seconds);
}

#[test]
fn the_page_has_every_figure_and_none_without_its_subject() {
    let (hints, failures) = run(WRITES / 4, 2);
    assert!(failures.is_empty(), "{failures:?}");
    let mut results = Results { hints, ..Results::default() };
    let html = page(&results, Tally::default()).expect("every figure has its replays");
    for figure in ["Figure 3, unique", "Figure 4, unique", "Figure 4, 8:1", "Figure 5, unique", "Figure 5, 4:1", "Table 1"] {
        assert!(html.contains(figure), "{figure} is missing");
    }
    let judged = rows(&results);
    assert_eq!(judged.iter().filter(|row| row.verdict == RowResult::NotMeasured).count(), 1, "Table 1: {judged:#?}");
    for load in Load::ALL {
        assert!(!pairs(&results.hints, load, MODELS[1]).expect("they were replayed").is_empty());
    }

    results.hints.retain(|run| run.figure != 4 || run.hint == Hint::Off);
    let error = page(&results, Tally::default()).unwrap_err();
    assert!(error.contains("Figure 4 has no subject") && error.contains("hint all"), "{error}");
    results.hints.clear();
    let html = page(&results, Tally::default()).expect("nothing was replayed");
    assert_eq!(html.matches("Not replayed in this run").count(), Load::ALL.len());
    assert!(rows(&results).iter().all(|row| row.verdict == RowResult::NotMeasured));
}
