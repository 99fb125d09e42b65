//! A FUSE session whose server is killed, with a loop device, a file system and a verified load on top.

use crate::rig::{PATIENCE, Rig, arguments, descendants, first_line, is_attached, kill, kill_all};
use crate::tools::{Random, command, program, run, try_run, wait_until};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Returns why the tests here are not possible, if they are not.
pub fn needed() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root may mount and make loop devices".into());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        File::options().read(true).write(true).open(device).map_err(|e| format!("cannot open {device}: {e}"))?;
    }
    ["losetup", "blkdiscard"].into_iter().try_for_each(program)
}

pub fn needed_for_ext4() -> Result<(), String> {
    ["fio", "mkfs.ext4", "e2fsck", "mount"].into_iter().try_for_each(program)?;
    needed()
}

pub fn ext4_under_verified_load() {
    const KILLS: usize = 7;
    let mut rig = Rig::new(1 << 30, 1000, &[]);
    run(&["mkfs.ext4", "-q", "-F", rig.device_text()], 60);
    let at = rig.mount();
    let load = at.join("load");
    let load = format!("--filename={}", load.display());
    let words = [
        "fio",
        "--name=load",
        &load,
        "--size=150M",
        "--rw=randrw",
        "--bsrange=4k-128k",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=16",
        // Without this option fio races with itself: a block is checked while an overlapping write is under way.
        "--serialize_overlap=1",
        "--fsync=64",
        "--verify=crc32c",
        "--verify_backlog=256",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--runtime=14",
        "--time_based",
        "--randseed=4",
    ];
    let mut fio = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let mut synced = Vec::new();
    for round in 0..KILLS {
        // A file that is synced between two kills has to be there at the end.
        let path = at.join(format!("synced-{round}"));
        let content = bytes_of(u64::try_from(round).unwrap(), 2 << 20);
        fs::write(&path, &content).unwrap();
        let ((), ()) = std::thread::scope(|scope| {
            let killing = scope.spawn(|| rig.kill_server());
            File::open(&path).unwrap().sync_all().expect("no error reaches a file's user");
            (killing.join().unwrap(), ())
        });
        synced.push((path, content));
        std::thread::sleep(Duration::from_millis(1600));
    }
    assert!(wait_until(Duration::from_secs(60), || fio.try_wait().unwrap().is_some()), "fio does not end\n{}", rig.log());
    let output = fio.wait_with_output().unwrap();
    let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !message.contains("verify:"), "{}\n{message}", output.status);
    assert_eq!(rig.log().matches("Replaced").count(), KILLS, "{}", rig.log());

    rig.unmount();
    run(&["e2fsck", "-fn", rig.device_text()], 60);
    rig.mount();
    for (path, content) in &synced {
        assert!(fs::read(path).unwrap() == *content, "{} is not what was synced", path.display());
    }
    rig.unmount();
    rig.detach();
}

pub fn many_quick_kills() {
    let rig = Rig::new(WRITERS * REGION, 1000, &[]);
    kill_under_writers(rig, 40, |random| Duration::from_millis(20 + random.below(160)));
}

/// On a volume, acknowledged data that were not flushed survive the server, too.
pub fn of_a_volume_keeps_every_acknowledged_write() {
    // The supervisor gives up after five deaths within ten seconds.
    kill_under_writers(Rig::volume("128M", &[]), 6, |random| Duration::from_millis(2550 + random.below(300)));
}

/// If everything acknowledged is durable, there is nothing to promise.
pub fn of_a_strong_volume_keeps_every_acknowledged_write() {
    kill_under_writers(Rig::volume("128M", &["--persistence", "strong"]), 3, |random| Duration::from_millis(2550 + random.below(300)));
}

const WRITERS: u64 = 6;
const REGION: u64 = 8 << 20;

