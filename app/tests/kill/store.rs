//! A store that fails below an attached volume, and works again; and a volume that is full. Each command ends in time, with the exit code
//! that `docs/operating.md` names, and prints what to do.

use crate::plug::Plug;
use crate::rig::{PATIENCE, Rig, is_attached};
use crate::tools::{Random, run, try_run, wait_until};
use onefold_engine::buffer::BufferMut;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The longest time that a command may take, whatever the store does.
const IN_TIME_S: u64 = 5;

/// A file system in memory that can run full.
struct Small(PathBuf);

impl Small {
    fn mounted(at: PathBuf) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        run(&["mount", "-t", "tmpfs", "-o", "size=24M", "onefold-test", at.to_str().unwrap()], 20);
        Self(at)
    }

    fn grow(&self) {
        run(&["mount", "-o", "remount,size=200M", self.0.to_str().unwrap()], 20);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = try_run(&["umount", "-l", self.0.to_str().unwrap()], 20);
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes / 8).flat_map(|_| random.next().to_ne_bytes()).collect()
}

fn open(rig: &Rig) -> File {
    File::options().read(true).write(true).open(rig.device()).unwrap()
}

/// Runs a command about the volume, which ends in time with `code` and prints all of `wanted`.
fn expect(rig: &Rig, code: i32, words: &[&str], wanted: &[&str]) {
    let output = rig.onefold(words, IN_TIME_S);
    let message = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {message}\n{}", rig.log());
    for wanted in wanted {
        assert!(message.contains(wanted), "{words:?} does not say \"{wanted}\": {message}");
    }
}

/// Makes a volume at `place`, and syncs 4 MiB.
fn volume(place: &Path, made: &[&str], attached: &[&str]) -> (Rig, File) {
    let rig = Rig::volume_at(place, made, attached);
    let mut file = open(&rig);
    file.write_all(&noise(1, 4 << 20)).unwrap();
    file.sync_all().unwrap();
    (rig, file)
}

/// Checks what each command reports about a volume whose store fails, and detaches it at last.
fn is_told_and_detached(rig: &mut Rig, mut file: File, place: &Path) {
    file.write_all(&noise(2, 32 << 20)).and_then(|()| file.sync_all()).expect_err("the store does not take all that");
    // These data are not flushed, and never will be.
    let _ = file.write_all_at(BufferMut::zeroed(4).bytes(), 0);
    drop(file);
    let (device, volume) = (rig.device_text().to_owned(), place.to_str().unwrap());
    expect(rig, 0, &["status", &device], &["read-only"]);
    expect(rig, 0, &["stats", &device], &[]);
    expect(rig, 0, &["list"], &[volume]);
    expect(rig, 4, &["attach", volume], &["detach"]);
    expect(rig, 4, &["check", volume], &["detach"]);
    expect(rig, 8, &["detach", &device], &["is detached, but its store had failed", "When the store works again, `onefold attach"]);
    assert!(!is_attached(rig.device()));
    assert_eq!(rig.wait_end().code(), Some(8));
}

/// Makes the store work again, and checks that the volume has what was synced.
fn goes_on(rig: Rig, place: &Path) {
    let rig = rig.attach_again(&[]);
    let file = open(&rig);
    let mut found = vec![0; 4 << 20];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == noise(1, 4 << 20), "what was synced is not there");
    file.write_all_at(&noise(3, 1 << 20), 40 << 20).unwrap();
    file.sync_all().expect("it takes writes again");
    drop(file);
    expect(&rig, 0, &["detach", rig.device_text()], &[]);
    expect(&rig, 0, &["check", "--data", place.to_str().unwrap()], &[]);
}

/// Checks a full attached volume whose writes wait for a day: each command reports it, and `detach` waits for none of them.
fn is_full_and_detached(rig: &mut Rig, file: File, place: &Path) {
    let writer = std::thread::spawn(move || file.write_all_at(&noise(2, 40 << 20), 16 << 20).and_then(|()| file.sync_all()));
    let (device, volume) = (rig.device_text().to_owned(), place.to_str().unwrap());
    let status = || String::from_utf8_lossy(&rig.onefold(&["status", &device], IN_TIME_S).stdout).into_owned();
    let is_full = || status().lines().any(|line| line.starts_with("state") && line.ends_with("full"));
    assert!(wait_until(PATIENCE, is_full), "it does not become full: {}\n{}", status(), rig.log());
    assert!(!writer.is_finished(), "the writer waits");
    expect(rig, 0, &["status", &device], &["the volume is full", "Delete and trim"]);
    expect(rig, 0, &["stats", &device], &[]);
    expect(rig, 0, &["list"], &[volume]);
    expect(rig, 4, &["check", volume], &["detach"]);
    expect(rig, 8, &["detach", &device], &["could not be flushed", "make room (delete and trim)"]);
    writer.join().unwrap().expect_err("it found no room");
    let ended = rig.wait_end();
    assert!(ended.success() && !is_attached(rig.device()), "{ended}\n{}", rig.log());
}

/// Makes a volume on a store that may fail.
fn plugged(directory: &Path) -> (Plug, PathBuf, Rig, File) {
    let plug = Plug::new(directory, 64 << 20);
    let place = plug.path();
    let (rig, file) = volume(&place, &["--force"], &[]);
    (plug, place, rig, file)
}

/// A store runs out of room without notice.
pub fn that_was_full_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut plug, place, mut rig, file) = plugged(scratch.path());
    plug.fill();
    is_told_and_detached(&mut rig, file, &place);
    plug.put_back();
    goes_on(rig, &place);
}

/// The volume treats a sparse file on a full file system as a full volume, and its store never fails.
pub fn on_a_full_file_system_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let small = Small::mounted(scratch.path().join("small"));
    let place = small.0.join("volume");
    let (mut rig, file) = volume(&place, &["--size", "64M", "--sparse"], &["--when-full", "wait=86400"]);
    is_full_and_detached(&mut rig, file, &place);
    small.grow();
    goes_on(rig, &place);
}

pub fn that_was_gone_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut plug, place, mut rig, file) = plugged(scratch.path());
    plug.pull();
    is_told_and_detached(&mut rig, file, &place);
    let volume = place.to_str().unwrap();
    expect(&rig, 1, &["attach", volume], &["none of the four superblocks can be read", "When the device works again"]);
    expect(&rig, 1, &["check", volume], &["none of the four superblocks can be read", "When the device works again"]);
    expect(&rig, 1, &["status", volume], &["none of the four superblocks can be read", "When the device works again"]);
    expect(&rig, 0, &["list"], &[]);
    expect(&rig, 3, &["detach", volume], &["is not attached"]);
    plug.put_back();
    goes_on(rig, &place);
}

/// Writes that wait for room for a day do not make `detach` wait.
pub fn a_full_volume_is_detached_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("volume");
    let (mut rig, file) = volume(&place, &["--size", "32M", "--logical", "96M"], &["--when-full", "wait=86400"]);
    is_full_and_detached(&mut rig, file, &place);
    expect(&rig, 0, &["check", "--data", place.to_str().unwrap()], &[]);
}
