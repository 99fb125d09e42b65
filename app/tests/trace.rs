//! `onefold trace`: the output of each verb, and its exit code.

mod common;

use common::home::{Home, shipped};
use serde_json::Value;

const MD5: &str = "56f11b711d91a065a2b6458eca924523";

#[test]
fn a_shipped_trace_is_imported_counted_cut_and_exported() {
    let home = Home::of(&["trace"]);
    let text = shipped("05_vehicle.tsv.zst");
    let imported = home.json(&["import", &text, "vehicle"]);
    assert_eq!((imported["version"].as_u64(), imported["report"].as_str()), (Some(1), Some("trace-written")));
    let (of_text, of_folder) = (home.json(&["info", &text]), home.json(&["info", "vehicle"]));
    assert_eq!(of_text["total"], of_folder["total"]);
    let run = &of_folder["phases"][2];
    assert_eq!((run["name"].as_str(), run["blocks_written"].as_u64(), run["flushes"].as_u64()), (Some("run"), Some(3731), Some(79)));
    let live = run["duplication"]["live"].as_f64().unwrap();
    assert!((live - 0.236).abs() < 0.0006, "{live}");
    let table = home.expect(0, &["info", "vehicle"]).0;
    assert!(table.contains("8 bytes of md5") && table.contains("umount") && table.contains("jbd2/loop0-8"), "{table}");

    home.expect(0, &["cut", "vehicle", "run", "--phase", "run"]);
    let cut = home.json(&["info", "run"]);
    assert_eq!((cut["total"]["blocks_written"].as_u64(), cut["phases"][0]["begin_ns"].as_u64()), (Some(3731), Some(0)));
    home.expect(0, &["cut", &text, "journal", "--stream", "J", "--time", "..50", "--lbn", "262144+16384"]);
    assert_eq!(
        home.json(&["info", "journal"])["streams"].as_array().unwrap().iter().map(|s| s["name"].as_str()).collect::<Vec<_>>(),
        [Some("J")]
    );

    home.expect(0, &["export", "vehicle", "again.tsv", "--to", "recorded"]);
    let again = home.expect(0, &["export", &text, "-", "--to", "recorded"]).0;
    assert!(home.read("again.tsv") == again.as_bytes() && again.lines().count() == 478, "{}", again.lines().count());
}

#[test]
fn errors_name_what_was_typed_and_what_to_do() {
    let home = Home::of(&["trace"]);
    home.write("good", format!("5 1 x 0 8 W 8 0 {MD5}\n"));
    home.write("bad", format!("5 1 x 0 8 W 8 0 {MD5}\nnonsense\n"));
    home.write("letter", "Dear Sir or Madam,\n");
    let complaint = |code, words: &[&str], wanted| home.complaint(code, words, wanted);
    complaint(3, &["import", "none", "t"], "none: ");
    complaint(3, &["info", "none"], "none: ");
    complaint(6, &["import", "letter", "t"], "--form");
    complaint(6, &["import", "bad", "t"], "bad:2: ");
    complaint(6, &["info", "bad"], "--lenient");
    complaint(2, &["import", "good", "t", "--form", "parquet"], "fiu-homes");
    complaint(2, &["cut", "good", "t"], "--stream");
    complaint(2, &["cut", "good", "t", "--time", "later"], "later");
    complaint(2, &["cut", "good", "t", "--phase", "later"], "no record of good");
    complaint(2, &["export", "good", "t", "--to", "fiu-homes"], "512 bytes");
    assert_eq!(home.names(), ["bad", "good", "letter"], "nothing half-written");

    home.expect(0, &["import", "bad", "t", "--lenient"]);
    complaint(5, &["import", "good", "t"], "t exists already");
    complaint(5, &["export", "t", "good", "--to", "mobile"], "--force");
    home.expect(0, &["export", "t", "good", "--to", "mobile", "--force"]);
    assert_eq!(home.read("good"), format!("0.000000000 W 0 8 1 x {MD5}\n").as_bytes());
    home.write("t/000000.parquet", "not any more");
    complaint(6, &["info", "t"], "000000.parquet");
}

#[cfg(feature = "lab")]
#[test]
fn a_trace_is_replayed_and_counted() {
    let home = Home::of(&["trace"]);
    let text = shipped("05_vehicle.tsv.zst");
    let ordered = home.json(&["replay", &text, "--sim", "--scheme", "ordered", "--verify"]);
    assert_eq!((ordered["version"].as_u64(), ordered["report"].as_str()), (Some(1), Some("trace-replay")));
    assert_eq!((ordered["trace"].as_str(), ordered["phase"].as_str()), (Some("05_vehicle"), Some("run")));
    assert_eq!((ordered["client_units"].as_u64(), ordered["persistence"].as_str()), (Some(3731), Some("weak")));
    let ratio = |report: &Value| report["write_ratio"].as_f64().unwrap();
    assert!(ratio(&ordered) < 0.85 * 1.03, "{}", ratio(&ordered));
    let none = home.json(&["replay", &text, "--sim", "--scheme", "none", "--device-model", "tablet"]);
    assert!((ratio(&none) - 1.0).abs() < 1e-9, "{}", ratio(&none));
    let table = home.expect(0, &["replay", &text, "--sim", "--persistence", "strong", "--outstanding", "1"]).0;
    assert!(table.contains("ordered-anticipate, strong (1 at a time)") && table.contains("write ratio"), "{table}");
    // An imported trace is replayed in the same way: a folder knows the size of a shipped trace's device.
    home.expect(0, &["import", &text, "vehicle"]);
    let of_folder = home.json(&["replay", "vehicle", "--sim", "--scheme", "ordered"]);
    assert_eq!(of_folder["device_units"], ordered["device_units"]);

    let complaint = |code, words: &[&str], wanted| home.complaint(code, words, wanted);
    complaint(2, &["replay", &text], "--sim");
    complaint(2, &["replay", &text, "--sim", "--scheme", "best"], "ordered-anticipate");
    complaint(2, &["replay", &text, "--sim", "--device-model", "floppy"], "850pro");
    complaint(2, &["replay", &text, "--sim", "--outstanding", "0"], "--outstanding");
    complaint(3, &["replay", "none", "--sim"], "none");
    complaint(6, &["replay", &text, "--sim", "--blocks", "100"], "request 4: a Discard was refused");
}

#[test]
fn help_names_the_forms() {
    let home = Home::of(&["trace"]);
    for verb in ["import", "export", "info"] {
        let help = home.expect(0, &[verb, "--help"]).0;
        assert!(help.contains("fiu-homes") && help.contains("blkparse prints"), "{help}");
    }
}