/// Runs writers of their own regions, which know what each block must hold, while servers die `kills` times.
fn kill_under_writers(rig: Rig, kills: u64, pause: impl Fn(&mut Random) -> Duration) {
    let stop = AtomicBool::new(false);
    let device = rig.device().to_owned();
    let writes: u64 = std::thread::scope(|scope| {
        let writer = |i| {
            let (device, stop) = (&device, &stop);
            scope.spawn(move || write_and_check(device, i * REGION, REGION, stop))
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let mut random = Random(7);
        for _ in 0..kills {
            std::thread::sleep(pause(&mut random));
            rig.kill_server();
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap_or_else(|_| panic!("{}", rig.log()))).sum()
    });
    // However busy the machine, each life has written something.
    assert!(writes > kills, "{writes} writes show nothing");
    assert_eq!(rig.log().matches("Replaced").count(), usize::try_from(kills).unwrap(), "{}", rig.log());
    rig.detach();
}

/// Writes one to 64 blocks at random places of a region, and checks blocks at random places, until it is stopped, then checks all. Returns
/// the number of writes.
fn write_and_check(device: &Path, start: u64, bytes: u64, stop: &AtomicBool) -> u64 {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
    let file = File::options().read(true).write(true).custom_flags(direct).open(device).unwrap();
    let mut random = Random(start);
    let blocks = bytes / 4096;
    let mut versions = vec![0_u64; usize::try_from(blocks).unwrap()];
    let mut buffer = onefold_engine::buffer::BufferMut::zeroed(64);
    let mut rounds = 0;
    let check = |buffer: &mut onefold_engine::buffer::BufferMut, versions: &[u64], block: u64| {
        file.read_exact_at(&mut buffer.bytes_mut()[..4096], start + block * 4096).expect("a read while servers die");
        let mut expected = [0; 4096];
        let version = versions[usize::try_from(block).unwrap()];
        if version > 0 {
            fill(&mut expected, start, block, version);
        }
        let found = u64::from_ne_bytes(buffer.bytes()[..8].try_into().unwrap());
        assert!(*buffer.block(0) == expected, "block {block} of region {start} is not version {version}; its first word is {found:x}");
    };
    while !stop.load(Ordering::Relaxed) {
        rounds += 1;
        let count = if random.below(4) == 0 { 1 + random.below(64) } else { 1 };
        let first = random.below(blocks - count + 1);
        for i in 0..count {
            versions[usize::try_from(first + i).unwrap()] = rounds;
            fill(buffer.block_mut(usize::try_from(i).unwrap()), start, first + i, rounds);
        }
        let range = ..usize::try_from(count * 4096).unwrap();
        file.write_all_at(&buffer.bytes()[range], start + first * 4096).expect("a write while servers die");
        if random.below(50) == 0 {
            file.sync_all().expect("a flush while servers die");
        }
        check(&mut buffer, &versions, random.below(blocks));
    }
    (0..blocks).for_each(|block| check(&mut buffer, &versions, block));
    rounds
}

pub fn fill(block: &mut [u8; 4096], region: u64, number: u64, version: u64) {
    for (i, word) in block.chunks_exact_mut(8).enumerate() {
        let i = u64::try_from(i).unwrap();
        word.copy_from_slice(&(region ^ (number << 40) ^ (version << 16) ^ i).to_ne_bytes());
    }
}

fn bytes_of(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes / 8).flat_map(|_| random.next().to_ne_bytes()).collect()
}

pub fn gives_up_on_a_server_that_keeps_dying() {
    let mut rig = Rig::new(16 << 20, 5, &[]);
    let user = File::open(rig.device()).unwrap();
    for _ in 0..5 {
        rig.kill_server();
    }
    assert!(!rig.wait_end().success());
    assert!(rig.log().contains("died 5 times within 10s"), "{}", rig.log());
    fails_and_goes(&rig, user);
}

pub fn without_resend_ends_with_errors() {
    let mut rig = Rig::new(16 << 20, 1000, &[("FUSE_RAM_WITHOUT_RESEND", "1")]);
    let user = File::open(rig.device()).unwrap();
    assert!(rig.log().contains("resend: false"), "{}", rig.log());
    rig.kill_server();
    assert!(!rig.wait_end().success());
    assert!(rig.log().contains("cannot send its requests again"), "{}", rig.log());
    fails_and_goes(&rig, user);
}

/// Checks that a user of the device of a dead session gets an error at once, instead of waiting forever, and that the device is removed
/// with its last user.
fn fails_and_goes(rig: &Rig, user: File) {
    assert!(user.read_exact_at(&mut [0; 4096], 0).is_err(), "a read of a dead session succeeds");
    assert!(is_attached(rig.device()), "the device is gone below its user");
    drop(user);
    assert!(wait_until(PATIENCE, || !is_attached(rig.device())), "a dead device stays");
}

