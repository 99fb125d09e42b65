//! A guarded volume has one server among all hosts. This test plays the other host: it writes into the guard block what a server of another
//! kernel would.

use crate::common::home::Home;
use crate::common::nbd_client::{Client, FLUSH, FUA};
use crate::common::terminal::OnTerminal;
use onefold_engine::format::{GUARD_AT, Guard, GuardState};
use onefold_engine::units::{BLOCK_SIZE, index};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

const THEIRS: [u8; 16] = [0xee; 16];

/// The guard block of a volume, as all hosts reach it.
pub struct Block {
    file: File,
    uuid: [u8; 16],
}

impl Block {
    fn of(home: &Home, name: &str) -> Self {
        let status = home.json(&["status", name]);
        let uuid = Uuid::parse_str(status["volume"]["uuid"].as_str().unwrap()).unwrap().into_bytes();
        Self { file: File::options().read(true).write(true).open(home.path(name)).unwrap(), uuid }
    }

    pub fn read(&self) -> Guard {
        let mut found = None;
        // The page cache may return half of a concurrent direct write.
        until("a whole guard block", || {
            let mut page = [0; BLOCK_SIZE];
            self.file.read_exact_at(&mut page, GUARD_AT.get()).unwrap();
            found = Guard::decode(&page, &self.uuid).ok();
            found.is_some()
        });
        found.unwrap()
    }

    fn write(&self, guard: Guard) {
        let mut page = [0; BLOCK_SIZE];
        guard.encode(&mut page);
        self.file.write_all_at(&page, GUARD_AT.get()).unwrap();
        self.file.sync_data().unwrap();
    }

    /// Makes another host hold it in this state.
    pub fn becomes_theirs(&self, state: GuardState) -> Guard {
        let guard = Guard { server: THEIRS, host: THEIRS, state, ..self.read().next() };
        self.write(guard);
        guard
    }

    /// Makes another host write it repeatedly during `meanwhile`.
    fn served_elsewhere(&self, meanwhile: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    self.write(self.read().next());
                    std::thread::sleep(Duration::from_millis(300));
                }
            });
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            is_over.store(true, Ordering::Relaxed);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}

/// Makes a volume with the shortest interval.
pub fn guarded(home: &Home) -> Block {
    home.expect(0, &["create", "disk", "--size", "32M", "--guard=1"]);
    Block::of(home, "disk")
}

