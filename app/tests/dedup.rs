//! `onefold dedup`: a volume with little memory finds later what its index did not find, and says how far it is.

mod common;

use common::Dice;
use common::home::Home;
use common::nbd_client::*;

const IMAGE: &str = "disk.img";
/// More blocks than the index has entries; the number of these that are written again, so far apart that none leads to the next; and where.
const BLOCKS: u64 = 90_112;
const AGAIN: u64 = 2048;
const COPY: u64 = 91_000;
const APART: u64 = 9;
/// The place where some of them are written once more, side by side.
const THIRD: u64 = COPY + APART * AGAIN;
const BLOCKS_A_WRITE: usize = 256;

/// The content of a stretch of blocks.
fn content(first: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096 * BLOCKS_A_WRITE];
    Dice::new(first).fill(&mut bytes);
    bytes
}

/// Does something with each stretch of blocks, and with each block of the copy: where it lies, and its content.
fn each(mut act: impl FnMut(u64, &[u8])) {
    (0..BLOCKS).step_by(BLOCKS_A_WRITE).for_each(|first| act(4096 * first, &content(first)));
    for first in (0..AGAIN).step_by(BLOCKS_A_WRITE) {
        (first..).zip(content(first).chunks(4096)).for_each(|(n, block)| act(4096 * (COPY + APART * n), block));
    }
}

fn a_copy_is_found(mode: &'static str) {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "448M", "--commit-mode", mode]);
    let socket = home.attach(IMAGE, &["--memory", "2M", "--index-memory", "128K"]);
    let mut client = Client::ready_for(&socket, true, "");
    each(|at, bytes| client.write(0, at, bytes).unwrap());
    client.command(FLUSH, 0, 0, 0).unwrap();
    let before = home.json(&["stats", IMAGE]);
    assert!(before["dedup"]["duplicates"].as_u64().unwrap() < AGAIN / 2, "{before:#}");
    let range = format!("{COPY}-{}", THIRD - 1);
    let after = home.json(&["dedup", IMAGE, "--range", &range]);
    assert!(after["looked_up"].as_u64().unwrap() >= AGAIN, "{after:#}");
    client.command(FLUSH, 0, 0, 0).unwrap();
    // In mode log the next epoch confirms what was unlinked.
    client.write(0, 0, &content(0)[..4096]).unwrap();
    client.write(0, 4096 * (COPY - 1), &content(0)[..4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    let space = home.json(&["stats", IMAGE])["space"].clone();
    let blocks = |of: &str| space[of].as_u64().unwrap();
    let held = blocks("unique_blocks") + blocks("shared_blocks") - blocks("freed_blocks");
    assert!(held <= BLOCKS + AGAIN / 50, "{held} blocks hold {BLOCKS} contents");
    each(|at, bytes| assert!(client.read(at, u32::try_from(bytes.len()).unwrap()).unwrap() == bytes, "at {at}"));
    let duplicates = || home.json(&["stats", IMAGE])["dedup"]["duplicates"].as_u64().unwrap();
    let known = duplicates();
    for first in (0..AGAIN).step_by(BLOCKS_A_WRITE) {
        client.write(0, 4096 * (THIRD + first), &content(first)).unwrap();
    }
    let found = duplicates() - known;
    assert!(found >= AGAIN / 10 * 9, "of {AGAIN} blocks side by side {found} were found when they were written");
    drop(client);
    home.says(0, &["detach", IMAGE]);
    home.says(0, &["check", "--data", IMAGE]);
}

#[test]
fn a_small_index_is_made_up_for_in_mode_ordered() {
    a_copy_is_found("ordered");
}

#[test]
fn a_small_index_is_made_up_for_in_mode_log() {
    a_copy_is_found("log");
}

#[test]
fn a_pause_lasts_until_it_is_ended() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M"]);
    home.attach(IMAGE, &[]);
    assert_eq!(home.json(&["dedup", IMAGE])["is_paused"].as_bool(), Some(false));
    assert_eq!(home.json(&["dedup", IMAGE, "--pause"])["is_paused"].as_bool(), Some(true));
    assert!(home.says(0, &["stats", IMAGE]).contains("paused"));
    assert_eq!(home.json(&["dedup", IMAGE, "--range", "0-4095"])["is_paused"].as_bool(), Some(false), "who asks wants it done");
    home.json(&["dedup", IMAGE, "--pause"]);
    assert_eq!(home.json(&["dedup", IMAGE, "--resume"])["is_paused"].as_bool(), Some(false));
    home.says(0, &["detach", IMAGE]);
}

#[test]
fn what_cannot_be_deduplicated_is_refused() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M"]);
    home.complaint(3, &["dedup", IMAGE, "--all"], "is not attached");
    home.complaint(3, &["dedup", "nothing", "--all"], "nothing");
    home.attach(IMAGE, &[]);
    for (range, wanted) in [("5", "0-4095"), ("9-5", "smaller number comes first"), ("x-7", "0-4095"), ("", "0-4095")] {
        home.complaint(2, &["dedup", IMAGE, "--range", range], wanted);
    }
    for range in ["99999999-99999999", "0-99999999"] {
        home.complaint(11, &["dedup", IMAGE, "--range", range], "the volume has blocks 0 to");
    }
    home.complaint(2, &["dedup", IMAGE, "--all", "--pause"], "cannot be used with");
    home.says(0, &["detach", IMAGE]);
    home.attach(IMAGE, &["--verify-duplicates", "on"]);
    home.complaint(11, &["dedup", IMAGE, "--all"], "--verify-duplicates");
    assert!(home.says(0, &["dedup", IMAGE]).contains("off"), "it shows that all the same");
    home.says(0, &["detach", IMAGE]);
}