/// After everything was killed, the dead device remains until the volume is attached again, which makes a new one.
pub fn begun_again_takes_the_dead_device_away() {
    let rig = Rig::volume("64M", &[]);
    let first = rig.device().to_owned();
    let written = File::options().read(true).write(true).open(&first).unwrap();
    written.write_all_at(&[8; 4096], 1 << 20).unwrap();
    written.sync_all().unwrap();
    // The data are acknowledged but not flushed: the next server has them from the acknowledgement journal, whatever it promises itself.
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
    let unsynced = File::options().write(true).custom_flags(direct).open(&first).unwrap();
    let mut buffer = onefold_engine::buffer::BufferMut::zeroed(1);
    buffer.bytes_mut().fill(9);
    unsynced.write_all_at(buffer.bytes(), 2 << 20).unwrap();
    kill_all(rig.supervisor.id());
    assert!(wait_until(PATIENCE, || descendants(rig.supervisor.id()).is_empty()));
    assert!(is_attached(&first), "this test is about a device that is left behind");
    drop((written, unsynced));
    let rig = rig.attach_again(&["--persistence", "strong"]);
    // The new device may have the same number.
    assert!(rig.device() == first || !is_attached(&first), "{} is still there", first.display());
    for (at, content) in [(1 << 20, 8), (2 << 20, 9)] {
        let mut block = [0; 4096];
        File::open(rig.device()).unwrap().read_exact_at(&mut block, at).unwrap();
        assert_eq!(block, [content; 4096]);
    }
    rig.detach();
}

pub fn is_detached_by_sigterm_unless_in_use() {
    let mut rig = Rig::new(16 << 20, 5, &[]);
    let terminate = |rig: &Rig| {
        let pid = rustix::process::Pid::from_child(&rig.supervisor);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    };
    // The device is in use like a mounted one: it is opened exclusively.
    let exclusive = i32::try_from(rustix::fs::OFlags::EXCL.bits()).unwrap();
    let user = File::options().read(true).write(true).custom_flags(exclusive).open(rig.device()).unwrap();
    terminate(&rig);
    assert!(wait_until(PATIENCE, || rig.log().contains("DetachFailed")), "{}", rig.log());
    user.write_all_at(&[7; 4096], 0).unwrap();
    user.sync_all().expect("a device in use goes on working");
    drop(user);
    terminate(&rig);
    let status = rig.wait_end();
    assert!(status.success(), "{status}\n{}", rig.log());
    assert!(!is_attached(rig.device()));
    assert_eq!(fs::read(rig.directory.path().join("backing")).unwrap()[..4096], [7; 4096]);
}

/// The session is killed at any moment of its start: either it never starts, and reports that, or it works.
pub fn killed_at_its_beginning() {
    const EACH: u64 = 5;
    let (mut begun, mut refused) = (0, 0);
    for round in 0..100_u64 {
        // Every other server is slow: on a fast machine the others are ready before they are seen.
        let slow = [("FUSE_RAM_READY_AFTER_MS", "20")];
        let mut rig = Rig::started(16 << 20, 1000, if round % 2 == 0 { &slow } else { &[] });
        let give_up = Instant::now() + PATIENCE;
        while rig.server().is_none() && Instant::now() < give_up {}
        // The delay grows each time, so that a slow machine's servers are ready.
        std::thread::sleep(Duration::from_micros((round % 10).pow(2) * 400 * (1 + round / 10)));
        if let Some(server) = rig.server() {
            kill(server);
        }
        let line = first_line(rig.supervisor.stdout.take().unwrap());
        if line.is_empty() {
            refused += 1;
            assert!(!rig.wait_end().success());
            assert!(rig.log().contains("the server did not start"), "{}", rig.log());
        } else {
            begun += 1;
            rig.device = Some(line.into());
            assert!(fs::read(rig.device()).unwrap().iter().all(|&b| b == 0));
            rig.detach();
        }
        if begun >= EACH && refused >= EACH {
            return;
        }
    }
    assert!(begun > 0 && refused > 0, "{begun} begun, {refused} refused: one case was never met");
}

