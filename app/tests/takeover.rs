//! A server takes over from another, whatever the host looks like by then, and what an attachment keeps of it.

mod common;

use common::home::Home;
use common::nbd_client::*;
use common::{BINARY, may_mount, run, skipped};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const VOLUME: &str = "volume";

/// A home whose run directory is a tmpfs of this size.
struct Small(Home);

impl Small {
    fn of(test: &str, size: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped(test, "mounting a tmpfs needs root");
            return None;
        }
        let home = Home::new();
        fs::create_dir(home.path("run")).unwrap();
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "none", &home.path("run")]));
        home.says(0, &["create", VOLUME, "--size", "64M"]);
        Some(Self(home))
    }

    /// Fills the run directory to the last page.
    fn fill(&self) {
        let mut file = File::create(self.0.path("run/others")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    /// Removes this number of pages from what fills it.
    fn free(&self, pages: u64) {
        let file = File::options().write(true).open(self.0.path("run/others")).unwrap();
        file.set_len(file.metadata().unwrap().len() - 4096 * pages).unwrap();
    }

    fn spare(&self) -> Option<PathBuf> {
        let names = fs::read_dir(self.0.path("run")).unwrap().map(|entry| entry.unwrap().path());
        names.into_iter().find(|name| name.extension().is_some_and(|e| e == "spare"))
    }

    /// Waits until the attachment has spare room; returns its bytes.
    fn spare_bytes(&self) -> u64 {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let bytes = self.spare().and_then(|spare| fs::metadata(spare).ok()).map_or(0, |spare| 512 * spare.blocks());
            if bytes > 0 {
                return bytes;
            }
            assert!(Instant::now() < deadline, "the attachment has no spare room");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = self.0.command(&["detach", VOLUME]).output();
        let _ = Command::new("umount").arg(self.0.path("run")).output();
    }
}

fn files(home: &Home) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(home.path("run")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Copies the program, and has the copy take over.
fn upgrade_by(home: &Home, copy: &str) -> Output {
    fs::copy(BINARY, home.path(copy)).unwrap();
    let mut command = Command::new(home.path(copy));
    command.args(["upgrade", VOLUME]).current_dir(home.path("."));
    command.env("ONEFOLD_RUN_DIR", home.path("run")).env("ONEFOLD_STATE_DIR", home.path("state")).output().unwrap()
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}

/// Waits until there are other processes than these, and returns them.
fn others(home: &Home, before: [Pid; 2], is_other: impl Fn([Pid; 2]) -> bool) -> [Pid; 2] {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let output = home.run(&["status", VOLUME, "--json"]);
        if output.status.success() {
            let now = home.processes(VOLUME);
            if is_other(now) {
                return now;
            }
        }
        assert!(Instant::now() < deadline, "nobody has replaced {before:?}: {}", says(&output));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The journal of the attachment has its room from the beginning, and goes from one server to the next: kills, upgrades and growths need no
/// other, even where the directory is full to the last page.
#[test]
fn a_takeover_needs_no_room_that_was_not_taken_at_attach() {
    let Some(small) = Small::of("a_takeover_needs_no_room_that_was_not_taken_at_attach", "20M") else { return };
    let home = &small.0;
    let socket = home.attach(VOLUME, &["--commit-period", "600000"]);
    small.fill();
    let mut written = 0;
    let mut check = |what: &str| {
        // It is acknowledged, and nothing flushes it: it is in the journal alone.
        let block = |n: u8| vec![n; 4096];
        let mut client = Client::ready_for(&socket, true, "");
        for n in 0..written {
            assert_eq!(client.read(u64::from(n) * 4096, 4096).unwrap(), block(n + 1), "{what}: write {n}");
        }
        client.write(0, u64::from(written) * 4096, &block(written + 1)).unwrap();
        written += 1;
    };
    check("attached");
    for _ in 0..3 {
        let before = home.processes(VOLUME);
        kill(before[1]);
        others(home, before, |now| now[1] != before[1]);
        check("after a kill");
    }
    let before = home.processes(VOLUME);
    kill(before[0]);
    others(home, before, |now| now[0] != before[0]);
    check("after a kill of the supervisor");
    let before = home.processes(VOLUME);
    let upgraded = upgrade_by(home, "newer");
    assert!(upgraded.status.success(), "{}", says(&upgraded));
    others(home, before, |now| now[0] != before[0]);
    check("after an upgrade");
    small.spare_bytes();
    small.fill();
    home.says(0, &["grow", VOLUME, "--size", "72M"]);
    check("after a growth");
    home.says(0, &["detach", VOLUME]);
    assert!(home.says(0, &["check", "--data", VOLUME]).contains("The volume is sound"));
    assert_eq!(files(home), ["others"]);
}

/// The log may grow while a takeover uses the spare room.
#[test]
fn spare_room_that_is_taken_by_others_meanwhile_is_what_they_have_left() {
    let Some(small) = Small::of("spare_room_that_is_taken_by_others_meanwhile_is_what_they_have_left", "20M") else { return };
    let home = &small.0;
    home.attach(VOLUME, &[]);
    assert_eq!(small.spare_bytes(), 32 << 10);
    small.fill();
    fs::remove_file(small.spare().unwrap()).unwrap();
    small.fill();
    small.free(6);
    let before = home.processes(VOLUME);
    kill(before[1]);
    others(home, before, |now| now[1] != before[1]);
    assert_eq!(small.spare_bytes(), 16 << 10);
    small.fill();
    home.says(0, &["grow", VOLUME, "--size", "72M"]);
    home.says(0, &["detach", VOLUME]);
}

/// Both processes die, and the journal that they leave is all that fits.
#[test]
fn a_journal_that_was_left_is_taken_over_where_another_would_not_fit() {
    let Some(small) = Small::of("a_journal_that_was_left_is_taken_over_where_another_would_not_fit", "20M") else { return };
    let home = &small.0;
    let socket = home.attach(VOLUME, &["--commit-period", "600000"]);
    Client::ready_for(&socket, true, "").write(0, 0, &[7; 4096]).unwrap();
    home.kill(VOLUME);
    // A larger one is not made either.
    let socket = home.attach(VOLUME, &["--commit-period", "600000", "--memory", "128M"]);
    assert_eq!(Client::ready_for(&socket, true, "").read(0, 4096).unwrap(), [7; 4096]);
}

#[test]
fn an_attach_without_room_for_its_journal_says_so_and_leaves_nothing() {
    let test = "an_attach_without_room_for_its_journal_says_so_and_leaves_nothing";
    let Some(small) = Small::of(test, "12M") else { return };
    let home = &small.0;
    let err = home.expect(1, &["attach", "--nbd", VOLUME]).1;
    assert!(err.contains("no room for the acknowledgement journal, which needs 13 MiB") && err.contains("--memory"), "{err}");
    assert_eq!(files(home), [""; 0]);
    let socket = home.attach(VOLUME, &["--memory", "16M"]);
    Client::ready_for(&socket, true, "").write(0, 0, &[7; 4096]).unwrap();
    home.says(0, &["detach", VOLUME]);
}

/// A server that dies over and over is given up; one that gives way is not dead.
#[test]
fn growths_and_upgrades_in_quick_succession_are_no_deaths() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let socket = home.attach(VOLUME, &[]);
    Client::ready_for(&socket, true, "").write(1, 0, &[7; 4096]).unwrap();
    for mib in 1..=7 {
        home.says(0, &["grow", VOLUME, "--size", &format!("{}M", 64 + 2 * mib)]);
    }
    for n in 1..=7 {
        let upgraded = upgrade_by(&home, if n % 2 == 0 { "even" } else { "odd" });
        assert!(upgraded.status.success(), "upgrade {n}: {}", says(&upgraded));
    }
    let client = &mut Client::ready_for(&socket, true, "");
    assert!(client.export_bytes > 72 << 20 && client.read(0, 4096).unwrap() == [7; 4096], "{} bytes", client.export_bytes);
    let status = home.says(0, &["status", VOLUME]);
    assert!(!status.contains("died"), "nothing has failed, so nothing reads like it: {status}");
    home.says(0, &["detach", VOLUME]);
}

/// A script's lock, or a file system that it had a file open on, is free when the script has ended.
#[test]
fn what_the_caller_has_open_is_not_kept() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let script = format!("exec 9>{}; flock -n 9 || exit 2; exec {BINARY} attach --nbd {VOLUME}", home.path("lock"));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).envs(home.command(&[]).get_envs().map(|(name, value)| (name, value.unwrap())));
    run(command.current_dir(home.path(".")));
    let check = |what: &str| {
        let free = Command::new("flock").args(["-n", &home.path("lock"), "true"]).status().unwrap();
        assert!(free.success(), "{what}: the lock is held");
    };
    check("attached");
    let before = home.processes(VOLUME);
    kill(before[1]);
    let before = others(&home, before, |now| now[1] != before[1]);
    kill(before[0]);
    others(&home, before, |now| now[0] != before[0]);
    check("replaced");
    home.says(0, &["detach", VOLUME]);
}

