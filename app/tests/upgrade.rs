//! `onefold upgrade`: another program serves volumes that stay attached.

mod common;

use common::home::Home;
use common::nbd_client::*;
use common::{BINARY, Dice, have, rounds, run, skipped};
use onefold::attachment::control::HANDOVER_VERSION;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const VOLUME: &str = "volume";

/// Copies the program, and has the copy upgrade.
fn upgrade_by(home: &Home, copy: &str, words: &[&str]) -> Output {
    let program = home.path(copy);
    // Another process writes it: no child of this one can have it open when it is started.
    run(Command::new("cp").args([BINARY, &program]));
    let mut command = Command::new(&program);
    command.args([&["upgrade"], words].concat()).current_dir(home.path("."));
    command.env("ONEFOLD_RUN_DIR", home.path("run")).env("ONEFOLD_STATE_DIR", home.path("state")).output().unwrap()
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Checks that supervisor and server run this copy of the program.
fn check_program(home: &Home, copy: &str) {
    for pid in home.processes(VOLUME) {
        let program = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).unwrap();
        assert_eq!(program, Path::new(&home.path(copy)).canonicalize().unwrap());
    }
}

#[test]
fn what_nbd_clients_wrote_is_there_after_an_upgrade() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let socket = home.attach(VOLUME, &[]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[7; 4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    let written = |home: &Home| {
        let stats = home.says(0, &["stats", VOLUME, "--json"]);
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats["lifetime"]["client_units"].as_u64().unwrap_or_else(|| panic!("{stats}"))
    };
    // Acknowledged, and not flushed.
    client.write(0, 4096, &[8; 4096]).unwrap();
    let upgraded = upgrade_by(&home, "newer", &[VOLUME]);
    assert!(upgraded.status.success() && says(&upgraded).contains("newer"), "{}", says(&upgraded));
    check_program(&home, "newer");
    let mut client = Client::ready_for(&socket, true, "");
    assert_eq!((client.read(0, 4096).unwrap(), client.read(4096, 4096).unwrap()), (vec![7; 4096], vec![8; 4096]));
    drop(client);
    assert!(written(&home) >= 2, "what clients have written since the creation is not forgotten");
    let status = home.says(0, &["status", VOLUME]);
    assert!(status.contains("another program was installed, and serves now"), "{status}");
    assert!(status.lines().any(|line| line.starts_with("program") && line.ends_with("/newer")), "{status}");
    // All of them, one of which the same program serves already; and the old program takes over again.
    assert!(upgrade_by(&home, "newest", &["--all"]).status.success());
    check_program(&home, "newest");
    assert!(home.says(0, &["upgrade", VOLUME]).contains(BINARY));
    home.says(0, &["detach", VOLUME]);
    assert!(home.says(0, &["check", "--data", VOLUME]).contains("The volume is sound"));
    assert!(home.says(0, &["upgrade", "--all"]).contains("No volume is attached"));
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    home.complaint(3, &["upgrade", VOLUME], "volume is not attached");
    home.complaint(2, &["upgrade"], "<VOLUME>");
    home.complaint(2, &["upgrade", VOLUME, "--all"], "--all");
    home.complaint(3, &["upgrade", "nowhere"], "nowhere");
    let socket = home.attach(VOLUME, &[]);
    let before = home.processes(VOLUME);
    let control = fs::read_dir(home.path("run")).unwrap().map(|entry| entry.unwrap().path());
    let control = control.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "control")).unwrap();
    let ask = |program: &str, version: u32| {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(&control).unwrap();
        let question = serde_json::json!({"ask": "upgrade", "program": program, "handover_version": version, "format_version": 4});
        stream.write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask(BINARY, 99).contains("this version cannot take over"));
    assert!(ask("/no/such/program", HANDOVER_VERSION).contains("cannot run /no/such/program"));
    assert_eq!(home.processes(VOLUME), before);
    // It can be run, and ends at once: the program before goes on.
    ask("/bin/false", HANDOVER_VERSION);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[7; 4096]).unwrap();
    let [supervisor, server] = home.processes(VOLUME);
    assert!(supervisor == before[0] && server != before[1]);
    assert_eq!(fs::read_link(format!("/proc/{}/exe", server.as_raw_nonzero())).unwrap(), Path::new(BINARY).canonicalize().unwrap());
    drop(client);
    home.says(0, &["detach", VOLUME]);
}

