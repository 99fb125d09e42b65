//! `onefold-lab trace replay --on` and `onefold-lab attach --device-model` from a user's view.

mod common;

use common::home::{Home, shipped};
use common::skipped;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Two contents, one of them twice; a flush; an overwrite with zeros, a read, a discard; 30 ms of think time.
const SMALL: &str = "\
time_ns,op,offset,length,fua,note,fingerprints,compressed
0,mark,0,0,false,setup,,
0,write,0,8192,false,,aa00000000000001 bb00000000000002,1024 4096
1000000,flush,0,0,false,,,
1000000,mark,0,0,false,run,,
31000000,write,16384,4096,true,,aa00000000000001,1024
31000000,flush,0,0,false,,,
31000000,read,0,20480,false,,,
31000000,write,4096,4096,false,,0,
32000000,discard,0,4096,false,,,
";

#[test]
fn a_small_trace_is_replayed_on_a_file_and_always_gives_the_same_bytes() {
    let home = Home::new();
    std::fs::write(home.path("small.csv"), SMALL).unwrap();
    home.blank("disk", 1 << 20);
    home.blank("other", 1 << 20);
    let began = Instant::now();
    let found = home.json(&["trace", "replay", "small.csv", "--on", "disk", "--verify"]);
    assert!(began.elapsed().as_millis() >= 31, "think times are kept");
    let whole = &found["whole"];
    for (key, wanted) in [("units", 4), ("writes", 3), ("flushes", 1), ("fua", 1), ("reads", 1), ("discards", 1)] {
        assert_eq!(whole[format!("client_{key}")].as_u64(), Some(wanted), "{key}: {found:#}");
    }
    let share = |key: &str| whole["duplication"][key].as_f64().unwrap();
    assert_eq!((share("live"), share("zero")), (0.25, 0.25), "{found:#}");
    // Block 1 holds zeros and 4 a content; 0 was discarded.
    assert_eq!(found["verified_blocks"].as_u64(), Some(2));
    assert_eq!(found["phases"][1]["name"].as_str(), Some("run"));
    assert_eq!(found["whole"]["latency_us"]["fua"]["count"].as_u64(), Some(1));

    let bytes = std::fs::read(home.path("disk")).unwrap();
    assert!(bytes[16384..20480].iter().any(|&b| b != 0) && bytes[4096..16384].iter().all(|&b| b == 0));
    home.expect(5, &["trace", "replay", "small.csv", "--on", "disk"]);
    home.expect(0, &["trace", "replay", "small.csv", "--on", "other", "--no-think", "--io", "plain", "--outstanding", "1"]);
    assert_eq!(bytes, std::fs::read(home.path("other")).unwrap(), "another run gave other bytes");
    home.expect(0, &["trace", "replay", "small.csv", "--on", "disk", "--force", "--verify", "--no-think"]);

    home.blank("short", 8192);
    let (_, complaint) = home.expect(1, &["trace", "replay", "small.csv", "--on", "short", "--no-think"]);
    assert!(complaint.contains("ends at 8192"), "{complaint}");
    home.expect(3, &["trace", "replay", "small.csv", "--on", "nowhere"]);
    for wrong in
        [&["--on", "disk", "--outstanding", "33"][..], &["--on", "disk", "--persistence", "strong"], &["--on", "disk", "--sim"], &[]]
    {
        home.expect(2, &[&["trace", "replay", "small.csv"], wrong].concat());
    }
}

#[test]
fn a_file_system_is_not_replayed_over() {
    let home = Home::new();
    if !common::have("a_file_system_is_not_replayed_over", &["mkfs.ext4"]) {
        return;
    }
    std::fs::write(home.path("small.csv"), SMALL).unwrap();
    home.blank("disk", 16 << 20);
    common::run(Command::new("mkfs.ext4").arg("-q").arg(home.path("disk")));
    let before = std::fs::read(home.path("disk")).unwrap();
    let (_, complaint) = home.expect(5, &["trace", "replay", "small.csv", "--on", "disk"]);
    assert!(complaint.contains("--force"), "{complaint}");
    assert_eq!(before, std::fs::read(home.path("disk")).unwrap(), "it was written to all the same");
}

