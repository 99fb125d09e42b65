//! What an operator meets when things are not as they were: files renamed or deleted, wrong names, readers that leave, logs, notices.

mod common;

use common::home::{Home, shipped};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const IMAGE: &str = "disk.img";

fn attached() -> Home {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M", "--label", "mine"]);
    home.attach(IMAGE, &[]);
    home
}

#[test]
fn a_renamed_store_is_found_by_its_new_name() {
    let home = attached();
    std::fs::rename(home.path(IMAGE), home.path("moved.img")).unwrap();
    for name in ["moved.img", &home.path("moved.img"), IMAGE, "mine"] {
        let status = home.json(&["status", name]);
        assert_eq!(status["path"].as_str(), Some(home.path("moved.img").as_str()), "{name}");
        assert!(status["volume"]["uuid"].is_string() && status["deleted"].as_bool() == Some(false), "{status:#}");
    }
    assert_eq!(home.json(&["list"])["volumes"][0]["path"].as_str(), Some(home.path("moved.img").as_str()));
    // Another file in its old place is not the volume.
    std::fs::copy(home.path("moved.img"), home.path(IMAGE)).unwrap();
    home.complaint(3, &["detach", IMAGE], "is not attached");
    home.says(0, &["detach", "moved.img"]);
    assert_eq!(home.json(&["check", "moved.img"])["clean"].as_bool(), Some(true));
}

#[test]
fn a_deleted_store_is_told_and_spared() {
    let home = attached();
    std::fs::remove_file(home.path(IMAGE)).unwrap();
    for name in [IMAGE, &home.path(IMAGE), "mine"] {
        assert!(home.says(0, &["status", name]).contains(&format!("{} (deleted)", home.path(IMAGE))), "{name}");
    }
    assert!(home.says(0, &["list"]).contains("disk.img (deleted)"));
    assert_eq!(home.json(&["list"])["volumes"][0]["deleted"].as_bool(), Some(true));
    let (_, complaint) = home.expect(5, &["detach", "mine"]);
    assert!(complaint.contains("deleted") && complaint.contains("--force"), "{complaint}");
    // As it says.
    let open = complaint.split_whitespace().find(|word| word.starts_with("/proc/")).expect("it says how to keep it");
    std::fs::copy(open, home.path("kept.img")).unwrap();
    assert!(home.expect(0, &["detach", "mine", "--force"]).1.contains("its content goes"));
    home.attach("kept.img", &[]);
    home.says(0, &["detach", "kept.img"]);
}

#[test]
fn a_directory_is_called_one() {
    let home = Home::new();
    std::fs::create_dir(home.path("folder")).unwrap();
    for verb in ["attach", "status", "check", "dump"] {
        home.complaint(3, &[verb, "folder"], "folder is a directory");
    }
}

#[test]
fn help_says_what_is_required_and_every_scheme() {
    let home = Home::new();
    let help = home.says(0, &["detach", "--help"]);
    assert!(help.contains("<VOLUME>") && !help.contains("[VOLUME]"), "{help}");
    home.complaint(2, &["detach"], "<VOLUME>");
    if cfg!(feature = "lab") {
        let help = home.says(0, &["trace", "replay", "--help"]);
        let schemes = ["none", "journal", "shadow", "ordered-only", "ordered", "ordered-anticipate", "log", "carried", "packed"];
        for scheme in schemes {
            assert!(help.lines().any(|line| line.split_whitespace().next() == Some(scheme)), "{scheme}: {help}");
        }
        let default: Vec<&str> = help.lines().filter(|line| line.ends_with("the default of a volume")).collect();
        assert!(default.len() == 1 && default[0].trim_start().starts_with("packed"), "{help}");
    }
}

#[test]
fn the_size_of_an_attached_volume_is_listed() {
    let home = attached();
    let status = home.json(&["status", IMAGE]);
    let listed = &home.json(&["list"])["volumes"][0]["logical_bytes"];
    assert!(listed.is_u64() && listed == &status["volume"]["logical_bytes"], "{listed} {status:#}");
}

#[test]
fn an_imported_trace_knows_its_device() {
    if !cfg!(feature = "lab") {
        return;
    }
    let home = Home::of(&["trace"]);
    home.says(0, &["import", &shipped("05_vehicle.tsv.zst"), "vehicle"]);
    home.says(0, &["cut", &shipped("05_vehicle.tsv.zst"), "part", "--time", "..50"]);
    for folder in ["vehicle", "part"] {
        assert!(home.json(&["replay", folder, "--sim", "--scheme", "none"])["whole"]["client_units"].as_u64() > Some(100), "{folder}");
    }
}

#[test]
fn an_orderly_end_leaves_nothing_in_the_run_directory() {
    let home = attached();
    let log = |home: &Home| std::fs::read_dir(home.path("run")).unwrap().any(|entry| entry.unwrap().path().extension().unwrap() == "log");
    assert!(log(&home));
    home.says(0, &["detach", IMAGE]);
    let left: Vec<_> = std::fs::read_dir(home.path("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    // A server that was killed leaves its log.
    home.attach(IMAGE, &[]);
    home.kill(IMAGE);
    home.says(0, &["list"]);
    assert!(log(&home));
}

#[test]
fn a_reader_that_leaves_ends_a_watch_quietly() {
    let home = attached();
    for verb in [&["stats", IMAGE][..], &["status", IMAGE], &["list"]] {
        let mut command = home.command(verb);
        let mut watch = command.arg("--watch=1").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(watch.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = watch.wait_with_output().unwrap();
        assert!(!first.is_empty() && output.status.success() && output.stderr.is_empty(), "{verb:?}: {output:?}");
    }
}

/// What a server warns of in its log stands in `status`, with its date, and what has ended does not.
#[test]
fn warnings_stand_among_the_notices() {
    let home = attached();
    // More clients than are served.
    let socket = home.json(&["status", IMAGE])["attached"]["location"].as_str().unwrap().split_once("socket=").unwrap().1.to_owned();
    let clients: Vec<_> = (0..20).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let status = home.json(&["status", IMAGE]);
        let notices: Vec<&str> = status["attached"]["condition"]["notices"].as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
        let serves = notices.iter().any(|line| line.ends_with("serving"));
        if let Some(line) = notices.iter().find(|line| line.contains("a client was sent away")).filter(|_| serves) {
            assert!(line.starts_with("20") && line.contains(" UTC: "), "{line}");
            assert!(notices.iter().all(|line| !line.contains("opening:")), "{notices:?}");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{notices:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(clients);
}
