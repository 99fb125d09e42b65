//! `onefold scrub`: damage below an attached volume is found, named and never served, whatever happens to the server meanwhile.

mod common;

use common::Dice;
use common::home::Home;
use common::nbd_client::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

const IMAGE: &str = "disk.img";
const BLOCKS: usize = 1024;
/// The blocks that rot: neighbours, one alone, the last.
const ROTTEN: [usize; 4] = [3, 4, 500, BLOCKS - 1];

fn content(block: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    Dice::new(1000 + block as u64).fill(&mut bytes);
    bytes
}

/// A volume of 64 MiB with content, attached.
fn used(home: &Home, mode: &str) -> Client {
    home.says(0, &["create", IMAGE, "--size", "64M", "--commit-mode", mode]);
    let socket = home.attach(IMAGE, &[]);
    let mut client = Client::ready_for(&socket, true, "");
    for first in (0..BLOCKS).step_by(64) {
        let bytes: Vec<u8> = (first..first + 64).flat_map(content).collect();
        client.write(0, 4096 * first as u64, &bytes).unwrap();
    }
    client.command(FLUSH, 0, 0, 0).unwrap();
    client
}

/// Changes a bit of each of these blocks, on the store itself.
fn rot(home: &Home, blocks: &[usize]) {
    let store = home.read(IMAGE);
    let file = File::options().write(true).open(home.path(IMAGE)).unwrap();
    for &block in blocks {
        let at = store.chunks(4096).position(|bytes| bytes == content(block)).expect("it is stored as it is");
        file.write_all_at(&[store[4096 * at + 99] ^ 1], 4096 * at as u64 + 99).unwrap();
    }
    file.sync_all().unwrap();
}

fn what_rots_is_found_and_not_served(mode: &str) {
    let home = Home::new();
    let mut client = used(&home, mode);
    let sound = home.json(&["scrub", IMAGE, "--rate", "1G"]);
    assert_eq!((sound["damaged_blocks"].as_u64(), sound["mended_blocks"].as_u64()), (Some(0), Some(0)), "{sound:#}");
    assert!(sound["read_blocks"].as_u64().unwrap() > BLOCKS as u64, "{sound:#}");
    rot(&home, &ROTTEN);
    let (report, complaint) = home.expect(6, &["scrub", IMAGE, "--rate", "1G"]);
    assert!(complaint.contains("4 blocks are damaged") && complaint.contains("check --data"), "{complaint}");
    assert_eq!(report.lines().filter(|line| line.starts_with("data") && line.ends_with("damaged")).count(), 4, "{report}");
    // The client is no block device of this machine, so the logical blocks alone are named: the two neighbours, one alone, the last.
    let named: Vec<&str> = report.lines().filter(|line| line.ends_with("in no mounted file system")).collect();
    let lbns: Vec<&str> = named.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(lbns, ["3", "500", "1023"], "{report}");
    for block in 0..BLOCKS {
        let found = client.read(4096 * block as u64, 4096);
        assert_eq!(found.ok(), (!ROTTEN.contains(&block)).then(|| content(block)), "block {block}");
    }
    // What is written anew heals.
    ROTTEN.into_iter().for_each(|block| client.write(0, 4096 * block as u64, &content(block)).unwrap());
    client.command(FLUSH, 0, 0, 0).unwrap();
    assert!((0..BLOCKS).all(|block| client.read(4096 * block as u64, 4096).unwrap() == content(block)));
    drop(client);
    home.says(0, &["detach", IMAGE]);
}

#[test]
fn what_rots_is_found_and_not_served_in_mode_ordered() {
    what_rots_is_found_and_not_served("ordered");
}

#[test]
fn what_rots_is_found_and_not_served_in_mode_log() {
    what_rots_is_found_and_not_served("log");
}

#[test]
fn it_goes_on_after_a_pause_a_detach_and_a_kill() {
    let home = Home::new();
    drop(used(&home, "log"));
    rot(&home, &[BLOCKS - 1]);
    home.says(0, &["scrub", IMAGE, "--rate", "1M", "--no-wait"]);
    home.complaint(2, &["scrub", IMAGE, "--pause", "--resume"], "cannot be used with");
    let paused = home.json(&["scrub", IMAGE, "--pause"]);
    assert!(paused["is_paused"].as_bool() == Some(true) && paused["kib_per_second"].as_u64() == Some(1024), "{paused:#}");
    assert!(home.says(0, &["stats", IMAGE]).contains("paused, "));
    home.says(0, &["detach", IMAGE]);
    assert!(home.says(0, &["dump", IMAGE]).contains("paused, next"));
    home.attach(IMAGE, &[]);
    assert!(home.says(0, &["scrub", IMAGE, "--status"]).contains("paused, "));
    home.says(0, &["scrub", IMAGE, "--resume", "--no-wait"]);
    assert_eq!(home.json(&["scrub", IMAGE, "--status"])["kib_per_second"].as_u64(), Some(1024), "as before the pause");
    home.says(0, &["scrub", IMAGE, "--pause"]);
    let resumed = home.json(&["scrub", IMAGE, "--resume", "--rate", "512K", "--no-wait"]);
    assert!(resumed["is_paused"].as_bool() == Some(false) && resumed["kib_per_second"].as_u64() == Some(512), "{resumed:#}");
    home.kill(IMAGE);
    home.attach(IMAGE, &[]);
    let next = home.json(&["scrub", IMAGE, "--status"]);
    assert_eq!((next["is_under_way"].as_bool(), next["kib_per_second"].as_u64()), (Some(true), Some(512)), "the next server: {next:#}");
    home.says(6, &["scrub", IMAGE, "--rate", "1G"]);
    home.complaint(11, &["scrub", IMAGE, "--resume"], "no scrub of");
    home.says(0, &["detach", IMAGE]);
}

