//! Server and supervisor are killed in every combination: what is left works, or is removed, and each command reports which.
//!
//! 1. Clients of a block device see no error as long as supervisor or server lives at each moment, and neither do clients over NBD that
//!    reconnect; what was acknowledged is always there afterwards.
//! 2. Afterwards `list`, `status`, `stats`, `attach` and `detach` work as documented, whatever they find.

use crate::disk::{BLOCKS, Disk, Front, Known, Load};
use crate::session::fill;
use crate::tools::{Random, command, run, try_run, wait_until};
use onefold::attachment::record::Places;
use onefold::frontend::fuse::loopdev;
use onefold_engine::buffer::BufferMut;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

const ONEFOLD: &str = env!("CARGO_BIN_EXE_onefold");
const PATIENCE: Duration = Duration::from_secs(30);
/// If a combination hangs, its processes are killed after this time, which wakes everything that waits for them.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Supervisor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Idle,
    Load,
    Opening,
    Detaching,
}

/// The role that is killed, and the time by which the second one outlives the first.
type Deaths = (Role, Option<(Role, Duration)>);

const LATER: Duration = Duration::from_millis(400);
const DEATHS: [Deaths; 6] = [
    (Role::Server, None),
    (Role::Supervisor, None),
    (Role::Server, Some((Role::Supervisor, Duration::ZERO))),
    (Role::Supervisor, Some((Role::Server, Duration::ZERO))),
    (Role::Server, Some((Role::Supervisor, LATER))),
    (Role::Supervisor, Some((Role::Server, LATER))),
];

pub fn killed_in_every_combination() {
    kill_in_every_combination(Front::Fuse);
}

pub fn over_nbd_killed_in_every_combination() {
    kill_in_every_combination(Front::Nbd);
}