/// The server is not replaced then, but it continues, and its end takes everything down.
pub fn outlives_its_supervisor() {
    let mut rig = Rig::new(16 << 20, 5, &[]);
    let server = rig.server().unwrap();
    kill(rig.supervisor.id());
    rig.supervisor.wait().unwrap();
    let file = File::options().read(true).write(true).open(rig.device()).unwrap();
    file.write_all_at(&[3; 4096], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    run(&["losetup", "-d", rig.device_text()], 20);
    let ended = wait_until(PATIENCE, || arguments(server).len() < 2);
    if !ended {
        kill(server);
    }
    assert!(ended, "the server goes on\n{}", rig.log());
    assert_eq!(fs::read(rig.directory.path().join("backing")).unwrap()[..4096], [3; 4096]);
}

pub fn ended_by_its_server() {
    let mut rig = Rig::new(16 << 20, 5, &[("FUSE_RAM_STOP_AFTER_MS", "500")]);
    let file = File::options().read(true).write(true).open(rig.device()).unwrap();
    file.write_all_at(&[5; 8192], 4096).unwrap();
    // The data are not synced: removing the device does that.
    drop(file);
    let status = rig.wait_end();
    assert!(status.success(), "{status}\n{}", rig.log());
    assert!(!is_attached(rig.device()));
    assert_eq!(fs::read(rig.directory.path().join("backing")).unwrap()[4096..12288], [5; 8192]);
}

pub fn ended_with_a_failure_is_not_begun_again() {
    let mut rig = Rig::new(16 << 20, 5, &[("FUSE_RAM_FAIL_AT_THE_END", "1")]);
    run(&["losetup", "-d", rig.device_text()], 20);
    let status = rig.wait_end();
    assert!(!status.success() && rig.log().contains("could not close"), "{status}\n{}", rig.log());
    assert!(!rig.log().contains("Replaced"), "{}", rig.log());
}

pub fn holes_and_zeroes_reach_the_file() {
    let rig = Rig::new(64 << 20, 5, &[]);
    let backing = rig.directory.path().join("backing");
    let used = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&backing).unwrap());
    let file = File::options().read(true).write(true).open(rig.device()).unwrap();
    file.write_all_at(&vec![9; 8 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let before = used();
    assert!(before >= (8 << 20) / 512, "{before}");
    run(&["blkdiscard", "-o", "1048576", "-l", "2097152", rig.device_text()], 20);
    assert_eq!(used(), before - (2 << 20) / 512, "discarded blocks are free");
    // For a block device, the kernel makes write-zeroes of these: one that may unmap and one that may not.
    use rustix::fs::FallocateFlags as Flags;
    rustix::fs::fallocate(&file, Flags::PUNCH_HOLE | Flags::KEEP_SIZE, 3 << 20, 2 << 20).expect("punch hole");
    assert_eq!(used(), before - (4 << 20) / 512, "blocks of a hole are free");
    rustix::fs::fallocate(&file, Flags::ZERO_RANGE | Flags::KEEP_SIZE, 5 << 20, 1 << 20).expect("zero range");
    assert_eq!(used(), before - (4 << 20) / 512, "zeroed blocks stay allocated");
    let content = fs::read(&backing).unwrap();
    assert!(content[..1 << 20].iter().all(|&b| b == 9) && content[6 << 20..8 << 20].iter().all(|&b| b == 9));
    assert!(content[1 << 20..6 << 20].iter().all(|&b| b == 0));
    drop(file);
    rig.detach();
}

pub fn that_cannot_start_leaves_nothing() {
    let mut rig = Rig::started(16 << 20, 5, &[]);
    // The same is tried over a file that does not exist.
    let began = Instant::now();
    let me = std::env::current_exe().unwrap();
    let output = try_run(&[me.to_str().unwrap(), "supervise", "kill nothing", "/nonexistent/file"], 20);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("the server did not start"), "{message}");
    assert!(output.stdout.is_empty() && began.elapsed() < PATIENCE);
    // The session is stopped before it is attached, or just after: both end.
    kill(rig.server().unwrap_or(rig.supervisor.id()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&rig.supervisor), rustix::process::Signal::TERM).unwrap();
    rig.wait_end();
    assert!(onefold::frontend::fuse::loopdev::find("kill nothing").unwrap().is_empty());
}