#[test]
fn a_slowed_store_says_so_and_is_slow_below_a_volume_and_below_nothing() {
    let home = Home::new();
    home.expect(0, &["create", "disk", "--size", "32M"]);
    let (_, complaint) = home.expect(2, &["attach", "disk", "--device-model", "floppy"]);
    assert!(complaint.contains("tablet"), "{complaint}");
    for kind in [&["--nbd"][..], &["--nbd", "--passthrough"]] {
        let began = Instant::now();
        home.expect(0, &[&["attach", "disk", "--device-model", "tablet"], kind].concat());
        let (attach, status) = (began.elapsed(), home.json(&["status", "disk"]));
        let slowed = &status["attached"]["condition"]["slowed"];
        assert_eq!(slowed["model"].as_str(), Some("tablet"), "{status:#}");
        let stats = home.json(&["stats", "disk"]);
        assert_eq!(stats["slowed"]["model"].as_str(), Some("tablet"), "{stats:#}");
        assert!(home.expect(0, &["status", "disk"]).0.contains("tablet"));
        if kind.len() == 1 {
            // An opening writes superblocks, each a write of 2.9 ms on this model, one after another; on a busy machine perhaps not before
            // the first question.
            // Before each write it reads the place, which takes 270 us.
            let (mut stats, mut commands, mut model_us) = (stats, 0, 0.0);
            while model_us <= 270.0 && began.elapsed() < Duration::from_secs(30) {
                stats = home.json(&["stats", "disk"]);
                commands = stats["slowed"]["commands"].as_u64().unwrap();
                model_us = stats["slowed"]["model_us_mean"].as_f64().unwrap_or(0.0);
            }
            assert!(commands > 0 && model_us > 270.0, "{stats:#}");
            eprintln!("{commands} commands of {model_us:.0} us on the model; attached in {attach:?}");
        }
        home.expect(0, &["detach", "disk"]);
    }
    assert_eq!(home.json(&["check", "--data", "disk"])["sound"].as_bool(), Some(true));
}

/// Returns the reason why there can be no block device here.
fn no_block_device() -> Option<&'static str> {
    let is_there = |path| Path::new(path).exists();
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if !is_there("/dev/fuse") || !is_there("/dev/loop-control") {
        return Some("no /dev/fuse or no /dev/loop-control");
    }
    let free = Command::new("losetup").arg("--find").output();
    (!free.is_ok_and(|found| found.status.success())).then_some("no free loop device")
}

#[test]
fn a_shipped_trace_is_replayed_onto_an_attached_volume() {
    if let Some(reason) = no_block_device() {
        return skipped("a_shipped_trace_is_replayed_onto_an_attached_volume", reason);
    }
    let home = Home::new();
    home.expect(0, &["create", "disk", "--size", "2200M", "--logical", "2G", "--sparse"]);
    let device = home.expect(0, &["attach", "--fuse", "disk"]).0.trim().to_owned();
    let words = ["trace", "replay", &shipped("05_vehicle.tsv.zst"), "--on", &device, "--no-think", "--verify"];
    let found = home.json(&words);
    let stats = home.json(&["stats", "disk"]);
    assert_eq!(found["whole"]["client_units"], stats["ledger"]["client_units"], "{found:#}{stats:#}");
    let live = found["whole"]["duplication"]["live"].as_f64().unwrap();
    assert!((0.2..0.4).contains(&live) && found["verified_blocks"].as_u64() > Some(3000), "{found:#}");
    // Equal contents in the trace are equal here, and the volume finds them.
    let known = stats["dedup"]["duplicates"].as_u64().unwrap() + stats["dedup"]["unchanged"].as_u64().unwrap();
    assert!(known as f64 >= live * found["whole"]["client_units"].as_u64().unwrap() as f64, "{found:#}{stats:#}");
    if common::have("a_shipped_trace_is_replayed_onto_an_attached_volume, the part with a file system", &["mkfs.ext4"]) {
        common::run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&device));
        let (_, complaint) = home.expect(5, &["trace", "replay", &shipped("05_vehicle.tsv.zst"), "--on", &device, "--no-think"]);
        assert!(complaint.contains("ext4"), "{complaint}");
    }
    home.expect(0, &["detach", "disk"]);
    assert_eq!(home.json(&["check", "--data", "disk"])["sound"].as_bool(), Some(true));
}
