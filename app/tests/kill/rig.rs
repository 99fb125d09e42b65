//! A session to be killed, and its removal.

use crate::tools::{command, run, try_run, wait_until};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(20);
/// If a test hangs, all its processes are killed after this time, which ends the session and wakes everything that waits for it.
const LIMIT: Duration = Duration::from_secs(120);

const ONEFOLD: &str = env!("CARGO_BIN_EXE_onefold");

fn volume_in(directory: &Path) -> PathBuf {
    directory.join("volume")
}

fn attach_words(directory: &Path, options: &[&str]) -> Vec<String> {
    let volume = volume_in(directory);
    let words = [ONEFOLD, "attach", "--foreground", "--fuse", "--memory", "16M", volume.to_str().unwrap()];
    words.iter().chain(options).map(|&word| word.to_owned()).collect()
}

fn start(words: &[String], directory: &Path, environment: &[(&str, &str)]) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let mut command = command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    command.env("ONEFOLD_RUN_DIR", directory.join("run")).envs(environment.iter().copied());
    command.stdout(Stdio::piped()).stderr(log).spawn().unwrap()
}

/// A session under test. Dropping it takes everything down.
pub struct Rig {
    pub supervisor: Child,
    pub device: Option<PathBuf>,
    pub directory: tempfile::TempDir,
    mounted: Option<PathBuf>,
    over: Arc<AtomicBool>,
}

impl Rig {
    /// Starts a session over a sparse file of `bytes` and waits for its device.
    pub fn new(bytes: u64, deaths: usize, environment: &[(&str, &str)]) -> Self {
        let mut rig = Self::started(bytes, deaths, environment);
        rig.wait_device();
        rig
    }

    /// Starts a session over a sparse file of `bytes`, served by this program.
    pub fn started(bytes: u64, deaths: usize, environment: &[(&str, &str)]) -> Self {
        Self::over(environment, |directory| {
            let file = directory.join("backing");
            File::create(&file).unwrap().set_len(bytes).unwrap();
            let me = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
            let tag = format!("kill {}", directory.display());
            [me, "supervise".into(), tag, file.to_str().unwrap().into(), deaths.to_string()].into()
        })
    }

    /// Makes a volume of `size`, attaches it as users do, with these options, and waits for its device.
    pub fn volume(size: &str, options: &[&str]) -> Self {
        let mut rig = Self::over(&[], |directory| {
            run(&[ONEFOLD, "create", volume_in(directory).to_str().unwrap(), "--size", size], 30);
            attach_words(directory, options)
        });
        rig.wait_device();
        rig
    }

    /// Makes a volume at `place` with the options `made`, attaches it with these options, and waits for its device.
    pub fn volume_at(place: &Path, made: &[&str], options: &[&str]) -> Self {
        let mut rig = Self::over(&[], |directory| {
            run(&[&[ONEFOLD, "create", place.to_str().unwrap()], made].concat(), 30);
            std::os::unix::fs::symlink(place, volume_in(directory)).unwrap();
            attach_words(directory, options)
        });
        rig.wait_device();
        rig
    }

    /// Attaches its volume again with these options; all processes of the first time are dead.
    pub fn attach_again(mut self, options: &[&str]) -> Self {
        self.supervisor.wait().unwrap();
        self.supervisor = start(&attach_words(self.directory.path(), options), self.directory.path(), &[]);
        self.wait_device();
        self
    }

    /// Starts the program with `words` in a directory of its own.
    fn over(environment: &[(&str, &str)], words: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let place = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        let directory = tempfile::Builder::new().prefix("onefold-kill-").tempdir_in(place).unwrap();
        let words = words(directory.path());
        let supervisor = start(&words, directory.path(), environment);
        let over = Arc::new(AtomicBool::new(false));
        let (pid, is_over) = (supervisor.id(), Arc::clone(&over));
        std::thread::spawn(move || {
            if !wait_until(LIMIT, || is_over.load(Ordering::Relaxed)) {
                eprintln!("a session was not over after {LIMIT:?}: killing it");
                kill_all(pid);
            }
        });
        Self { supervisor, device: None, directory, mounted: None, over }
    }

    fn wait_device(&mut self) {
        let line = first_line(self.supervisor.stdout.take().unwrap());
        assert!(line.starts_with("/dev/loop"), "no device: {line:?}\n{}", self.log());
        self.device = Some(line.into());
    }

    pub fn device(&self) -> &Path {
        self.device.as_deref().unwrap()
    }

