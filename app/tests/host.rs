//! A sparse volume on a file system that is nearly full: deleting and trimming in the volume frees room below.

mod common;

use common::home::Home;
use common::nbd_client::Client;
use common::{have, rounds, run, skipped};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;

/// A small file system of its own.
struct Host(String);

impl Host {
    /// Mounts one in memory; none where this test cannot.
    fn in_memory(test: &str, home: &Home, mib: u64) -> Option<Self> {
        Self::mounted(test, home, &["-t", "tmpfs", "-o", &format!("size={mib}m"), "none"])
    }

    /// Mounts ext4 in a file; none where this test cannot. Where ext4 runs out of room, a file keeps what it has got so far.
    fn of_ext4(test: &str, home: &Home, mib: u64) -> Option<Self> {
        let file = home.path("ext4");
        if !have(test, &["mkfs.ext4"]) {
            return None;
        }
        home.blank("ext4", mib * MIB);
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0", &file]));
        Self::mounted(test, home, &["-o", "loop", &file])
    }

    fn mounted(test: &str, home: &Home, what: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped(test, "mounting needs root");
            return None;
        }
        let place = home.path("host");
        have(test, &["mount", "umount"]).then(|| {
            fs::create_dir(&place).unwrap();
            run(Command::new("mount").args(what).arg(&place));
            Self(place)
        })
    }

    fn available_mib(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.0).unwrap();
        stat.f_bavail * stat.f_frsize / MIB
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Writes this many MiB of content that does not repeat.
fn write(client: &mut Client, at_mib: u64, mib: u64, seed: u64) {
    let mut bytes = vec![0; 1 << 20];
    for i in 0..mib {
        common::Dice::new(seed * 1000 + i).fill(&mut bytes);
        client.write(0, (at_mib + i) * MIB, &bytes).unwrap();
    }
    client.command(FLUSH, 0, 0, 0).unwrap();
}

#[test]
fn deleting_in_the_volume_makes_room_on_its_host() {
    let test = "deleting_in_the_volume_makes_room_on_its_host";
    let home = Home::new();
    let Some(host) = Host::in_memory(test, &home, 256) else { return };
    let volume = format!("{}/volume", host.0);
    home.expect(0, &["create", &volume, "--size", "1G", "--sparse", "--buffered"]);
    assert!(Path::new(&volume).metadata().unwrap().len() > 256 * MIB);
    let socket = home.attach(&volume, &["--buffered", "--when-full", "wait=120"]);
    let mut client = Client::ready_for(&socket, true, "");
    write(&mut client, 0, 40, 1);
    // Another file fills it to nine tenths.
    let others = host.available_mib() - 25;
    fs::write(format!("{}/others", host.0), vec![1; usize::try_from(others * MIB).unwrap()]).unwrap();
    for round in 0..rounds("ONEFOLD_FULL_ROUNDS", 20) {
        client.command(TRIM, 0, 0, 40 << 20).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        // After freeing an eighth of it, it is not short any more, and the rest is kept for now.
        while host.available_mib() < 32 {
            assert!(Instant::now() < give_up, "{round}: {} MiB", host.available_mib());
            std::thread::sleep(Duration::from_millis(100));
        }
        write(&mut client, 0, 40, 2 + round);
        let state = home.json(&["status", &volume])["attached"]["condition"]["state"].as_str().unwrap().to_owned();
        assert_eq!(state, "serving", "{round}");
    }
    drop(client);
    home.expect(0, &["detach", &volume]);
    home.expect(0, &["check", &volume]);
}

/// The file system above deletes and trims: the host has room, and nobody has asked for anything.
#[test]
fn a_sparse_store_shrinks_within_a_minute_of_a_trim() {
    let home = Home::new();
    let volume = home.path("volume");
    home.expect(0, &["create", &volume, "--size", "256M", "--sparse", "--buffered"]);
    let socket = home.attach(&volume, &["--buffered"]);
    let mut client = Client::ready_for(&socket, true, "");
    let taken_mib = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&volume).unwrap()) * 512 / MIB;
    write(&mut client, 0, 8, 1);
    write(&mut client, 8, 96, 2);
    let before = taken_mib();
    assert!(before >= 104, "{before}");
    client.command(TRIM, 0, 8 << 20, 96 << 20).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    // The stock stays, and pieces in which other blocks lie, too.
    while taken_mib() > before - 80 {
        assert!(Instant::now() < give_up, "{} MiB of {before} after a minute", taken_mib());
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut bytes = vec![0; MIB as usize];
    for i in 0..8 {
        common::Dice::new(1000 + i).fill(&mut bytes);
        assert!(client.read(i * MIB, MIB as u32).unwrap() == bytes, "MiB {i}");
    }
    drop(client);
    home.expect(0, &["detach", &volume]);
    home.expect(0, &["check", "--data", &volume]);
}

#[test]
fn a_size_that_does_not_fit_takes_no_room() {
    let test = "a_size_that_does_not_fit_takes_no_room";
    let home = Home::new();
    let Some(host) = Host::of_ext4(test, &home, 96) else { return };
    let at = |name: &str| format!("{}/{name}", host.0);
    let volume = at("volume");
    assert!(home.says(0, &["create", &volume, "--size", "32M", "--buffered"]).contains("--logical SIZE shows them more"));
    let available = host.available_mib();
    home.complaint(1, &["grow", &volume, "--size", "1G", "--buffered"], "1 GiB large");
    assert_eq!((volume.as_ref() as &Path).metadata().unwrap().len(), 32 * MIB);
    home.complaint(1, &["create", &at("whole"), "--size", "1G", "--buffered"], "1 GiB are needed at once");
    home.complaint(1, &["create", &at("metadata"), "--size", "1T", "--sparse", "--buffered"], "are needed at once");
    let files = fs::read_dir(&host.0).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "lost+found").count();
    assert_eq!(files, 1, "no other file is left");
    assert!(host.available_mib().abs_diff(available) <= 1);
    let sparse = at("sparse");
    assert!(
        home.says(0, &["create", &sparse, "--size", "1G", "--sparse", "--buffered"]).contains("MiB free. When that is full, writes wait")
    );
    home.says(0, &["grow", &volume, "--size", "40M", "--buffered"]);
}