/// Attaches over NBD and returns the messages.
fn attach(home: &Home) -> String {
    home.expect(0, &["attach", "--nbd", "disk"]).1
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the store without its guard block.
pub fn rest(home: &Home) -> Vec<u8> {
    let mut bytes = home.read("disk");
    bytes[index(GUARD_AT.get())..][..BLOCK_SIZE].fill(0);
    bytes
}

#[test]
fn a_volume_that_another_host_serves_is_left_alone() {
    let home = Home::new();
    let block = guarded(&home);
    block.becomes_theirs(GuardState::Served);
    let before = rest(&home);
    block.served_elsewhere(|| {
        for words in [
            &["attach", "--nbd", "disk"][..],
            &["attach", "--nbd", "--read-only", "disk"],
            &["check", "disk"],
            &["check", "--repair", "--yes", "disk"],
            &["dump", "disk"],
            &["create", "--force", "disk"],
        ] {
            home.complaint(4, words, "another host (boot id eeeeeeee-");
            home.complaint(4, words, "s to see whether another host serves");
        }
    });
    assert!(rest(&home) == before && block.read().server == THEIRS, "it wrote");
}

#[test]
fn a_volume_whose_host_has_died_is_served_after_the_wait() {
    let home = Home::new();
    let block = guarded(&home);
    let theirs = block.becomes_theirs(GuardState::Served);
    let began = Instant::now();
    let message = attach(&home);
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(message.contains("waiting 4 s to see"), "{message}");
    let ours = block.read();
    assert!(ours.state == GuardState::Served && ours.host != THEIRS && ours.server != theirs.server, "{ours:?}");
    until("beats", || block.read().sequence >= ours.sequence + 2);
    assert_eq!(block.read().server, ours.server);
    home.expect(0, &["detach", "disk"]);
    // A reader waits for nobody, and a server only for a host that begins at this moment.
    block.becomes_theirs(GuardState::Free);
    let (_, message) = home.expect(0, &["check", "disk"]);
    assert!(!message.contains("waiting"), "{message}");
    assert!(attach(&home).contains("waiting 2 s to see"));
    home.expect(0, &["detach", "disk"]);
}

#[test]
fn a_server_of_this_host_waits_for_nobody_and_leaves_the_block_free() {
    let home = Home::new();
    let block = guarded(&home);
    let new = block.read();
    assert_eq!((new.state, new.sequence), (GuardState::Free, 0));
    assert_eq!(attach(&home), "");
    let killed = block.read();
    home.kill("disk");
    assert_eq!(attach(&home), "", "what a dead server of this kernel left is no reason to wait");
    let next = block.read();
    assert!(next.server != killed.server && next.host == new.host && next.store == new.store && next.state == GuardState::Served);

    let guard = || home.json(&["status", "disk"])["attached"]["condition"]["guard"].clone();
    until("it counts beats", || guard()["writes"].as_u64().unwrap() > 0);
    assert_eq!(guard()["interval_ms"], 1000);
    let shown = home.says(0, &["status", "disk"]);
    assert!(shown.contains("guard") && shown.contains("every 1 s, "), "{shown}");
    assert!(home.says(0, &["stats", "disk"]).contains("write guard"));
    home.expect(0, &["detach", "disk"]);
    assert_eq!((block.read().state, block.read().server), (GuardState::Free, next.server));
    assert!(home.says(0, &["status", "disk"]).contains("every 1 s"));
    assert_eq!(home.json(&["check", "disk"])["sound"].as_bool(), Some(true));
}

#[test]
fn a_server_whose_claim_is_gone_writes_nothing_more() {
    let home = Home::new();
    let block = guarded(&home);
    let mut client = Client::ready_for(&home.attach("disk", &["--commit-period", "600000"]), true, "");
    client.write(FUA, 0, &[7; 4096]).unwrap();
    client.write(0, 8192, &[8; 4096]).unwrap();
    let mut theirs = block.becomes_theirs(GuardState::Served);
    let condition = || home.json(&["status", "disk"])["attached"]["condition"].clone();
    until("it stops", || {
        // A beat that had already read the block has overwritten the claim, which is allowed.
        if block.read().server != THEIRS {
            theirs = block.becomes_theirs(GuardState::Served);
        }
        condition()["state"] == "read-only"
    });
    let notices = condition()["notices"].to_string();
    assert!(notices.contains("a server of another host has claimed this volume"), "{notices}");
    let before = rest(&home);
    assert!(client.write(0, 16384, &[9; 4096]).is_err() && client.command(FLUSH, 0, 0, 0).is_err());
    assert_eq!(client.read(0, 4096).unwrap(), [7; 4096], "what was synced reads on");
    drop(client);
    // This is as long as two beats would take.
    std::thread::sleep(Duration::from_millis(2200));
    home.expect(8, &["detach", "disk"]);
    assert!(rest(&home) == before, "it wrote on");
    assert_eq!(block.read(), theirs, "it is not freed, either");
}

#[test]
fn of_two_hosts_that_claim_at_one_moment_the_last_one_stays() {
    let home = Home::new();
    let block = guarded(&home);
    block.becomes_theirs(GuardState::Free);
    let before = rest(&home);
    std::thread::scope(|scope| {
        let attaching = scope.spawn(|| home.complaint(4, &["attach", "--nbd", "disk"], "another host has claimed it, too"));
        until("the claim of this host", || block.read().state == GuardState::Served);
        block.becomes_theirs(GuardState::Served);
        attaching.join().unwrap();
    });
    assert!(rest(&home) == before && block.read().server == THEIRS, "it wrote");
}

/// Half of another host's write is read at the end of the wait (A2).
#[test]
fn a_guard_block_that_was_torn_meanwhile_is_a_sign_of_life() {
    let home = Home::new();
    let block = guarded(&home);
    block.becomes_theirs(GuardState::Served);
    let before = rest(&home);
    for words in [&["check", "disk"][..], &["attach", "--nbd", "disk"]] {
        block.write(Guard { server: THEIRS, host: THEIRS, state: GuardState::Served, ..Guard::new(block.uuid, THEIRS, (0, 0)) });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(1));
                block.file.write_all_at(&[0x5a; 512], GUARD_AT.get()).unwrap();
                block.file.sync_data().unwrap();
            });
            home.complaint(4, words, "another host serves it, and has written its guard block");
        });
    }
    assert!(rest(&home) == before, "it wrote");
}

#[test]
fn an_opening_that_is_ended_while_it_waits_leaves_no_claim() {
    let home = Home::new();
    let block = guarded(&home);
    block.becomes_theirs(GuardState::Free);
    let mut server = home.command(&["attach", "--nbd", "--foreground", "disk"]).spawn().unwrap();
    until("the claim of this host", || block.read().state == GuardState::Served);
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(1), "it waited on: {:?}", began.elapsed());
    assert_eq!((block.read().state, block.read().host == THEIRS), (GuardState::Free, false));
}

