//! `onefold-lab replay` and `report`, and the `--help` of all verbs.

mod common;

use common::home::{Home, shipped};
use onefold_trace::cut::{Cut, Cutter};
use onefold_trace::source::{ReadOptions, Source};
use onefold_trace::transfer;
use serde_json::Value;
use std::cell::RefCell;
use std::path::Path;

#[test]
fn a_trace_is_replayed_and_counted() {
    let home = Home::new();
    let text = shipped("05_vehicle.tsv.zst");
    let ordered = home.json(&["replay", &text, "--scheme", "ordered", "--verify"]);
    assert_eq!((ordered["version"].as_u64(), ordered["report"].as_str()), (Some(1), Some("trace-replay")));
    assert_eq!((ordered["trace"].as_str(), ordered["phase"].as_str()), (Some("05_vehicle"), Some("run")));
    assert_eq!((ordered["client_units"].as_u64(), ordered["persistence"].as_str()), (Some(3731), Some("weak")));
    let ratio = |report: &Value| report["write_ratio"].as_f64().unwrap();
    assert!(ratio(&ordered) < 0.85 * 1.03, "{}", ratio(&ordered));
    let none = home.json(&["replay", &text, "--scheme", "none", "--device-model", "tablet"]);
    assert!((ratio(&none) - 1.0).abs() < 1e-9, "{}", ratio(&none));
    let filtered = home.json(&["replay", &text, "--scheme", "ordered", "--min-run", "1000000"]);
    assert!(ratio(&filtered) > ratio(&ordered), "nothing is linked to");
    let extents = |report: &Value| report["extents"].as_u64();
    assert!(extents(&none).is_none() && extents(&filtered) < extents(&ordered), "{:?}, {:?}", extents(&filtered), extents(&ordered));
    let table = home.expect(0, &["replay", &text, "--persistence", "strong", "--outstanding", "1"]).0;
    assert!(table.contains("ordered-anticipate, strong (1 at a time)") && table.contains("write ratio"), "{table}");

    let complaint = |code, words: &[&str], wanted| home.complaint(code, words, wanted);
    complaint(2, &["replay"], "<TRACE>");
    complaint(2, &["replay", &text, "--scheme", "best"], "ordered-anticipate");
    complaint(2, &["replay", &text, "--device-model", "floppy"], "850pro");
    complaint(2, &["replay", &text, "--outstanding", "0"], "--outstanding");
    complaint(3, &["replay", "none"], "none");
    complaint(6, &["replay", &text, "--blocks", "100"], "request 4: a Discard was refused");
}

/// An imported trace is replayed as its text is: a folder, whole or cut, knows the size of the traced device.
#[test]
fn an_imported_trace_knows_its_device() {
    let home = Home::new();
    let text = shipped("05_vehicle.tsv.zst");
    let (how, whole, part) = (ReadOptions::default(), home.path("vehicle"), home.path("part"));
    transfer::import(Path::new(&text), Path::new(&whole), &how, &mut |line| panic!("{line}")).unwrap();
    let cutter = RefCell::new(Cutter::new(Cut { time_ns: Some(0..50_000_000_000), ..Cut::default() }));
    let mut take = |source: &Source, record| cutter.borrow_mut().piece(record, source.unit());
    let header = |header| cutter.borrow().header(header);
    transfer::take_over(Path::new(&text), Path::new(&part), &how, &mut |line| panic!("{line}"), &mut take, &header).unwrap();

    let of_text = home.json(&["replay", &text, "--scheme", "ordered"]);
    assert_eq!(home.json(&["replay", "vehicle", "--scheme", "ordered"])["device_units"], of_text["device_units"]);
    assert!(home.json(&["replay", "part", "--scheme", "none"])["whole"]["client_units"].as_u64() > Some(100));
}

