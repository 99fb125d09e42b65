//! Counts and states that outlive servers: kills, upgrades and growth; processes that have died; a store whose end is gone.

mod common;

use common::BINARY;
use common::home::Home;
use common::nbd_client::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const VOLUME: &str = "volume";

fn attached() -> (Home, std::path::PathBuf) {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let socket = home.attach(VOLUME, &["--memory", "8M"]);
    (home, socket)
}

/// Writes this many blocks, each another content, and syncs them.
fn write(socket: &Path, first: u64, blocks: u64) {
    let mut client = Client::ready_for(socket, true, "");
    for number in first..first + blocks {
        let mut block = [0; 4096];
        common::Dice::new(number).fill(&mut block);
        client.write(0, number * 4096, &block).unwrap();
    }
    client.command(FLUSH, 0, 0, 0).unwrap();
}

/// The counts of a report that never become smaller.
fn counts(stats: &Value) -> [u64; 6] {
    let of = |list: &str, what: &str, field: &str| {
        let list = stats[list].as_array().unwrap();
        list.iter()
            .filter(|count| count["what"].as_str().unwrap().starts_with(what))
            .map(|count| count[field].as_u64().unwrap())
            .sum::<u64>()
    };
    [
        of("client", "writes", "bytes"),
        of("client", "flushes", "operations"),
        of("device", "write", "bytes"),
        stats["ledger"]["device_units"].as_u64().unwrap(),
        stats["ledger"]["client_flushes"].as_u64().unwrap(),
        stats["dedup"]["new_blocks"].as_u64().unwrap(),
    ]
}

