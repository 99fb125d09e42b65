//! `onefold grow`: a volume becomes larger, detached and attached.

mod common;

use common::home::Home;
use common::nbd_client::*;
use common::{Dice, have, may_mount, run};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const VOLUME: &str = "volume";
const MIB: u64 = 1 << 20;
const MODES: [&str; 2] = ["log", "ordered"];

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    Dice::new(seed).fill(&mut noise);
    noise
}

/// Returns the size on the store, and that for clients.
fn sizes(home: &Home) -> (u64, u64) {
    let status = home.json(&["status", VOLUME]);
    let of = |field: &str| status["volume"][field].as_u64().unwrap();
    (of("device_bytes"), of("logical_bytes"))
}

fn lengthen(home: &Home, bytes: u64) {
    File::options().write(true).open(home.path(VOLUME)).unwrap().set_len(bytes).unwrap();
}

fn is_sound(home: &Home) {
    assert!(home.says(0, &["check", "--data", VOLUME]).contains("The volume is sound"));
}

/// Writes as a client that goes away without a flush, and kills its server.
fn write_and_crash(home: &Home, at: u64, bytes: &[u8]) {
    let mut client = Client::ready_for(&home.attach(VOLUME, &[]), true, "");
    client.write(0, at, bytes).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    home.kill(VOLUME);
}

fn read(home: &Home, at: u64, bytes: usize) -> Vec<u8> {
    let mut client = Client::ready_for(&home.attach(VOLUME, &[]), true, "");
    let read = client.read(at, u32::try_from(bytes).unwrap()).unwrap();
    drop(client);
    home.says(0, &["detach", VOLUME]);
    read
}

#[test]
fn a_volume_takes_what_its_file_has_got() {
    for mode in MODES {
        let home = Home::new();
        home.says(0, &["create", VOLUME, "--size", "64M", "--commit-mode", mode]);
        let (_, before) = sizes(&home);
        let content = noise(1, 1 << 20);
        write_and_crash(&home, 0, &content);
        lengthen(&home, 128 * MIB);
        let plan = home.says(0, &["grow", VOLUME, "--dry-run"]);
        assert!(plan.contains("Nothing was written") && plan.contains("128 MiB, before 64 MiB"), "{plan}");
        assert_eq!(sizes(&home), (64 * MIB, before));
        // The volume was not closed: its log, or its garbage, is still there.
        let grown = home.says(0, &["grow", VOLUME]);
        assert!(grown.contains("128 MiB, before 64 MiB"), "{grown}");
        let (device, logical) = sizes(&home);
        assert!(device == 128 * MIB && logical > before + 60 * MIB, "{mode}: {device}, {logical}");
        assert!(read(&home, 0, 1 << 20) == content);
        write_and_crash(&home, logical - (1 << 20), &noise(2, 1 << 20));
        assert!(read(&home, logical - (1 << 20), 1 << 20) == noise(2, 1 << 20));
        is_sound(&home);
        let again = home.says(0, &["grow", VOLUME]);
        assert!(again.contains("The volume has that size already: nothing was changed."), "{again}");
        assert_eq!(home.json(&["grow", VOLUME])["changed"], false);
    }
}

