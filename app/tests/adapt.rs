//! `attach --adapt`: what a machine cannot afford is deferred, and made up for when it can. A directory of files stands for the machine.

mod common;

use common::Dice;
use common::home::Home;
use common::nbd_client::*;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

const IMAGE: &str = "disk.img";
const BLOCKS: u64 = 100;
const COPY: u64 = 1000;
/// The time in which a server sees another state of the machine, at the most.
const PATIENCE: Duration = Duration::from_secs(20);

fn content(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    Dice::new(n).fill(&mut bytes);
    bytes
}

/// Sets the machine's battery.
fn battery(home: &Home, status: &str, percent: u8) {
    let supply = home.path("machine/sys/class/power_supply/BAT0");
    fs::create_dir_all(&supply).unwrap();
    for (file, text) in [("type", "Battery"), ("status", status), ("capacity", &percent.to_string())] {
        fs::write(format!("{supply}/{file}"), format!("{text}\n")).unwrap();
    }
}

fn adaptation(home: &Home) -> Value {
    home.json(&["status", IMAGE])["attached"]["condition"]["adaptation"].clone()
}

/// Waits until the volume makes this share of the fingerprints at once.
fn wait_for(home: &Home, share: u64) {
    let begin = Instant::now();
    while adaptation(home)["in_line"].as_u64() != Some(share) {
        assert!(begin.elapsed() < PATIENCE, "{:#}", adaptation(home));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn dedup(home: &Home, count: &str) -> u64 {
    home.json(&["stats", IMAGE])["dedup"][count].as_u64().unwrap()
}

/// Writes the blocks, each by a request of its own, from block `first` on.
fn write(client: &mut Client, first: u64) {
    (0..BLOCKS).for_each(|n| client.write(0, 4096 * (first + n), &content(n)).unwrap());
    client.command(FLUSH, 0, 0, 0).unwrap();
}

fn on_battery(mode: &'static str) {
    let home = Home::new();
    battery(&home, "Discharging", 50);
    home.says(0, &["create", IMAGE, "--size", "64M", "--commit-mode", mode]);
    let machine = home.path("machine");
    let socket = home.attach(IMAGE, &["--adapt", "battery", "--machine-root", &machine]);
    wait_for(&home, 50);
    assert!(home.says(0, &["status", IMAGE]).contains("50 % of writes at once, and 50 % of the rate out of line: battery 50 %"));
    let mut client = Client::ready_for(&socket, true, "");
    write(&mut client, 0);
    assert_eq!(dedup(&home, "deferred"), BLOCKS / 2, "{mode}");
    battery(&home, "Discharging", 10);
    wait_for(&home, 0);
    write(&mut client, COPY);
    assert_eq!((dedup(&home, "deferred"), dedup(&home, "duplicates")), (BLOCKS / 2 + BLOCKS, 0), "{mode}");
    assert!(home.says(0, &["stats", IMAGE]).contains("150 of them deferred"));
    let linked = |home: &Home| home.json(&["dedup", IMAGE, "--all"])["linked"].as_u64().unwrap();
    assert_eq!(linked(&home), BLOCKS, "{mode}: somebody asked, so it is done");
    battery(&home, "Charging", 10);
    wait_for(&home, 100);
    write(&mut client, 2 * COPY);
    assert_eq!(dedup(&home, "duplicates"), BLOCKS, "{mode}");
    for first in [0, COPY, 2 * COPY] {
        assert!((0..BLOCKS).all(|n| client.read(4096 * (first + n), 4096).unwrap() == content(n)), "{mode}");
    }
    drop(client);
    home.says(0, &["detach", IMAGE]);
    home.says(0, &["check", "--data", IMAGE]);
}

#[test]
fn on_battery_a_share_is_deferred_in_mode_ordered() {
    on_battery("ordered");
}

#[test]
fn on_battery_a_share_is_deferred_in_mode_log() {
    on_battery("log");
}

/// Acknowledged writes that were deferred are proved by their checksums.
#[test]
fn what_is_deferred_outlives_its_server() {
    for mode in ["ordered", "log"] {
        let home = Home::new();
        battery(&home, "Discharging", 10);
        home.says(0, &["create", IMAGE, "--size", "64M", "--commit-mode", mode]);
        let machine = home.path("machine");
        let socket = home.attach(IMAGE, &["--adapt", "battery", "--machine-root", &machine, "--commit-period", "60000"]);
        wait_for(&home, 0);
        let mut client = Client::ready_for(&socket, true, "");
        (0..BLOCKS).for_each(|n| client.write(0, 4096 * n, &content(n)).unwrap());
        let [_, server] = home.processes(IMAGE);
        rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
        drop(client);
        let mut client = Client::ready_for(&socket, true, "");
        assert!((0..BLOCKS).all(|n| client.read(4096 * n, 4096).unwrap() == content(n)), "{mode}");
        client.command(FLUSH, 0, 0, 0).unwrap();
        drop(client);
        home.says(0, &["detach", IMAGE]);
        home.says(0, &["check", "--data", IMAGE]);
    }
}

#[test]
fn without_it_nothing_is_deferred() {
    let home = Home::new();
    battery(&home, "Discharging", 10);
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let machine = home.path("machine");
    let socket = home.attach(IMAGE, &["--machine-root", &machine]);
    let mut client = Client::ready_for(&socket, true, "");
    write(&mut client, 0);
    write(&mut client, COPY);
    assert_eq!((dedup(&home, "deferred"), dedup(&home, "duplicates")), (0, BLOCKS));
    assert_eq!(adaptation(&home), Value::Null);
    drop(client);
    home.says(0, &["detach", IMAGE]);
}

#[test]
fn a_reason_that_is_none_is_refused() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M"]);
    for typed in ["", "on", "battery,", "pressure;battery"] {
        home.complaint(2, &["attach", IMAGE, "--adapt", typed], "several are separated by commas");
    }
    home.complaint(2, &["attach", IMAGE, "--adapt"], "--adapt");
}
