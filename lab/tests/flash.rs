//! `onefold-lab flash`: its table, its JSON, and what it says of wrong input.

mod common;

use common::home::{Home, shipped};
use serde_json::Value;

fn count(on: &Value, key: &str) -> u64 {
    on["flash"][key].as_u64().unwrap_or_else(|| panic!("{key} is no count in {on}"))
}

#[test]
fn schemes_are_compared_with_the_bare_flash() {
    let home = Home::new();
    let text = shipped("05_vehicle.tsv.zst");
    let report = home.json(&["flash", &text]);
    assert_eq!((report["version"].as_u64(), report["report"].as_str()), (Some(1), Some("flash")));
    let trace = &report["traces"][0];
    let schemes = trace["schemes"].as_array().unwrap();
    let names: Vec<_> = schemes.iter().map(|on| on["scheme"].as_str().unwrap()).collect();
    assert_eq!(names, ["none", "ordered-anticipate", "packed"]);
    assert_eq!(trace["flash_bytes"].as_u64(), Some(128 << 20), "the working set is smaller than 64 blocks on each plane");
    for on in schemes {
        assert_eq!((on["phase"].as_str(), on["client_units"].as_u64()), (Some("run"), Some(3731)));
        assert_eq!(count(on, "host_pages"), on["device_units"].as_u64().unwrap());
        assert_eq!(count(on, "collections"), on["flash"]["wear"]["erases"].as_u64().unwrap());
        assert_eq!(on["flash"]["wear"]["blocks"].as_u64(), Some(8 * 74), "15 % more than 64 on each plane");
    }
    assert!(count(&schemes[0], "moved_pages") > count(&schemes[2], "moved_pages"));
    assert!(schemes[0]["saved_percent"].is_null());
    let of = |on: &Value, key: &str| on["saved_percent"][key].as_f64().unwrap();
    let by_hand = 100.0 * (1.0 - count(&schemes[2], "collections") as f64 / count(&schemes[0], "collections") as f64);
    assert!((of(&schemes[2], "collections") - by_hand).abs() < 1e-9);
    assert_eq!(report["means"][1]["scheme"].as_str(), Some("packed"));
    assert_eq!(of(&report["means"][1], "collections"), of(&schemes[2], "collections"), "the mean of one trace");
    assert_eq!(home.json(&["flash", &text])["traces"], report["traces"], "the same options, the same counts");
}

#[test]
fn the_options_shape_the_flash() {
    let home = Home::new();
    let text = shipped("05_vehicle.tsv.zst");
    let bare = |options: &[&str]| {
        let report = home.json(&[&["flash", &text, "--scheme", "none"], options].concat());
        assert_eq!(report["traces"][0]["schemes"].as_array().map(Vec::len), Some(1), "none is compared with none");
        report["traces"][0]["schemes"][0].clone()
    };
    let usual = bare(&[]);
    assert!(count(&bare(&["--spare", "50%"]), "moved_pages") < count(&usual, "moved_pages"));
    assert!(count(&bare(&["--full", "50%"]), "collections") < count(&usual, "collections") / 2);
    assert_ne!(count(&bare(&["--cleaning", "fifo"]), "moved_pages"), count(&usual, "moved_pages"));
    assert_ne!(count(&bare(&["--seed", "2"]), "moved_pages"), count(&usual, "moved_pages"));
    assert!(count(&bare(&["--page", "16K"]), "partial_pages") > 0, "a unit is a part of a page");
    let mean = |on: &Value| on["flash"]["response_us"]["mean"].as_f64().unwrap();
    let instant = bare(&["--read-us", "0", "--program-us", "0", "--erase-us", "0", "--transfer-ns", "0"]);
    assert!(mean(&instant) == 0.0 && mean(&usual) > 302.0, "{} and {}", mean(&instant), mean(&usual));
    assert!(mean(&bare(&["--planes", "1", "--size", "128M"])) > mean(&usual));
    let held = bare(&["--begin", "held"]);
    assert_eq!(
        (usual["held_pages"].as_u64(), held["held_pages"].as_u64()),
        (Some(128 << 8), Some(3939)),
        "as many as the recorder counted"
    );
    assert!(count(&held, "collections") < count(&usual, "collections") / 2);
    let whole = home.json(&["flash", &text, "--scheme", "none", "--whole-device"]);
    assert_eq!(whole["traces"][0]["flash_bytes"].as_u64(), Some(524_288 * 4096));

    let folder = home.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&text, format!("{folder}/one.tsv.zst")).unwrap();
    std::os::unix::fs::symlink(&text, format!("{folder}/two.tsv.zst")).unwrap();
    let table = home.expect(0, &["flash", "folder", "--persistence", "strong", "--scheme", "log"]).0;
    for wanted in ["one, phase run, on 128 MiB", "two, phase run", "log, mean of 2: pages ", "collections", "strong persistence"] {
        assert!(table.contains(wanted), "{wanted}: {table}");
    }
}

#[test]
fn wrong_input_is_named() {
    let home = Home::new();
    let text = shipped("05_vehicle.tsv.zst");
    let complaint = |code, words: &[&str], wanted| home.complaint(code, &[&["flash"], words].concat(), wanted);
    complaint(2, &[], "<TRACES>");
    complaint(2, &["-"], "standard input can be read only once");
    complaint(2, &[&text, "--scheme", "best"], "ordered-anticipate");
    complaint(2, &[&text, "--cleaning", "lazy"], "greedy, cost-benefit, fifo");
    complaint(2, &[&text, "--size", "1M"], "--size 1 MiB");
    complaint(2, &[&text, "--page", "5000"], "a page of 5000 bytes");
    complaint(2, &[&text, "--spare", "much"], "'much' is no share");
    complaint(2, &[&text, "--overwrites=-1"], "overwritten -1 times");
    complaint(2, &[&text, "--begin", "empty"], "held");
    complaint(2, &[&text, "--blocks", "100"], "--whole-device");
    complaint(6, &[&text, "--whole-device", "--blocks", "100"], "a Discard was refused");
    complaint(3, &["nowhere"], "nowhere");
    std::fs::create_dir(home.path("empty")).unwrap();
    complaint(2, &["empty"], "empty: the folder has no trace");
}