/// Asks until a server answers.
fn stats(home: &Home) -> Value {
    let begun = Instant::now();
    loop {
        let output = home.run(&["stats", VOLUME, "--json"]);
        match serde_json::from_slice(&output.stdout) {
            Ok(stats) if output.status.success() => return stats,
            _ => assert!(begun.elapsed() < Duration::from_secs(30), "{}", String::from_utf8_lossy(&output.stderr)),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn counts_survive_a_kill_an_upgrade_and_growth() {
    let (home, socket) = attached();
    write(&socket, 0, 100);
    let mut before = stats(&home);
    assert_eq!(counts(&before)[0], 100 * 4096);
    let mut blocks = 100;
    let copy = home.path("newer");
    fs::copy(BINARY, &copy).unwrap();
    for way in ["kill", "upgrade", "growth"] {
        match way {
            "kill" => kill_process(home.processes(VOLUME)[1], Signal::KILL).unwrap(),
            "upgrade" => {
                let mut upgrade = std::process::Command::new(&copy);
                upgrade.args(["upgrade", VOLUME]).current_dir(home.path("."));
                upgrade.env("ONEFOLD_RUN_DIR", home.path("run")).env("ONEFOLD_STATE_DIR", home.path("state"));
                common::run(&mut upgrade);
            }
            _ => drop(home.says(0, &["grow", VOLUME, "--size", "96M"])),
        }
        let after = stats(&home);
        assert_ne!(after["memory"], Value::Null);
        for (before, after) in counts(&before).into_iter().zip(counts(&after)) {
            assert!(after >= before, "after a {way}: {:?} and then {:?}", counts(&self::stats(&home)), after);
        }
        write(&socket, blocks, 10);
        blocks += 10;
        before = stats(&home);
        let [written, flushes, .., new_blocks] = counts(&before);
        assert_eq!(written, blocks * 4096, "after a {way}");
        assert!(flushes >= 2 && new_blocks >= blocks, "after a {way}: {flushes} flushes, {new_blocks} new blocks");
    }
    home.says(0, &["detach", VOLUME]);
    // Another attachment counts anew.
    home.attach(VOLUME, &["--memory", "8M"]);
    assert_eq!(counts(&stats(&home))[0], 0);
}

#[test]
fn counts_that_nobody_asked_for_survive_a_kill_but_for_the_last_seconds() {
    let (home, socket) = attached();
    write(&socket, 0, 100);
    std::thread::sleep(Duration::from_secs(12));
    kill_process(home.processes(VOLUME)[1], Signal::KILL).unwrap();
    assert_eq!(counts(&stats(&home))[0], 100 * 4096);
}

#[test]
fn the_time_that_requests_take_is_counted() {
    let (home, socket) = attached();
    write(&socket, 0, 30);
    let stats = home.json(&["stats", VOLUME]);
    let latency = stats["latencies"].as_array().unwrap().iter().find(|latency| latency["what"] == "writes").unwrap();
    let requests: u64 = latency["requests"].as_array().unwrap().iter().map(|class| class.as_u64().unwrap()).sum();
    assert!(requests == 30 && latency["ns"].as_u64() > Some(0), "{latency}");
    let metrics = home.says(0, &["stats", VOLUME, "--prometheus"]);
    let value = |of: &str, label: &str| {
        let line = metrics.lines().find(|line| line.starts_with(of) && line.contains(label)).unwrap_or_else(|| panic!("{of}: {metrics}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!((value("onefold_client_request_seconds_count{", "request=\"writes\"") - 30.0).abs() < f64::EPSILON);
    assert!(value("onefold_client_request_seconds_sum{", "request=\"flushes\"") > 0.0);
    assert!((value("onefold_state{", "state=\"serving\"") - 1.0).abs() < f64::EPSILON);
    assert!(value("onefold_device_errors_total{", "command=\"writes\"").abs() < f64::EPSILON);
    assert!(value("onefold_damage_reports_total{", "").abs() < f64::EPSILON);
    assert!(value("onefold_host_available_bytes{", "") > 0.0);
}

#[test]
fn a_volume_is_not_full_any_more_once_it_is_trimmed() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "32M", "--logical", "128M"]);
    let socket = home.attach(VOLUME, &["--memory", "8M", "--when-full", "error"]);
    let mut client = Client::ready_for(&socket, true, "");
    let mut piece = vec![0; 1 << 20];
    let state = || home.json(&["status", VOLUME])["attached"]["condition"]["state"].as_str().unwrap().to_owned();
    let filled = (0..64).find(|&number| {
        common::Dice::new(number).fill(&mut piece);
        client.write(0, number << 20, &piece).and_then(|()| client.command(FLUSH, 0, 0, 0)).is_err()
    });
    assert!(filled.is_some_and(|mib| mib > 10), "{filled:?}");
    assert_eq!(state(), "full");
    client.command(TRIM, 0, 0, 64 << 20).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    assert_eq!(state(), "serving", "nothing is written since the trim");
    // That is true.
    common::Dice::new(99).fill(&mut piece);
    client.write(0, 0, &piece).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
}

#[test]
fn a_volume_whose_processes_have_died_says_so() {
    let (home, socket) = attached();
    write(&socket, 0, 3);
    home.kill(VOLUME);
    let begun = Instant::now();
    // While they die, `status` cannot talk to them, and fails.
    let status = || home.command(&["status", VOLUME, "--json"]).output().expect("it runs").stdout;
    while !serde_json::from_slice::<Value>(&status()).is_ok_and(|status| status["attached"] == Value::Null) {
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    let status = home.says(0, &["status", VOLUME]);
    assert!(status.contains("died: all processes that served nbd+unix:") && status.contains("attach the volume again"), "{status}");
    assert!(home.json(&["status", VOLUME])["died"]["location"].is_string());
    let metrics = home.says(0, &["stats", "--prometheus"]);
    assert!(metrics.lines().any(|line| line.starts_with("onefold_died{") && line.ends_with(" 1")), "{metrics}");
    home.attach(VOLUME, &["--memory", "8M"]);
    let status = home.json(&["status", VOLUME]);
    assert_eq!(status["died"], Value::Null);
    assert_ne!(status["attached"], Value::Null);
}

#[test]
fn a_store_whose_end_is_gone_is_truncated() {
    let (home, socket) = attached();
    write(&socket, 0, 3);
    fs::File::options().write(true).open(home.path(VOLUME)).unwrap().set_len(48 << 20).unwrap();
    let status = home.says(0, &["status", VOLUME]);
    assert!(status.contains("truncated: the file is 16 MiB shorter"), "{status}");
    assert_eq!(home.json(&["status", VOLUME])["attached"]["condition"]["state"], "truncated");
    let metrics = home.says(0, &["stats", VOLUME, "--prometheus"]);
    assert!(metrics.lines().any(|line| line.contains("state=\"truncated\"") && line.ends_with(" 1")), "{metrics}");
    let [supervisor, server]: [Pid; 2] = home.processes(VOLUME);
    [supervisor, server].into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap_or_default());
}
