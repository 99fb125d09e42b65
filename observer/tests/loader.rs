//! The child that loads: its server has no more than one descriptor, and no memory of the kernel's types; the kernel keeps nothing.

mod common;

use aya::maps::loaded_maps;
use aya::programs::{loaded_links, loaded_programs};
use common::{EVERYTHING, LoopDisk, MEMORY_BYTES, may_observe, run};
use onefold_observer::{Disk, Observer, Refused};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Programs of other tests would be taken for those of this one.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own_programs() -> HashSet<u32> {
    let programs = loaded_programs().flatten().filter(|program| program.name() == b"observe");
    programs.map(|program| program.id()).collect()
}

/// Waits for something that the kernel does a moment later.
fn wait_for(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that a process has one descriptor of BPF, which closes on exec. Returns the program that it keeps, and the program's maps.
fn program_of(process: u32) -> (u32, Vec<u32>) {
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().map(Result::unwrap) {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if !target.to_string_lossy().contains("bpf") {
            continue;
        }
        let name = entry.file_name();
        let about = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{}", name.to_str().unwrap())).unwrap();
        let value = |line: &str| about.lines().find_map(|text| text.strip_prefix(line)).map(str::trim);
        let flags = u32::from_str_radix(value("flags:").unwrap(), 8).unwrap();
        assert_ne!(flags & 0o2_000_000, 0, "{target:?} closes on exec: {about}");
        programs.push(value("prog_id:").unwrap_or_else(|| panic!("{target:?} is no link: {about}")).parse().unwrap());
    }
    assert_eq!(programs.len(), 1, "{programs:?}");
    let about = loaded_programs().flatten().find(|program| program.id() == programs[0]).expect("the program is loaded");
    let maps = about.map_ids().unwrap().expect("the kernel lists a program's maps");
    assert!(maps.len() >= 2, "the ring, and the count of losses");
    (programs[0], maps)
}

fn is_gone(program: u32, maps: &[u32]) -> bool {
    let has_link = loaded_links().flatten().any(|link| link.prog_id == program);
    let has_map = loaded_maps().flatten().any(|map| maps.contains(&map.id()));
    !has_link && !has_map && !own_programs().contains(&program)
}

/// A server in its own process.
struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    loader: u32,
}

impl Server {
    /// Starts it, and waits until its child has started.
    fn start(disk: &LoopDisk) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_observer-server"));
        command.args([disk.number().to_string(), MEMORY_BYTES.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut server = Self { output: BufReader::new(process.stdout.take().unwrap()), process, loader: 0 };
        let line = server.line();
        server.loader = line.strip_prefix("loading ").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_string()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a process has ended. An orphan may wait for long until it is reaped.
fn has_ended(process: u32) -> bool {
    let about = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    about.rsplit(')').next().is_none_or(|fields| fields.is_empty() || fields.starts_with(" Z"))
}

#[test]
fn a_server_begins_in_little_memory_and_leaves_nothing_when_it_is_killed() {
    if !may_observe("a_server_begins_in_little_memory_and_leaves_nothing_when_it_is_killed", &["losetup"]) {
        return;
    }
    let _alone = alone();
    let disk = LoopDisk::new(1 << 20);
    let mut server = Server::start(&disk);
    let line = server.line();
    let ["Bpf", micros, before_kib, most_kib] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    println!("it took {micros} us; {before_kib} KiB before, at most {most_kib} KiB");
    let grown: u64 = most_kib.parse::<u64>().unwrap() - before_kib.parse::<u64>().unwrap();
    // The whole ring is mapped from the beginning.
    let ring_kib = MEMORY_BYTES as u64 / 2 / 1024;
    assert!(grown >= ring_kib && grown <= ring_kib + 1024, "{grown} KiB, with a ring of {ring_kib} KiB");

    assert!(!Path::new(&format!("/proc/{}", server.loader)).exists(), "the child has ended, and is reaped");
    let (program, maps) = program_of(server.process.id());
    assert!(!is_gone(program, &[]) && maps.iter().all(|map| !is_gone(0, &[*map])), "what is loaded can be seen");
    server.kill();
    wait_for("the kernel keeps nothing", || is_gone(program, &maps));
}

#[test]
fn a_server_that_is_killed_while_its_child_loads_leaves_nothing() {
    if !may_observe("a_server_that_is_killed_while_its_child_loads_leaves_nothing", &["losetup"]) {
        return;
    }
    let _alone = alone();
    let disk = LoopDisk::new(1 << 20);
    let before = own_programs();
    for delay_ms in (0..=400).step_by(40) {
        let mut server = Server::start(&disk);
        std::thread::sleep(Duration::from_millis(delay_ms));
        server.kill();
        wait_for("the child ends with its server", || has_ended(server.loader));
        wait_for("the kernel keeps nothing", || own_programs().is_subset(&before));
    }
}

#[test]
fn other_children_get_no_descriptor_and_the_end_of_an_observer_is_that_of_its_program() {
    if !may_observe("other_children_get_no_descriptor_and_the_end_of_an_observer_is_that_of_its_program", &["losetup"]) {
        return;
    }
    let _alone = alone();
    let disk = LoopDisk::new(1 << 20);
    let mut loader = 0;
    // The command lives on, with its end of the socket.
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer-server"));
    let spawn = |socket: Stdio| {
        let child = command.arg("load").stdin(socket).spawn()?;
        loader = child.id();
        Ok(child)
    };
    let observer = Observer::begin_in_child(disk.number(), EVERYTHING, MEMORY_BYTES, spawn).unwrap();
    assert!(!Path::new(&format!("/proc/{loader}")).exists(), "the child has ended, and is reaped");
    let (program, maps) = program_of(std::process::id());
    let listed = run("ls", &["-l", "/proc/self/fd"]);
    assert!(listed.contains("/proc") && !listed.contains("bpf"), "{listed}");
    drop(observer);
    wait_for("the kernel keeps nothing", || is_gone(program, &maps));
}

#[test]
fn a_child_that_fails_is_no_reason_for_the_tracepoint() {
    if !may_observe("a_child_that_fails_is_no_reason_for_the_tracepoint", &["losetup"]) {
        return;
    }
    let _alone = alone();
    let disk = LoopDisk::new(1 << 20);
    let spawn = |socket| Command::new("false").stdin::<Stdio>(socket).spawn();
    let refused = Observer::begin_in_child(disk.number(), EVERYTHING, MEMORY_BYTES, spawn).err().expect("it loads nothing");
    assert!(matches!(&refused, Refused::Loader(text) if text.contains("exit status: 1")), "{refused:?}");
}

#[test]
fn a_child_without_a_server_says_so() {
    let started = Command::new(env!("CARGO_BIN_EXE_observer-server")).arg("load").stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8(started.stderr).unwrap();
    assert!(!started.status.success() && errors.to_lowercase().contains("socket"), "{errors}");
    // The parent's own refusals need no child.
    let spawn = |_| panic!("no child is started");
    let no_disk = Observer::begin_in_child(Disk { major: 4095, minor: 7 }, EVERYTHING, MEMORY_BYTES, spawn);
    assert!(matches!(no_disk.err(), Some(Refused::NoDisk { .. })));
}
