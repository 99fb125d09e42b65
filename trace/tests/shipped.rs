//! The traces that come with the project, compared with the totals that their recorder computed: `data/traces/NAME.json`.

mod common;

use onefold_trace::info::{Info, Part, Phase};
use onefold_trace::source::ReadOptions;
use onefold_trace::text::detect::FormName;
use onefold_trace::transfer::{export, import};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    common::data("traces")
}

fn names() -> Vec<String> {
    common::names(&folder())
}

fn info(name: &str) -> Info {
    common::info(&folder(), name)
}

/// Returns the share of duplicates when zeros count as a content like any other.
#[allow(clippy::cast_precision_loss)]
fn percent_with_zeros(phase: &Phase, duplicates: u64) -> f64 {
    let counts = &phase.part.counts;
    (duplicates + counts.zeros_again) as f64 * 100.0 / counts.blocks_written.max(1) as f64
}

#[allow(clippy::cast_precision_loss)]
fn compare(name: &str, findings: &mut Vec<String>) {
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(folder().join(format!("{name}.json"))).expect("it is there")).expect("JSON");
    let info = info(name);
    let phases = expected["phases"].as_array().expect("phases");
    assert_eq!(phases.len(), info.phases.len(), "{name}: phases");
    let (kinds, ours) = (expected_by_name(&expected, "kinds"), ours_by_name(&info.streams));
    if kinds != ours {
        findings.push(format!("{name}: kinds are {kinds:?}, ours {ours:?}"));
    }
    // The JSON lists only the processes that wrote most in a phase.
    let ours = ours_by_name(&info.processes);
    for (process, blocks) in expected_by_name(&expected, "who").into_iter().filter(|(process, blocks)| ours.get(process) < Some(blocks)) {
        findings.push(format!("{name}: {process} wrote {blocks}, ours {:?}", ours.get(&process)));
    }
    for (expected, phase) in phases.iter().zip(&info.phases) {
        let counts = &phase.part.counts;
        let mut agree = |what: &str, ours: u64| {
            if expected[what].as_u64() != Some(ours) {
                findings.push(format!("{name}, {}: {what} is {}, ours {ours}", phase.part.name, expected[what]));
            }
        };
        agree("write_4k", counts.blocks_written);
        agree("flush", counts.flushes);
        agree("read_4k", counts.blocks_read);
        agree("discard_4k", counts.blocks_discarded + counts.blocks_zeroed);
        agree("median_4k_between_flushes", phase.blocks_between_flushes_median.unwrap_or(0));
        let mut near = |what: &str, ours: f64| {
            let expected = expected[what].as_f64().expect("a share");
            if (expected - ours).abs() > 0.051 {
                findings.push(format!("{name}, {}: {what} is {expected}, ours {ours:.2}", phase.part.name));
            }
        };
        near("dup_ever_pct", percent_with_zeros(phase, counts.duplicates_ever));
        near("dup_live_pct", percent_with_zeros(phase, counts.duplicates_live));
        near("zero_pct", counts.zeros as f64 * 100.0 / counts.blocks_written.max(1) as f64);
        for part in phase.streams.iter().filter(|part| part.counts.blocks_written > 0) {
            let kind = &expected["kinds"][&*part.name];
            let (ours, share) = (&part.counts, kind["dup_ever_pct"].as_f64().unwrap_or(-1.0));
            let percent = (ours.duplicates_ever + ours.zeros_again) as f64 * 100.0 / ours.blocks_written as f64;
            if kind["n"].as_u64() != Some(ours.blocks_written) || (share - percent).abs() > 0.051 {
                findings.push(format!("{name}, {}, {}: {kind}, ours {ours:?}", phase.part.name, part.name));
            }
        }
    }
}

/// Returns the blocks written by each name over all phases, according to the JSON.
fn expected_by_name(expected: &Value, group: &str) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    for phase in expected["phases"].as_array().expect("phases") {
        for (name, counts) in phase[group].as_object().expect("names") {
            *names.entry(name.clone()).or_default() += counts["n"].as_u64().expect("a number");
        }
    }
    names
}

fn ours_by_name(parts: &[Part]) -> BTreeMap<String, u64> {
    let written = parts.iter().filter(|part| part.counts.blocks_written > 0);
    written.map(|part| (part.name.to_string(), part.counts.blocks_written)).collect()
}

#[test]
fn totals_agree() {
    let names = names();
    assert_eq!(names.len(), 24);
    let mut findings = Vec::new();
    for name in &names {
        compare(name, &mut findings);
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// Returns the decompressed text of a trace.
fn text(path: &Path) -> Vec<u8> {
    let mut decoder = zstd::Decoder::new(std::fs::File::open(path).expect("it opens")).expect("zstd");
    decoder.window_log_max(27).expect("the window is allowed");
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut decoder, &mut text).expect("it is whole");
    text
}

#[test]
fn they_survive_import_and_export() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let mut report = |malformed: &onefold_trace::text::Malformed| panic!("{malformed}");
    for name in ["04_browse_firefox", "05_vehicle", "06_hadoop_grep", "10_phone_mix"] {
        let (from, into) = (folder().join(format!("{name}.tsv.zst")), place.path().join(name));
        let out = place.path().join(format!("{name}.tsv.zst"));
        import(&from, &into, &ReadOptions::default(), &mut report).expect("it is imported");
        export(&into, FormName::Recorded, &out, false, &ReadOptions::default(), &mut report).expect("it is exported");
        assert!(text(&out) == text(&from), "{name} changed in a folder");
    }
}