#[test]
fn a_file_is_made_larger_and_keeps_its_way_of_getting_space() {
    for (option, is_whole) in [("--sparse", false), ("--preallocate", true)] {
        let home = Home::new();
        home.says(0, &["create", VOLUME, "--size", "32M", option]);
        home.says(0, &["grow", VOLUME, "--size", "96M", "--logical", "200M"]);
        assert_eq!(sizes(&home), (96 * MIB, 200 * MIB));
        let stat = fs::metadata(home.path(VOLUME)).unwrap();
        assert_eq!((stat.len(), stat.blocks() * 512 >= stat.len()), (96 * MIB, is_whole));
        is_sound(&home);
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let before = home.read(VOLUME);
    home.complaint(11, &["grow", VOLUME, "--size", "32M"], "cannot shrink to 32 MiB");
    home.complaint(11, &["grow", VOLUME, "--logical", "32M"], "cannot see less: 32 MiB");
    home.complaint(11, &["grow", VOLUME, "--logical", "100G"], "make the logical size smaller or the device larger");
    home.complaint(2, &["grow", VOLUME, "--logical", "100000001"], "no multiple of 4096");
    home.complaint(3, &["grow", "nowhere"], "nowhere");
    home.blank("blank", 64 * MIB);
    home.complaint(3, &["grow", "blank"], "no Onefold volume");
    assert!(home.read(VOLUME) == before);
    home.attach(VOLUME, &["--read-only"]);
    home.complaint(5, &["grow", VOLUME, "--size", "96M"], "attached read-only");
    home.says(0, &["detach", VOLUME]);
    home.attach("blank", &["--passthrough"]);
    home.complaint(5, &["grow", "blank"], "passed through");
    home.says(0, &["detach", "blank"]);
    assert!(home.read(VOLUME) == before);
}

#[test]
fn a_volume_grows_while_nbd_clients_have_it() {
    for mode in MODES {
        let home = Home::new();
        home.says(0, &["create", VOLUME, "--size", "64M", "--commit-mode", mode]);
        let socket = home.attach(VOLUME, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        let before = client.export_bytes;
        client.write(0, 0, &[7; 4096]).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
        // Acknowledged, and not flushed.
        client.write(0, 4096, &noise(8, 4096)).unwrap();
        home.says(0, &["grow", VOLUME, "--size", "128M"]);
        let mut client = Client::ready_for(&socket, true, "");
        assert!(client.export_bytes > before + 60 * MIB, "{} bytes", client.export_bytes);
        assert_eq!((client.read(0, 4096).unwrap(), client.read(4096, 4096).unwrap()), (vec![7; 4096], noise(8, 4096)));
        client.write(0, client.export_bytes - 4096, &noise(9, 4096)).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
        let end = client.export_bytes - 4096;
        drop(client);
        assert_eq!(home.json(&["list", VOLUME])["volumes"][0]["logical_bytes"], end + 4096);
        assert!(home.says(0, &["grow", VOLUME]).contains("nothing was changed"));
        // The next server has what the one that grew it had.
        kill_process(home.processes(VOLUME)[1], Signal::KILL).unwrap();
        let mut client = Client::ready_for(&socket, true, "");
        assert_eq!(client.read(end, 4096).unwrap(), noise(9, 4096));
        drop(client);
        home.says(0, &["detach", VOLUME]);
        is_sound(&home);
        assert!(home.names().iter().all(|name| !name.contains("grow")), "{:?}", home.names());
    }
}

fn lacks(test: &str) -> bool {
    !may_mount(test) || !have(test, &["mkfs.ext4", "e2fsck", "resize2fs", "mount", "umount"])
}

/// Whether this process may resize a mounted ext4 file system: it needs CAP_SYS_RESOURCE.
fn may_resize_mounted() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    u64::from_str_radix(effective, 16).unwrap() & 1 << CAP_SYS_RESOURCE != 0
}

/// A mounted ext4 file system, which is taken away when it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn of(home: &Home, device: &str) -> Self {
        fs::create_dir(home.path("mounted")).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", device]));
        Self::again(home, device)
    }

    fn again(home: &Home, device: &str) -> Self {
        let at = PathBuf::from(home.path("mounted"));
        run(Command::new("mount").arg(device).arg(&at));
        Self(at)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Runs `work` while a file is written, and gives it a call that waits for some of these writes.
fn under_load(file: &Path, work: impl FnOnce(&dyn Fn())) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load(file, &stop, &done));
        let progress = || {
            let before = done.load(Ordering::Relaxed);
            while done.load(Ordering::Relaxed) < before + 100 && !load.is_finished() {
                std::thread::yield_now();
            }
        };
        progress();
        // If it panics, the load must end, too, so that the panic is seen.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&progress)));
        stop.store(true, Ordering::Relaxed);
        load.join().expect("the load saw no error");
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Writes blocks of a file and reads them back until `stop`, and counts.
fn load(file: &Path, stop: &AtomicBool, done: &AtomicU64) {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(file).unwrap();
    let mut written = Vec::<u64>::new();
    while !stop.load(Ordering::Relaxed) {
        let (block, version) = (done.load(Ordering::Relaxed) % 512, done.fetch_add(1, Ordering::Relaxed));
        written.resize(written.len().max(usize::try_from(block).unwrap() + 1), 0);
        written[usize::try_from(block).unwrap()] = version;
        file.write_all_at(&noise(version, 4096), block * 4096).unwrap();
        if version % 16 == 0 {
            file.sync_all().unwrap();
        }
    }
    file.sync_all().unwrap();
    for (block, version) in (0..).zip(written) {
        let mut read = vec![0; 4096];
        file.read_exact_at(&mut read, block * 4096).unwrap();
        assert!(read == noise(version, 4096), "block {block}");
    }
}

