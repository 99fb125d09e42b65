//! A full thin volume below ext4, over FUSE and loop: programs wait for room and see no error.

mod common;

use common::home::Home;
use common::{have, may_mount, rounds, run};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn lacks(test: &str) -> bool {
    !may_mount(test) || !have(test, &["mkfs.ext4", "e2fsck", "fstrim", "mount", "umount"])
}

/// Returns bytes that do not repeat.
fn noise(seed: u64, mib: usize) -> Vec<u8> {
    let mut bytes = vec![0; mib * MIB];
    common::Dice::new(seed).fill(&mut bytes);
    bytes
}

/// A thin volume with a mounted ext4 file system.
struct Rig {
    home: Home,
    device: String,
    at: PathBuf,
    is_mounted: bool,
}

impl Rig {
    /// Makes a volume that promises three times what it has.
    fn new(options: &[&str]) -> Self {
        let home = Home::new();
        home.expect(0, &["create", "volume", "--size", "64M", "--logical", "192M"]);
        let device = home.says(0, &[&["attach", "volume"], options].concat()).trim().to_owned();
        let at = PathBuf::from(home.path("mounted"));
        fs::create_dir(&at).unwrap();
        let mut rig = Self { home, device, at, is_mounted: false };
        run(Command::new("mkfs.ext4").args(["-q", &rig.device]));
        rig.mount();
        rig
    }

    fn mount(&mut self) {
        run(Command::new("mount").arg(&self.device).arg(&self.at));
        self.is_mounted = true;
    }

    fn umount(&mut self) {
        run(Command::new("umount").arg(&self.at));
        self.is_mounted = false;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Writes a file and syncs it.
    fn store(&self, name: &str, bytes: Vec<u8>) -> JoinHandle<std::io::Result<()>> {
        let path = self.file(name);
        std::thread::spawn(move || {
            let mut file = File::create(path)?;
            file.write_all(&bytes)?;
            file.sync_all()
        })
    }

    /// Returns the state; empty while a killed server is replaced.
    fn state(&self) -> String {
        let output = self.home.run(&["status", "volume", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["attached"]["condition"]["state"].as_str().unwrap_or_default().to_owned()
    }

    fn wait_for(&self, state: &str, patience_s: u64) {
        let give_up = Instant::now() + Duration::from_secs(patience_s);
        while self.state() != state {
            assert!(Instant::now() < give_up, "{} is not {state}", self.state());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn kill_server(&self) {
        let [_, server] = self.home.processes("volume");
        kill_process(server, Signal::KILL).unwrap();
    }

    /// Deletes a file, and trims until the waiting writer has continued.
    fn make_room(&self, name: &str, waits: &JoinHandle<std::io::Result<()>>) {
        fs::remove_file(self.file(name)).unwrap();
        let give_up = Instant::now() + Duration::from_secs(50);
        while !waits.is_finished() {
            assert!(Instant::now() < give_up, "it still waits: {}", self.state());
            run(Command::new("fstrim").arg(&self.at));
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Takes everything down, and checks the file system and the volume.
    fn end(mut self) {
        self.umount();
        run(Command::new("e2fsck").args(["-f", "-n", &self.device]));
        self.home.expect(0, &["detach", "volume"]);
        self.home.expect(0, &["check", "volume"]);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

#[test]
fn writes_below_ext4_wait_until_a_trim_makes_room() {
    if lacks("writes_below_ext4_wait_until_a_trim_makes_room") {
        return;
    }
    let rig =
        Rig::new(&["--when-full", "wait=120", "--on-warning", r#"echo "$ONEFOLD_LEVEL $ONEFOLD_STATE" >> "$ONEFOLD_VOLUME.warnings""#]);
    rig.store("first", noise(1, 30)).join().unwrap().unwrap();
    let waits = rig.store("second", noise(2, 45));
    rig.wait_for("full", 60);
    std::thread::sleep(Duration::from_secs(7));
    assert!(!waits.is_finished(), "it waits");
    rig.make_room("first", &waits);
    waits.join().unwrap().unwrap();
    assert!(fs::read(rig.file("second")).unwrap() == noise(2, 45));
    rig.wait_for("serving", 20);
    let warnings = rig.home.read("volume.warnings");
    let warnings = String::from_utf8(warnings).unwrap();
    assert!(warnings.contains("warning full") && warnings.contains("info serving"), "{warnings}");
    rig.end();
}

#[test]
fn a_server_that_is_killed_while_writes_wait_loses_none() {
    if lacks("a_server_that_is_killed_while_writes_wait_loses_none") {
        return;
    }
    let rig = Rig::new(&["--when-full", "wait=120"]);
    for round in 0..rounds("ONEFOLD_FULL_ROUNDS", 3) {
        rig.store("first", noise(10 * round + 1, 30)).join().unwrap().unwrap();
        let waits = rig.store("second", noise(10 * round + 2, 45));
        rig.wait_for("full", 60);
        for pause_ms in [300, 2500] {
            std::thread::sleep(Duration::from_millis(pause_ms));
            rig.kill_server();
            rig.wait_for("full", 60);
        }
        assert!(!waits.is_finished(), "it waits");
        rig.make_room("first", &waits);
        waits.join().unwrap().unwrap();
        assert!(fs::read(rig.file("second")).unwrap() == noise(10 * round + 2, 45), "{round}");
        fs::remove_file(rig.file("second")).unwrap();
        run(Command::new("sync").arg("-f").arg(&rig.at));
        run(Command::new("fstrim").arg(&rig.at));
    }
    rig.end();
}

/// Follows docs/operating.md.
#[test]
fn where_writes_fail_the_file_system_can_be_repaired() {
    if lacks("where_writes_fail_the_file_system_can_be_repaired") {
        return;
    }
    let mut rig = Rig::new(&["--when-full", "error"]);
    rig.store("first", noise(1, 30)).join().unwrap().unwrap();
    let failed = rig.store("second", noise(2, 45)).join().unwrap();
    assert!(failed.is_err(), "fsync reports it");
    rig.umount();
    rig.home.expect(0, &["detach", "volume"]);
    let device = rig.home.says(0, &["attach", "volume", "--when-full", "wait"]);
    device.trim().clone_into(&mut rig.device);
    let repaired = Command::new("e2fsck").args(["-f", "-y", &rig.device]).output().unwrap();
    assert!(matches!(repaired.status.code(), Some(0 | 1)), "{repaired:?}");
    run(Command::new("mount").args(["-o", "discard", &rig.device]).arg(&rig.at));
    rig.is_mounted = true;
    assert!(fs::read(rig.file("first")).unwrap() == noise(1, 30), "what was synced is there");
    let _ = fs::remove_file(rig.file("second"));
    run(Command::new("fstrim").arg(&rig.at));
    rig.store("third", noise(3, 10)).join().unwrap().unwrap();
    rig.end();
}