/// Writes random blocks of a block device until `stop`, reads each back now and then, and counts.
fn load(device: &str, seed: u64, stop: &AtomicBool, done: &AtomicU64) {
    let file = File::options().read(true).write(true).open(device).unwrap();
    let (blocks, mut dice, mut written) = (2048, Dice::new(seed), vec![0u64; 2048]);
    // Each thread has a part of the device.
    let at = |block: u64| (seed * blocks + block) * 4096;
    let content = |block: u64, version: u64| (seed << 48 | block << 32 | version).to_le_bytes().repeat(512);
    while !stop.load(Ordering::Relaxed) {
        let block = dice.below(blocks);
        let version = &mut written[usize::try_from(block).unwrap()];
        if dice.below(3) > 0 {
            *version += 1;
            file.write_all_at(&content(block, *version), at(block)).unwrap();
            if dice.below(50) == 0 {
                file.sync_all().unwrap();
            }
        } else if *version > 0 {
            let mut read = vec![0; 4096];
            file.read_exact_at(&mut read, at(block)).unwrap();
            assert_eq!(read, content(block, *version), "block {block}");
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    file.sync_all().unwrap();
    for (block, version) in (0..).zip(written).filter(|(_, version)| *version > 0) {
        let mut read = vec![0; 4096];
        file.read_exact_at(&mut read, at(block)).unwrap();
        assert_eq!(read, content(block, version), "block {block} at the end");
    }
}

/// The kernel keeps such a device until nobody has it open.
#[test]
fn a_store_on_a_loop_device_that_was_detached_outlives_an_upgrade() {
    let test = "a_store_on_a_loop_device_that_was_detached_outlives_an_upgrade";
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        return skipped(test, "a loop device needs root and /dev/loop-control");
    }
    if !have(test, &["losetup"]) {
        return;
    }
    let home = Home::new();
    home.blank("store", 64 << 20);
    let losetup = |words: &[&str]| says(&Command::new("losetup").args(words).output().unwrap()).trim().to_owned();
    let store = losetup(&["--find", "--show", "--direct-io=on", &home.path("store")]);
    home.says(0, &["create", &store]);
    let socket = home.attach(&store, &[]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[7; 4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    assert_eq!(losetup(&["--detach", &store]), "");
    for copy in ["newer", "newest"] {
        let upgraded = upgrade_by(&home, copy, &[&store]);
        assert!(upgraded.status.success(), "{}", says(&upgraded));
        let mut client = Client::ready_for(&socket, true, "");
        assert_eq!(client.read(0, 4096).unwrap(), [7; 4096], "{copy}");
        client.write(0, 4096, &[8; 4096]).unwrap();
    }
    home.says(0, &["detach", &store]);
    assert!(
        !losetup(&["--list", "--noheadings", "--output", "NAME"]).lines().any(|line| line.trim() == store),
        "it is gone with the volume"
    );
    assert!(home.says(0, &["check", "--data", "store"]).contains("The volume is sound"));
}

#[test]
fn programs_on_a_block_device_see_no_error_while_it_is_upgraded() {
    let test = "programs_on_a_block_device_see_no_error_while_it_is_upgraded";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "a loop device needs root");
    }
    if !["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists()) {
        return skipped(test, "there is no /dev/fuse or /dev/loop-control");
    }
    if !have(test, &["losetup"]) {
        return;
    }
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "128M"]);
    let device = home.says(0, &["attach", "--fuse", VOLUME]).trim().to_owned();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let loads: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn({
                    let (device, stop, done) = (&device, &stop, &done);
                    move || load(device, seed, stop, done)
                })
            })
            .collect();
        for round in 0..rounds("ONEFOLD_UPGRADE_ROUNDS", 1) {
            let before = done.load(Ordering::Relaxed);
            let copy = format!("program{round}");
            let upgraded = upgrade_by(&home, &copy, &[VOLUME]);
            assert!(upgraded.status.success(), "{}", says(&upgraded));
            check_program(&home, &copy);
            while done.load(Ordering::Relaxed) < before + 1000 && !loads.iter().any(|load| load.is_finished()) {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    home.says(0, &["detach", VOLUME]);
    assert!(home.says(0, &["check", "--data", VOLUME]).contains("The volume is sound"));
}