#[test]
fn a_mounted_file_system_grows_under_load() {
    if lacks("a_mounted_file_system_grows_under_load") {
        return;
    }
    for mode in MODES {
        let home = Home::new();
        home.says(0, &["create", VOLUME, "--size", "48M", "--commit-mode", mode]);
        let device = home.says(0, &["attach", "--fuse", VOLUME]).trim().to_owned();
        let mut mounted = Mounted::of(&home, &device);
        under_load(&mounted.file("load"), |progress| {
            // Named by where it is mounted.
            home.says(0, &["grow", &home.path("mounted"), "--size", "128M"]);
            assert!(home.says(0, &["status", VOLUME]).contains("gave way to the next one, so that the volume can grow"), "{mode}");
            progress();
            let (_, logical) = sizes(&home);
            assert_eq!(run(Command::new("blockdev").args(["--getsize64", &device])).trim(), logical.to_string(), "{mode}");
            if may_resize_mounted() {
                run(Command::new("resize2fs").arg(&device));
            }
        });
        // Otherwise ext4 refuses to be resized while it is mounted; the device has grown under it all the same.
        if !may_resize_mounted() {
            drop(mounted);
            run(Command::new("e2fsck").args(["-f", "-n", &device]));
            // That noted nothing, and resize2fs wants a check since the last mount.
            run(Command::new("e2fsck").args(["-f", "-p", &device]));
            run(Command::new("resize2fs").arg(&device));
            mounted = Mounted::again(&home, &device);
        }
        let mut large = File::create(mounted.file("large")).unwrap();
        large.write_all(&noise(1, 60 << 20)).unwrap();
        large.sync_all().unwrap();
        drop(large);
        assert!(fs::read(mounted.file("large")).unwrap() == noise(1, 60 << 20));
        drop(mounted);
        run(Command::new("e2fsck").args(["-f", "-n", &device]));
        home.says(0, &["detach", VOLUME]);
        is_sound(&home);
    }
}

/// A write waits for room, and the room comes by growth.
#[test]
fn a_full_thin_volume_goes_on_after_it_has_grown() {
    if lacks("a_full_thin_volume_goes_on_after_it_has_grown") {
        return;
    }
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "32M", "--logical", "128M"]);
    let command = r#"echo "$ONEFOLD_LEVEL $ONEFOLD_STATE $ONEFOLD_MESSAGE" >> "$ONEFOLD_VOLUME.warnings""#;
    let device = home.says(0, &["attach", "--fuse", VOLUME, "--when-full", "wait=120", "--on-warning", command]).trim().to_owned();
    let mounted = Mounted::of(&home, &device);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = File::create(mounted.file("large"))?;
            file.write_all(&noise(1, 60 << 20))?;
            file.sync_all()
        });
        let is_full = || home.json(&["status", VOLUME])["attached"]["condition"]["state"] == "full";
        while !is_full() {
            assert!(!writer.is_finished(), "there was no room for it");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let grown = home.run(&["grow", VOLUME, "--size", "112M"]);
        writer.join().unwrap().unwrap();
        assert!(grown.status.success(), "{grown:?}");
    });
    assert!(fs::read(mounted.file("large")).unwrap() == noise(1, 60 << 20));
    drop(mounted);
    home.says(0, &["detach", VOLUME]);
    is_sound(&home);
    // The server that reported it as full is not the one that serves it since.
    let warnings = String::from_utf8(home.read(&format!("{VOLUME}.warnings"))).unwrap();
    let lines: Vec<&str> = warnings.lines().filter(|line| line.contains(" full ") || line.contains("room again")).collect();
    assert!(lines.first().is_some_and(|line| line.starts_with("warning full")), "{warnings}");
    assert_eq!(lines.last(), Some(&"info serving the volume has room again"), "{warnings}");
}
