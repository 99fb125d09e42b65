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
    for words in [["scrub", &device, "--no-wait"], ["scrub", &device, "--rate=1M"], ["dedup", "--all", &device]] {
        expect(rig, 8, &words, &["its store has failed"]);
    }
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
fn is_full_and_detached(rig: &mut Rig, file: File, place: &Path, because: &str) {
    let writer = std::thread::spawn(move || file.write_all_at(&noise(2, 40 << 20), 16 << 20).and_then(|()| file.sync_all()));
    let (device, volume) = (rig.device_text().to_owned(), place.to_str().unwrap());
    let status = || String::from_utf8_lossy(&rig.onefold(&["status", &device], IN_TIME_S).stdout).into_owned();
    let is_full = || status().lines().any(|line| line.starts_with("state") && line.contains("  full"));
    assert!(wait_until(PATIENCE, is_full), "it does not become full: {}\n{}", status(), rig.log());
    assert!(!writer.is_finished(), "the writer waits");
    expect(rig, 0, &["status", &device], &[because]);
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

fn state(rig: &Rig) -> String {
    let status = String::from_utf8_lossy(&rig.onefold(&["status", rig.device_text()], IN_TIME_S).stdout).into_owned();
    status.lines().find(|line| line.starts_with("state")).unwrap_or_default().to_owned()
}

fn wait_for_state(rig: &Rig, wanted: &str) {
    assert!(wait_until(PATIENCE, || state(rig).contains(wanted)), "not {wanted}: {}\n{}", state(rig), rig.log());
}

const NO_ROOM: &str = "full (the host has no room for the store)";

/// A store runs out of room without notice, and gets some again.
pub fn that_was_full_keeps_writers_waiting() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut plug, place, rig, file) = plugged(scratch.path());
    plug.fill();
    let writer = std::thread::spawn(move || file.write_all_at(&noise(2, 8 << 20), 16 << 20).and_then(|()| file.sync_all()));
    wait_for_state(&rig, NO_ROOM);
    expect(&rig, 0, &["status", rig.device_text()], &["the host has no room for the store: writes that need a new block wait for 60 s"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let status = rig.onefold(&["status", rig.device_text()], IN_TIME_S).stdout;
    assert_eq!(String::from_utf8_lossy(&status).matches("no room for the store:").count(), 1, "one notice for the cause");
    assert!(!writer.is_finished(), "the writer waits");
    plug.put_back();
    writer.join().unwrap().expect("it waited, and saw no error");
    wait_for_state(&rig, "serving");
    let mut found = vec![0; 8 << 20];
    open(&rig).read_exact_at(&mut found, 16 << 20).unwrap();
    assert!(found == noise(2, 8 << 20), "what was written while there was no room");
    expect(&rig, 0, &["detach", rig.device_text()], &[]);
    expect(&rig, 0, &["check", "--data", place.to_str().unwrap()], &[]);
}

/// The server is killed while its store refuses writes: the next one has them from the journal, and goes on waiting.
pub fn that_was_full_survives_a_kill() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut plug, place, rig, file) = plugged(scratch.path());
    plug.fill();
    let writer = std::thread::spawn(move || file.write_all_at(&noise(2, 2 << 20), 16 << 20).and_then(|()| file.sync_all()));
    wait_for_state(&rig, NO_ROOM);
    rig.kill_server();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(!writer.is_finished(), "the writer waits");
    plug.put_back();
    writer.join().unwrap().expect("it waited, and saw no error");
    wait_for_state(&rig, "serving");
    expect(&rig, 0, &["detach", rig.device_text()], &[]);
    expect(&rig, 0, &["check", "--data", place.to_str().unwrap()], &[]);
}

/// Nobody makes room, and the volume is detached.
pub fn that_is_full_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut plug, place, mut rig, file) = plugged(scratch.path());
    plug.fill();
    let writer = std::thread::spawn(move || file.write_all_at(&noise(2, 8 << 20), 16 << 20).and_then(|()| file.sync_all()));
    wait_for_state(&rig, NO_ROOM);
    expect(&rig, 8, &["detach", rig.device_text()], &["is detached"]);
    writer.join().unwrap().expect_err("it found no room");
    assert_eq!(rig.wait_end().code(), Some(8));
    plug.put_back();
    goes_on(rig, &place);
}