fn kill_in_every_combination(front: Front) {
    let rounds = std::env::var("ONEFOLD_KILL_ROUNDS").map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    let mut place = Place::new(front);
    for round in 0..rounds {
        for moment in [Moment::Idle, Moment::Load, Moment::Opening, Moment::Detaching] {
            for (number, deaths) in DEATHS.into_iter().enumerate() {
                place.what = format!("{front:?}, round {round}, {moment:?}, {deaths:?}");
                let over = place.watchdog();
                place.random = Random(round * 100 + u64::try_from(number).unwrap());
                place.combination(moment, deaths);
                over.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// A volume with its directories, and the content that its blocks must hold.
struct Place {
    front: Front,
    directory: tempfile::TempDir,
    id: String,
    known: Vec<Known>,
    version: u64,
    random: Random,
    what: String,
}

impl Place {
    fn new(front: Front) -> Self {
        let place = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        let directory = tempfile::Builder::new().prefix("onefold-roles-").tempdir_in(place).unwrap();
        let volume = directory.path().join("volume");
        let created = run(&[ONEFOLD, "create", volume.to_str().unwrap(), "--size", "64M", "--json"], 30);
        let created: serde_json::Value = serde_json::from_str(&created).unwrap();
        let id = created["volume"]["uuid"].as_str().unwrap().to_owned();
        Self { front, directory, id, known: vec![Known::default(); BLOCKS], version: 0, random: Random(0), what: String::new() }
    }

    fn run_directory(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    fn places(&self) -> Places {
        Places::of(&self.run_directory(), &self.id)
    }

    fn volume(&self) -> String {
        self.directory.path().join("volume").display().to_string()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.places().log).unwrap_or_default()
    }

    /// Returns the words of a command about this volume.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let run = format!("ONEFOLD_RUN_DIR={}", self.run_directory().display());
        let state = format!("ONEFOLD_STATE_DIR={}", self.directory.path().join("state").display());
        [&["env", &run, &state, ONEFOLD], words].concat().into_iter().map(str::to_owned).collect()
    }

    fn onefold(&self, words: &[&str]) -> Output {
        let words = self.words(words);
        try_run(&words.iter().map(String::as_str).collect::<Vec<_>>(), PATIENCE.as_secs())
    }

    /// Runs a command that has to end with `code`; returns its whole output.
    fn expect(&self, code: i32, words: &[&str]) -> String {
        let output = self.onefold(words);
        let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{}: {words:?} message {message}\n{}", self.what, self.log());
        message
    }

    fn attach(&self) -> PathBuf {
        let output = self.onefold(&["attach", self.front.option(), "--memory", "16M", &self.volume()]);
        let message = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: attach message {complaint}\n{}", self.what, self.log());
        self.front.path(&message)
    }

    /// Returns the loop devices of this volume, including dead ones.
    fn devices(&self) -> Vec<PathBuf> {
        if self.front == Front::Fuse { loopdev::find(&self.id).unwrap() } else { Vec::new() }
    }

    fn is_listed(&self) -> bool {
        self.expect(0, &["list", "--json"]).contains(&self.id)
    }

    /// Returns the newest process of that role, if one lives.
    fn process(&self, role: Role) -> Option<u32> {
        processes_of(&self.run_directory()).into_iter().filter(|(_, found)| *found == role).map(|(pid, _)| pid).max()
    }

    fn watchdog(&self) -> Arc<AtomicBool> {
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, directory, what) = (Arc::clone(&over), self.run_directory(), self.what.clone());
        std::thread::spawn(move || {
            if !wait_until(LIMIT, || is_over.load(Ordering::Relaxed)) {
                eprintln!("{what}: not over after {LIMIT:?}, killing all of it");
                kill_all_of(&directory);
            }
        });
        over
    }

    fn combination(&mut self, moment: Moment, deaths: Deaths) {
        match moment {
            Moment::Idle => self.while_it_serves(deaths, false),
            Moment::Load => self.while_it_serves(deaths, true),
            Moment::Opening => {
                let words = self.words(&["attach", self.front.option(), "--memory", "16M", &self.volume()]);
                self.while_a_command_runs(&words, deaths);
            }
            Moment::Detaching => {
                let device = self.attach();
                self.write_some(&device);
                let words = self.words(&["detach", &self.volume()]);
                let ended_well = self.while_a_command_runs(&words, deaths);
                assert!(!ended_well || !self.is_listed(), "{}: detached, and still listed\n{}", self.what, self.log());
            }
        }
        self.commands_do_what_they_say();
    }

    fn while_it_serves(&mut self, deaths: Deaths, under_load: bool) {
        let device = self.attach();
        self.write_some(&device);
        let stop = Arc::new(AtomicBool::new(false));
        let disk = || Disk::open_until(self.front, &device, Arc::clone(&stop));
        let mut load = Load { known: self.known.clone(), version: self.version, random: Random(self.random.next()) };
        let (outlived, failed) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| under_load.then(|| load.run(disk(), &stop)));
            let outlived = self.kill(deaths);
            if outlived {
                assert!(wait_until(PATIENCE, || self.places().are_alive()), "{}", self.what);
                sleep(Duration::from_millis(if under_load { 300 } else { 0 }));
            }
            stop.store(true, Ordering::Relaxed);
            let failed = writer.join().unwrap().flatten();
            (outlived, failed)
        });
        (self.known, self.version) = (load.known, load.version);
        if outlived {
            assert!(failed.is_none(), "{}: {failed:?}, although one of the two lived\n{}", self.what, self.log());
            assert!(self.is_listed(), "{}: not listed, although one of the two lived\n{}", self.what, self.log());
            self.verify(&device);
        }
    }

    /// Kills while a command runs; returns whether the command succeeded.
    fn while_a_command_runs(&mut self, words: &[String], deaths: Deaths) -> bool {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut running = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_until(PATIENCE, || self.process(Role::Server).is_some() || running.try_wait().unwrap().is_some()), "{}", self.what);
        sleep(Duration::from_micros(self.random.below(40_000)));
        self.kill(deaths);
        assert!(wait_until(PATIENCE, || running.try_wait().unwrap().is_some()), "{}: {words:?} does not end\n{}", self.what, self.log());
        running.wait().unwrap().success()
    }

    /// Kills, and returns whether a process was there that outlived each death.
    fn kill(&self, (first, then): Deaths) -> bool {
        let Some(dead) = self.process(first).inspect(|&pid| crate::rig::kill(pid)) else { return false };
        let mut killed = vec![dead];
        if let Some((second, delay)) = then {
            sleep(delay);
            killed.extend(self.process(second).filter(|pid| *pid != dead).inspect(|&pid| crate::rig::kill(pid)));
        }
        // A successor that its dead server was just starting does not live for long.
        sleep(LATER / 4);
        // A process that has ended is not seen any more; one that was killed may still be.
        processes_of(&self.run_directory()).iter().any(|(pid, _)| !killed.contains(pid))
    }

    fn commands_do_what_they_say(&mut self) {
        // A successor may be about to record that it attends to the volume, or a server about to end: over FUSE, that is when its device
        // has gone.
        let has_device = || self.front == Front::Nbd || !self.devices().is_empty();
        let is_served = || self.places().record.exists() && has_device() && self.onefold(&["status", &self.volume()]).status.success();
        let settled = || !self.places().are_alive() || is_served();
        assert!(wait_until(PATIENCE, settled), "{}: it does not settle\n{}", self.what, self.log());
        if self.is_listed() {
            let device = self.recorded_device();
            assert!(self.expect(0, &["status", &self.volume()]).contains("attached at"), "{}", self.what);
            self.expect(0, &["stats", &self.volume()]);
            assert!(self.expect(4, &["attach", self.front.option(), &self.volume()]).contains("attached already"), "{}", self.what);
            self.verify(&device);
            self.write_some(&device);
            self.expect(0, &["detach", &self.volume()]);
            let is_gone = if self.front == Front::Fuse { !loopdev::is_attached(&device) } else { !device.exists() };
            assert!(is_gone && self.process(Role::Server).is_none(), "{}: something is left", self.what);
        } else if self.random.below(2) == 0 {
            // There is nothing to detach; what is left is removed.
            assert!(self.expect(3, &["detach", &self.volume()]).contains("not attached"), "{}", self.what);
            assert!(wait_until(PATIENCE, || self.devices().is_empty()), "{}: a dead device stays", self.what);
        }
        assert!(!self.is_listed(), "{}", self.what);
        assert!(self.expect(0, &["status", &self.volume()]).contains("detached"), "{}", self.what);
        let device = self.attach();
        assert!(self.front == Front::Nbd || self.devices() == [device.clone()], "{}: a dead device beside it", self.what);
        self.verify(&device);
        assert!(self.is_listed(), "{}", self.what);
        self.expect(0, &["stats", &self.volume()]);
        self.expect(0, &["detach", &self.volume()]);
        self.expect(3, &["detach", &self.volume()]);
        assert!(self.devices().is_empty(), "{}", self.what);
    }

    fn recorded_device(&self) -> PathBuf {
        let record: serde_json::Value = serde_json::from_slice(&fs::read(self.places().record).unwrap()).unwrap();
        self.front.path(record["location"].as_str().unwrap())
    }

    /// Writes some blocks; the last ones are not flushed.
    fn write_some(&mut self, device: &Path) {
        let mut load = Load { known: std::mem::take(&mut self.known), version: self.version, random: Random(self.random.next()) };
        let mut disk = Disk::open(self.front, device);
        for i in 0..40 {
            load.write(&mut disk).unwrap_or_else(|e| panic!("{}: {e}\n{}", self.what, self.log()));
            if i == 30 {
                disk.sync().unwrap();
            }
        }
        (self.known, self.version) = (load.known, load.version);
    }

    /// Checks that each block holds what was acknowledged, or something newer that was under way, and remembers it.
    fn verify(&mut self, device: &Path) {
        let mut disk = Disk::open(self.front, device);
        let mut buffer = BufferMut::zeroed(1);
        for (block, known) in self.known.iter_mut().enumerate() {
            disk.read(block, &mut buffer).unwrap_or_else(|e| panic!("{}: block {block}: {e}", self.what));
            let number = u64::try_from(block).unwrap() << 40;
            let found = match u64::from_ne_bytes(buffer.bytes()[..8].try_into().unwrap()) {
                0 => 0,
                word => (word ^ number) >> 16,
            };
            let mut expected = [0; 4096];
            if found > 0 {
                fill(&mut expected, 0, u64::try_from(block).unwrap(), found);
            }
            let is_right = *buffer.block(0) == expected && (known.acknowledged..=known.attempted).contains(&found);
            assert!(is_right, "{}: block {block}: {found}, not {} to {}", self.what, known.acknowledged, known.attempted);
            *known = Known { acknowledged: found, attempted: found };
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        kill_all_of(&self.run_directory());
        wait_until(PATIENCE, || processes_of(&self.run_directory()).is_empty());
        loopdev::clear_dead(&self.id);
    }
}

/// Lists servers and supervisors with their records in this directory.
fn processes_of(run_directory: &Path) -> Vec<(u32, Role)> {
    let variable = format!("ONEFOLD_RUN_DIR={}", run_directory.display());
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let role = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        environment.split(|&b| b == 0).any(|word| word == variable.as_bytes()).then_some(())?;
        match crate::rig::arguments(pid).get(1)?.as_str() {
            "serve" => Some((pid, Role::Server)),
            "supervise" => Some((pid, Role::Supervisor)),
            _ => None,
        }
    };
    pids.filter_map(role).collect()
}

fn kill_all_of(run_directory: &Path) {
    let all = || processes_of(run_directory).into_iter().map(|(pid, _)| pid);
    // All are stopped before any of them dies, because they replace each other. This is done twice: one that was just being started may
    // have been missed.
    for _ in 0..2 {
        all().for_each(|pid| crate::rig::signal(pid, rustix::process::Signal::STOP));
    }
    all().for_each(crate::rig::kill);
}