#[test]
fn a_guard_is_asked_for_in_whole_seconds_up_to_a_minute() {
    let home = Home::new();
    for wrong in ["--guard=0", "--guard=61", "--guard=x", "--guard=1.5", "--guard=-1"] {
        home.complaint(2, &["create", "disk", "--size", "32M", wrong], "--guard");
    }
    home.complaint(2, &["create", "disk", "--size", "32M", "--guard", "--buffered"], "--buffered");
    assert!(home.names().is_empty());
    let shown = home.says(0, &["create", "disk", "--size", "32M", "--guard"]);
    assert!(shown.contains("every 5 s: 17280 writes a day of 4 KiB each, 67.50 MiB"), "{shown}");
    let guard_ms = |name| home.json(&["status", name])["volume"]["guard_ms"].as_u64();
    home.expect(0, &["create", "longest", "--size", "32M", "--guard=60"]);
    home.expect(0, &["create", "bare", "--size", "32M"]);
    assert_eq!(["disk", "longest", "bare"].map(guard_ms), [Some(5000), Some(60_000), None]);
    assert!(!home.says(0, &["status", "bare"]).contains("guard"));
}

#[test]
fn a_damaged_guard_block_is_waited_for_and_written_anew() {
    let home = Home::new();
    let block = guarded(&home);
    block.file.write_all_at(&[0x5a; BLOCK_SIZE], GUARD_AT.get()).unwrap();
    block.file.sync_data().unwrap();
    assert_eq!(home.json(&["check", "disk"])["sound"].as_bool(), Some(true), "it is no content of the volume");
    assert!(attach(&home).contains("waiting 4 s to see"));
    assert_eq!(block.read().state, GuardState::Served);
    home.expect(0, &["detach", "disk"]);
}

/// Damages the last copy of the superblock, as far as an offline command sees.
fn damage(home: &Home) {
    let mut bytes = home.read("disk");
    let last = bytes.len() - BLOCK_SIZE;
    bytes[last..].fill(0);
    home.write("disk", bytes);
}

#[test]
fn a_repair_claims_the_volume_and_leaves_the_block_free() {
    let home = Home::new();
    let block = guarded(&home);
    damage(&home);
    block.becomes_theirs(GuardState::Free);
    let before = block.read();
    let (_, message) = home.expect(0, &["check", "--repair", "--yes", "disk"]);
    assert!(message.contains("waiting 2 s to see"), "{message}");
    let after = block.read();
    assert!(after.state == GuardState::Free && after.host != THEIRS && after.sequence >= before.sequence + 3, "{after:?}");
    home.expect(0, &["check", "disk"]);
    assert_eq!(attach(&home), "", "it waits for nobody");
    home.expect(0, &["detach", "disk"]);
}

#[test]
fn a_repair_that_loses_its_claim_writes_nothing_more() {
    let home = Home::new();
    let block = guarded(&home);
    damage(&home);
    let mut repair = OnTerminal::start(&home, &["check", "--repair", "disk"]);
    repair.shows("Repair?");
    let first = block.read();
    until("beats while the user thinks", || block.read().sequence >= first.sequence + 2);
    let (theirs, before) = (block.becomes_theirs(GuardState::Served), rest(&home));
    std::thread::sleep(Duration::from_secs(2));
    repair.terminal.write_all(b"y\n").unwrap();
    repair.shows("another host has claimed the volume");
    assert_eq!(repair.child.wait().unwrap().code(), Some(4));
    assert!(rest(&home) == before && block.read() == theirs, "it wrote");
}

#[test]
fn a_repair_whose_guard_block_cannot_be_read_writes_nothing_more_and_says_so() {
    let home = Home::new();
    let block = guarded(&home);
    damage(&home);
    let mut repair = OnTerminal::start(&home, &["check", "--repair", "disk"]);
    repair.shows("Repair?");
    let before = rest(&home);
    block.file.set_len(GUARD_AT.get()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    block.file.set_len(before.len() as u64).unwrap();
    block.file.write_all_at(&before, 0).unwrap();
    repair.terminal.write_all(b"y\n").unwrap();
    repair.shows("the guard block cannot be read or written");
    assert_eq!(repair.child.wait().unwrap().code(), Some(8));
    assert!(rest(&home) == before, "it wrote");
}