#[test]
fn malformed_lines_are_counted_and_more_than_one_in_a_hundred_refused() {
    let home = Home::new();
    let good: String = (0..198).map(|n| format!("{} 7 a b {} 8 W 8 0 {:032x}\n", 1000 + n, n * 8, n % 7 + 1)).collect();
    home.write("few", format!("{good}nonsense\nnonsense\n"));
    home.write("many", format!("{}nonsense\nnonsense\n", good.split_inclusive('\n').skip(1).collect::<String>()));
    let replay = ["replay", "many", "--blocks", "100000"];
    home.complaint(6, &replay, "2 of 199 lines of many");
    assert_eq!(home.json(&[&replay[..], &["--lenient"]].concat())["malformed_lines"].as_u64(), Some(2));
    assert_eq!(home.json(&["replay", "few", "--blocks", "100000"])["malformed_lines"].as_u64(), Some(2));
}

#[test]
fn a_report_of_one_scheme_is_written_and_judged() {
    let home = Home::new();
    let traces = Path::new(&shipped("")).display().to_string();
    let words = ["report", "--out", "report", "--traces", &traces, "--trace", "05_vehicle", "--scheme", "ordered", "--made-writes", "0"];
    let judged = home.json(&words);
    assert_eq!((judged["report"].as_str(), judged["page"].as_str()), (Some("papers"), Some("report/index.html")));
    let targets = judged["targets"].as_array().unwrap();
    assert!(
        targets.iter().any(|target| target["name"] == "ordered-weak-05_vehicle") && targets.iter().all(|target| target["holds"] == true)
    );
    assert!(String::from_utf8(home.read("report/index.html")).unwrap().contains("Figure 2 (A)"));
    home.complaint(2, &["report", "--out", "report", "--trace", "99_moon"], "99_moon");
    home.complaint(2, &["report", "--recorded", "nowhere"], "./dev workloads record");
    home.complaint(2, &["report", "--jobs", "0"], "--jobs");
    home.complaint(2, &["report", "--made-writes", "few"], "'few' is no number of them");
    home.complaint(2, &["report", "--live", "nowhere"], "./dev bench smartdedup-fio");
    home.complaint(2, &["report", "--loads", "nowhere"], "data/loads");
    home.complaint(2, &["report", "--live-loads", "nowhere"], "./dev bench load-memory");
    home.complaint(2, &["report", "--live-figures", "nowhere"], "./dev bench live-figures");
    home.complaint(2, &["report", "--stored", "nowhere"], "results.json");
    home.complaint(2, &["report", "--figures", "nowhere"], "docs/figures.tsv");
    home.complaint(2, &["report", "--no-replay"], "--stored");
    let again = home.json(&["report", "--stored", "report/results.json", "--no-replay", "--out", "again"]);
    let verdicts = |report: &serde_json::Value| {
        let of = |target: &serde_json::Value| (target["name"].clone(), target["source"].clone(), target["holds"].clone());
        report["targets"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&again), verdicts(&judged), "judged again as they are stored");
    assert!(String::from_utf8(home.read("report/smartdedup.html")).unwrap().contains("Figure 8"));
}

#[test]
fn help_names_every_verb_scheme_and_form() {
    let home = Home::new();
    let words = |help: &str| help.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect::<Vec<_>>();
    let help = home.says(0, &["--help"]);
    for verb in ["attach", "flash", "replay", "report", "scan", "synth", "trace", "2"] {
        assert!(words(&help).contains(&verb.to_owned()), "{verb}: {help}");
    }
    assert!(!words(&help).contains(&"detach".to_owned()), "the other verbs of `onefold` are not shown: {help}");
    assert!(home.says(0, &["attach", "--help"]).contains("--device-model"));
    let help = home.says(0, &["replay", "--help"]);
    let schemes = ["none", "journal", "shadow", "ordered-only", "ordered", "ordered-anticipate", "log", "carried", "packed"];
    for name in schemes.iter().chain(&["fiu-homes", "blkparse"]) {
        assert!(words(&help).contains(&(*name).to_owned()), "{name}: {help}");
    }
    let default: Vec<&str> = help.lines().filter(|line| line.ends_with("the default of a volume")).collect();
    assert!(default.len() == 1 && default[0].trim_start().starts_with("packed"), "{help}");
}