/// The volume treats a sparse file on a full file system as a full volume, and its store never fails.
pub fn on_a_full_file_system_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let small = Small::mounted(scratch.path().join("small"));
    let place = small.0.join("volume");
    let (mut rig, file) = volume(&place, &["--size", "64M", "--sparse"], &["--when-full", "wait=86400"]);
    is_full_and_detached(&mut rig, file, &place, "the host has no room for the store");
    small.grow();
    goes_on(rig, &place);
}

pub fn that_was_gone_is_detached_and_attached_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut plug, place, mut rig, file) = plugged(scratch.path());
    let device = rig.device_text().to_owned();
    std::thread::scope(|scope| {
        // It reads for longer than the store works.
        let scrub = scope.spawn(|| rig.onefold(&["scrub", "--rate", "64K", &device], 60));
        let is_under_way =
            || String::from_utf8_lossy(&rig.onefold(&["scrub", "--status", &device], IN_TIME_S).stdout).contains("read of about");
        assert!(wait_until(PATIENCE, is_under_way), "no scrub begins\n{}", rig.log());
        plug.pull();
        let mut writer = open(&rig);
        writer.write_all(&noise(4, 1 << 20)).and_then(|()| writer.sync_all()).expect_err("the store is gone");
        let ended = scrub.join().unwrap();
        assert_eq!(ended.status.code(), Some(8), "{}", String::from_utf8_lossy(&ended.stderr));
    });
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
    is_full_and_detached(&mut rig, file, &place, "Delete and trim");
    expect(&rig, 0, &["check", "--data", place.to_str().unwrap()], &[]);
}

/// A loop device, which goes when it is dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Self {
        Self(run(&["losetup", "--find", "--show", file.to_str().unwrap()], 20).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = try_run(&["losetup", "--detach", &self.0], 20);
    }
}

/// A disk of somebody else never answers: no command that does not name it waits for it.
pub fn that_is_silent_hangs_no_name() {
    let scratch = tempfile::tempdir().unwrap();
    let rig = Rig::volume("32M", &[]);
    let (other, label) = (scratch.path().join("other"), format!("mine {}", std::process::id()));
    let made = rig.onefold(&["create", "--size", "32M", "--label", &label, other.to_str().unwrap()], IN_TIME_S);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mine = Loop::over(&other);
    let mut plug = Plug::new(scratch.path(), 64 << 20);
    let silent = Loop::over(&plug.path());
    plug.silence();
    expect(&rig, 3, &["attach", "nothere"], &["no volume is called 'nothere'", &silent.0, "did not answer"]);
    expect(&rig, 3, &["detach", "nothere"], &["no volume is called 'nothere'"]);
    expect(&rig, 3, &["status", "nothere"], &["no volume is called 'nothere'"]);
    expect(&rig, 0, &["list"], &[]);
    expect(&rig, 0, &["list", "--all"], &[&label, &format!("{} does not answer", silent.0)]);
    // It is found by the paths that were seen before, and by a look at all devices.
    let begun = std::time::Instant::now();
    expect(&rig, 0, &["status", &label], &[&label]);
    assert!(begun.elapsed().as_secs_f64() < 1.5, "{:?}", begun.elapsed());
    let nothing_known = format!("ONEFOLD_STATE_DIR={}", scratch.path().display());
    let run_directory = format!("ONEFOLD_RUN_DIR={}", rig.directory.path().join("run").display());
    let found = try_run(&["env", &nothing_known, &run_directory, env!("CARGO_BIN_EXE_onefold"), "probe", &label], IN_TIME_S);
    assert!(String::from_utf8_lossy(&found.stdout).contains(&mine.0), "{found:?}");
    plug.put_back();
    expect(&rig, 0, &["detach", rig.device_text()], &[]);
}