#[test]
fn what_cannot_be_scrubbed_is_refused() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M"]);
    home.complaint(3, &["scrub", IMAGE], "onefold check --data");
    home.complaint(3, &["scrub", "nothing"], "nothing");
    home.attach(IMAGE, &[]);
    for (rate, wanted) in [("fast", "is no size"), ("1K", "at least 64 KiB"), ("-1", "")] {
        home.complaint(2, &["scrub", IMAGE, "--rate", rate], wanted);
    }
    for order in ["--pause", "--resume", "--cancel"] {
        home.complaint(11, &["scrub", IMAGE, order], "no scrub of");
    }
    home.says(0, &["detach", IMAGE]);
    home.attach(IMAGE, &["--passthrough"]);
    home.complaint(11, &["scrub", IMAGE], "--passthrough");
    home.says(0, &["detach", IMAGE]);
}

/// Changes a bit of each page of metadata that was written, below a server that has all of them in memory. Returns their number.
fn rot_metadata(home: &Home) -> u64 {
    let (store, file) = (home.read(IMAGE), File::options().write(true).open(home.path(IMAGE)).unwrap());
    let mut rotten = 0;
    // The regions of metadata of 64 MiB begin behind the copies of the superblock, with more than this.
    for at in (8192..256 << 10).step_by(4096).filter(|&at| store[at..at + 4096].iter().any(|byte| *byte != 0)) {
        file.write_all_at(&[store[at + 77] ^ 1], at as u64 + 77).unwrap();
        rotten += 1;
    }
    file.sync_all().unwrap();
    rotten
}

fn what_is_mended_outlives_a_kill(mode: &str) {
    let home = Home::new();
    drop(used(&home, mode));
    home.says(0, &["detach", IMAGE]);
    let reads =
        |client: &mut Client| (0..BLOCKS).all(|block| client.read(4096 * block as u64, 4096).is_ok_and(|found| found == content(block)));
    let mut client = Client::ready_for(&home.attach(IMAGE, &["--commit-mode", mode]), true, "");
    assert!(reads(&mut client), "all pages are in memory");
    let rotten = rot_metadata(&home);
    let found = home.json(&["scrub", IMAGE, "--rate", "1G"]);
    assert_eq!((found["damaged_blocks"].as_u64(), found["mended_blocks"].as_u64()), (Some(0), Some(rotten)), "{found:#}");
    drop(client);
    home.kill(IMAGE);
    let mut client = Client::ready_for(&home.attach(IMAGE, &["--commit-mode", mode]), true, "");
    assert!(rotten >= 3 && reads(&mut client), "{rotten} pages were mended");
    drop(client);
    let kept = home.json(&["scrub", IMAGE, "--status"]);
    assert_eq!((kept["ended_scrubs"].as_u64(), kept["mended_blocks"].as_u64()), (Some(1), Some(rotten)), "{kept:#}");
    home.says(0, &["detach", IMAGE]);
    assert_eq!(home.json(&["check", "--data", IMAGE])["sound"].as_bool(), Some(true));
}

#[test]
fn what_is_mended_outlives_a_kill_in_mode_ordered() {
    what_is_mended_outlives_a_kill("ordered");
}

#[test]
fn what_is_mended_outlives_a_kill_in_mode_log() {
    what_is_mended_outlives_a_kill("log");
}

#[test]
fn what_a_scrub_has_found_outlives_a_detach() {
    let home = Home::new();
    drop(used(&home, "log"));
    assert!(home.says(0, &["scrub", IMAGE, "--status"]).contains("none yet"));
    rot(&home, &ROTTEN);
    home.says(6, &["scrub", IMAGE, "--rate", "1G"]);
    home.says(0, &["detach", IMAGE]);
    home.attach(IMAGE, &[]);
    let (shown, complaint) = home.expect(6, &["scrub", IMAGE, "--status"]);
    assert!(shown.contains("ended: 4 blocks damaged") && complaint.contains("4 blocks are damaged"), "{shown}{complaint}");
    home.says(0, &["detach", IMAGE]);
}