    pub fn device_text(&self) -> &str {
        self.device().to_str().unwrap()
    }

    pub fn log(&self) -> String {
        let own = self.directory.path().join("log");
        let of_volume = fs::read_dir(self.directory.path().join("run")).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = std::iter::once(own).chain(of_volume.filter(|path| path.extension().is_some_and(|e| e == "log")));
        logs.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }

    pub fn server(&self) -> Option<u32> {
        descendants(self.supervisor.id()).into_iter().find(|&pid| arguments(pid).get(1).is_some_and(|verb| verb == "serve"))
    }

    /// Runs a command about the volume of this rig, which has to end in time.
    pub fn onefold(&self, words: &[&str], patience_s: u64) -> Output {
        let run = format!("ONEFOLD_RUN_DIR={}", self.directory.path().join("run").display());
        let state = format!("ONEFOLD_STATE_DIR={}", self.directory.path().join("state").display());
        try_run(&[&["env", &run, &state, ONEFOLD], words].concat(), patience_s)
    }

    /// Kills the server as soon as there is one that has not been killed yet.
    pub fn kill_server(&self) {
        let mut pid = None;
        assert!(
            wait_until(PATIENCE, || {
                pid = self.server();
                pid.is_some()
            }),
            "no server\n{}",
            self.log()
        );
        kill(pid.unwrap());
        let dead = || !Path::new(&format!("/proc/{}", pid.unwrap())).exists();
        assert!(wait_until(PATIENCE, dead), "a killed server does not end\n{}", self.log());
    }

    pub fn wait_end(&mut self) -> ExitStatus {
        let mut status = None;
        let supervisor = &mut self.supervisor;
        assert!(
            wait_until(PATIENCE, || {
                status = supervisor.try_wait().unwrap();
                status.is_some()
            }),
            "the supervisor goes on\n{}",
            self.log()
        );
        status.unwrap()
    }

    /// Detaches as a user would, and checks that everything ends.
    pub fn detach(mut self) {
        let me = std::env::current_exe().unwrap();
        run(&[me.to_str().unwrap(), "detach", self.device_text()], 20);
        let status = self.wait_end();
        assert!(status.success(), "{status}\n{}", self.log());
        assert!(!is_attached(self.device()), "{} is still there", self.device_text());
        self.device = None;
    }

    pub fn mount(&mut self) -> PathBuf {
        let at = self.directory.path().join("mounted");
        fs::create_dir_all(&at).unwrap();
        run(&["mount", "-o", "errors=remount-ro", self.device_text(), at.to_str().unwrap()], 20);
        self.mounted = Some(at.clone());
        at
    }

    pub fn unmount(&mut self) {
        let at = self.mounted.take().unwrap();
        run(&["umount", at.to_str().unwrap()], 30);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // The processes are killed first: once the session is aborted, nothing below waits for an answer.
        kill_all(self.supervisor.id());
        let _ = self.supervisor.wait();
        if let Some(at) = &self.mounted {
            let _ = try_run(&["umount", "-l", at.to_str().unwrap()], 20);
        }
        if let Some(device) = self.device.as_deref().filter(|device| is_attached(device)) {
            let _ = try_run(&["losetup", "-d", device.to_str().unwrap()], 20);
        }
    }
}

pub fn first_line(output: impl Read) -> String {
    let mut line = String::new();
    let _ = BufReader::new(output).read_line(&mut line);
    line.trim_end().to_owned()
}

pub fn is_attached(device: &Path) -> bool {
    onefold::frontend::fuse::loopdev::is_attached(device)
}

pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let _ = rustix::process::kill_process(pid.unwrap(), signal);
}

pub fn kill_all(first: u32) {
    let all = || [vec![first], descendants(first)].concat().into_iter();
    // All are stopped before any of them dies, because supervisor and server replace each other. This is done twice: one that was just
    // being started may have been missed. Children die first: the kernel continues a stopped process whose parent dies.
    for _ in 0..2 {
        all().for_each(|pid| signal(pid, Signal::STOP));
    }
    all().collect::<Vec<u32>>().into_iter().rev().for_each(kill);
}

/// Returns the processes that it started, and those that they started, nearest first.
pub fn descendants(first: u32) -> Vec<u32> {
    let mut found = children(first);
    let mut i = 0;
    while i < found.len() {
        found.extend(children(found[i]));
        i += 1;
    }
    found
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.next() != Some("Z") && fields.next() == Some(&parent.to_string())
    };
    processes.filter(is_child).collect()
}

pub fn arguments(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&b| b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