#[test]
fn an_attach_that_fails_leaves_nothing() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let limited = |limit: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit {limit}; exec {BINARY} attach --nbd {VOLUME}")]);
        command.envs(home.command(&[]).get_envs().map(|(name, value)| (name, value.unwrap())));
        let output = command.current_dir(home.path(".")).output().unwrap();
        assert_eq!(files(&home), [""; 0], "{limit}");
        (output.status.code(), says(&output))
    };
    for (limit, complaint) in [("-n 40", "may have 40 files open"), ("-f 1024", "may write files of 1 MiB")] {
        let (code, text) = limited(limit);
        assert!(code == Some(1) && text.contains(complaint), "{limit}: {code:?} {text}");
    }
    // What may be raised is raised.
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -S -n 40 -f 1024; exec {BINARY} attach --nbd {VOLUME}")]);
    command.envs(home.command(&[]).get_envs().map(|(name, value)| (name, value.unwrap())));
    run(command.current_dir(home.path(".")));
    home.says(0, &["detach", VOLUME]);

    let long = home.path(&"d".repeat(100));
    for frontend in ["--nbd=127.0.0.1:0", "--nbd"] {
        let output = home.command(&["attach", frontend, VOLUME]).env("ONEFOLD_RUN_DIR", &long).output().unwrap();
        let text = says(&output);
        assert!(output.status.code() == Some(2) && text.contains("more than a socket's path may have (107)"), "{text}");
        assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
    }
}

