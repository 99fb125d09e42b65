//! The small recorded traces under `data/traces`: the counts of the client equal those of their recorder, and the engine meets its targets.
//! The large traces are for the benchmarks.

use onefold_engine::interface::Class;
use onefold_sim::laboratory::papers::pages::targets::{ABOVE, OWN_MODEL};
use onefold_sim::laboratory::replay::run::{Plan, replay};
use onefold_sim::laboratory::replay::scheme::Scheme;
use onefold_trace::text::recorded;
use std::path::PathBuf;

const SMALL: [&str; 4] = ["04_browse_firefox", "05_vehicle", "06_hadoop_grep", "10_phone_mix"];

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "data", "traces", name].iter().collect()
}

#[test]
fn small_traces_count_as_their_recorder_did_and_meet_their_targets() {
    for (name, target) in OWN_MODEL.into_iter().filter(|(name, _)| SMALL.contains(name)) {
        let text = std::fs::read_to_string(path(&format!("{name}.json"))).expect("the set is complete");
        let facts: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let blocks = facts["size_4k"].as_u64().expect("a size");
        let records = recorded::open(&path(&format!("{name}.tsv.zst"))).expect("the set is complete");
        let report = replay(name, records, blocks, &Plan { scheme: Scheme::Ordered, ..Plan::default() }).unwrap_or_else(|e| panic!("{e}"));
        let (f, d) = (&report.measured, report.measured.duplication.shares);
        let run = facts["phases"].as_array().and_then(|p| p.iter().find(|p| p["phase"] == "run")).expect("a phase that is measured");
        assert_eq!(f.client_units, run["write_4k"], "{name}");
        // The shares are in percent, with one decimal. There, zeros are content like any other, and the first block of zeros was not a
        // duplicate.
        for (ours, theirs) in [(d.live, "dup_live_pct"), (d.ever, "dup_ever_pct")] {
            let theirs = run[theirs].as_f64().expect("a number");
            assert!(((ours + d.zero) * 100.0 - theirs).abs() < 0.06, "{name}: {ours} and {} against {theirs} %", d.zero);
        }
        assert!(f.write_ratio <= target * ABOVE, "{name}: {} where {target} is the target", f.write_ratio);
        assert!(f.write_ratio > f.bound, "{name}: nothing beats the bound");
        let classes: u64 = f.device_units.values().sum();
        assert_eq!((classes, f.device_units.len()), (f.device_units_all, Class::ALL.len()), "{name}");
    }
}