/// The server of such a volume writes the guard block, too, and passes orders on.
#[test]
fn a_guarded_volume_takes_orders() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M", "--guard"]);
    home.attach(IMAGE, &[]);
    assert_eq!(home.json(&["dedup", IMAGE, "--pause"])["is_paused"].as_bool(), Some(true));
    home.says(0, &["detach", IMAGE]);
}

#[test]
fn the_index_gets_other_memory_while_it_serves() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let socket = home.attach(IMAGE, &["--index-memory", "1K"]);
    let capacity = || home.json(&["stats", IMAGE])["dedup"]["index_capacity"].as_u64().unwrap();
    assert_eq!(capacity(), 96);
    let mut client = Client::ready_for(&socket, true, "");
    let bytes = content(0);
    client.write(0, 0, &bytes).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    // The answer says how many fingerprints that is.
    let room = home.json(&["dedup", IMAGE, "--index-memory", "64K"])["index_capacity"].as_u64().unwrap();
    assert!((12_000..=12_288).contains(&room), "{room}");
    assert_eq!(room, capacity());
    while home.json(&["stats", IMAGE])["dedup"]["index_entries"].as_u64().unwrap() < 256 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    client.write(0, 8 << 20, &bytes).unwrap();
    assert_eq!(home.json(&["stats", IMAGE])["dedup"]["duplicates"].as_u64(), Some(256));
    drop(client);
    for (typed, says) in [("63", "at least 64 B"), ("much", "is no size"), ("", "is no size")] {
        home.complaint(2, &["dedup", IMAGE, "--index-memory", typed], says);
    }
    home.says(0, &["detach", IMAGE]);
    home.complaint(2, &["attach", IMAGE, "--index-memory", "1"], "at least 64 B");
    for typed in ["0", "65", "x"] {
        home.complaint(2, &["attach", IMAGE, "--min-run", typed], "from 1 to 64 blocks");
    }
}

#[test]
fn duplicates_in_short_runs_are_stored_again_and_counted() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let socket = home.attach(IMAGE, &["--min-run", "4"]);
    let mut client = Client::ready_for(&socket, true, "");
    let bytes = content(0);
    client.write(0, 0, &bytes).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    client.write(0, 16 << 20, &bytes[..4096 * 4]).unwrap();
    client.write(0, 8 << 20, &bytes[..4096 * 3]).unwrap();
    let found = home.json(&["stats", IMAGE])["dedup"].clone();
    assert_eq!((found["duplicates"].as_u64(), found["filtered"].as_u64()), (Some(4), Some(3)), "{found:#}");
    let shown = home.says(0, &["stats", IMAGE]);
    assert!(shown.contains("259 new, 3 of them filtered"), "{shown}");
    drop(client);
    home.says(0, &["detach", IMAGE]);
}