/// The run directory is emptied under an attached volume, or goes: the lock on the store names the server, which makes its files again.
#[test]
fn an_attachment_is_found_again_when_its_run_directory_was_emptied() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let empty = || {
        fs::remove_dir_all(home.path("run")).unwrap();
    };
    let socket = home.attach(VOLUME, &["--commit-period", "600000"]);
    let mut client = Client::ready_for(&socket, true, "");
    let before = home.processes(VOLUME);
    empty();
    let (out, err) = home.expect(0, &["list"]);
    assert!(out.contains(VOLUME) && err.contains("was emptied while"), "{out}{err}");
    assert_eq!(home.processes(VOLUME), before);
    empty();
    home.complaint(4, &["attach", "--nbd", VOLUME], "is attached already");
    // Acknowledged, and in the journal alone; whichever dies, the other knows it, and the files stay.
    client.write(0, 0, &[7; 4096]).unwrap();
    kill(before[0]);
    let before = others(&home, before, |now| now[0] != before[0]);
    kill(before[1]);
    others(&home, before, |now| now[1] != before[1]);
    empty();
    home.says(0, &["detach", VOLUME]);
    assert_eq!(files(&home), [""; 0]);
    let socket = home.attach(VOLUME, &[]);
    assert_eq!(Client::ready_for(&socket, true, "").read(0, 4096).unwrap(), [7; 4096]);
    home.says(0, &["detach", VOLUME]);
    assert!(home.says(0, &["check", "--data", VOLUME]).contains("The volume is sound"));
}

#[test]
fn a_block_device_is_found_again_when_the_run_directory_was_emptied() {
    let test = "a_block_device_is_found_again_when_the_run_directory_was_emptied";
    if !may_mount(test) {
        return;
    }
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    let device = home.says(0, &["attach", "--fuse", VOLUME]).trim().to_owned();
    fs::remove_dir_all(home.path("run")).unwrap();
    assert_eq!(home.json(&["list"])["volumes"][0]["location"], device.as_str());
    assert!(Path::new(&home.path("run")).read_dir().unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|e| e == "device")));
    fs::remove_dir_all(home.path("run")).unwrap();
    home.says(0, &["detach", &device]);
    assert_eq!(files(&home), [""; 0]);
}

/// `list` shows the process in charge, which a service manager watches; `status` both, and says which is which.
#[test]
fn each_process_is_called_what_it_is() {
    let home = Home::new();
    home.says(0, &["create", VOLUME, "--size", "64M"]);
    home.attach(VOLUME, &[]);
    let [supervisor, server] = home.processes(VOLUME).map(|pid| pid.as_raw_nonzero().get());
    let status = home.says(0, &["status", VOLUME]);
    let row = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row("server").ends_with(&format!("pid {server}")), "{status}");
    assert!(row("supervisor").ends_with(&format!("pid {supervisor}")), "{status}");
    let list = home.says(0, &["list"]);
    assert!(list.contains("supervisor") && list.contains(&supervisor.to_string()), "{list}");
    home.says(0, &["detach", VOLUME]);
}
