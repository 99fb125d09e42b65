//! Shows what an observer sees of a disk, and what each bio costs.
//!
//! `observe MAJOR:MINOR SECONDS [files] [names] [reads] [tracepoint] [quiet]`, as root. It has no requests to join, so it asks for the
//! whole disk every two milliseconds. The last line has tab-separated values, and is all that it prints with `quiet`: the runs of the
//! BPF program (bios of all disks), the nanoseconds of each run, bios of the disk, losses, ambiguous blocks. The kernel measures the
//! nanoseconds while kernel.bpf_stats_enabled is 1; otherwise they are 0.

use aya::programs::loaded_programs;
use onefold_observer::{Disk, Observer, Operation, Run, Wants, load_for_parent};
use std::collections::HashSet;
use std::error::Error;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|first| first == "load") {
        load_for_parent()?;
        return Ok(ExitCode::SUCCESS);
    }
    let usage = "usage: observe MAJOR:MINOR SECONDS [files] [names] [reads] [tracepoint] [quiet]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [disk, seconds, options @ ..] = &arguments[..] else { return Err(usage.into()) };
    let (major, minor) = disk.split_once(':').ok_or(usage)?;
    let disk = Disk { major: major.parse()?, minor: minor.parse()? };
    let is_option = |name: &str| options.iter().any(|option| option == name);
    let wants = Wants { files: is_option("files"), names: is_option("names"), reads: is_option("reads") };

    let sectors: u64 = std::fs::read_to_string(format!("/sys/dev/block/{disk}/size"))?.trim().parse()?;
    let before: HashSet<u32> = loaded_programs().flatten().map(|program| program.id()).collect();
    let spawn = |socket: Stdio| Command::new("/proc/self/exe").arg("load").stdin(socket).spawn();
    let observer = match is_option("tracepoint") {
        true => Observer::begin_by_tracepoint(disk, wants, 16 << 20)?,
        false => Observer::begin_in_child(disk, wants, 16 << 20, spawn)?,
    };
    let own = loaded_programs().flatten().find(|program| program.name() == b"observe" && !before.contains(&program.id()));
    let own = own.map(|program| program.id());
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let is_quiet = is_option("quiet");
    while Instant::now() < end {
        for operation in [Operation::Read, Operation::Write, Operation::Discard] {
            for run in observer.seen(operation, 0, sectors * 512).iter() {
                if !is_quiet {
                    print(run);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let counts = observer.counts();
    let statistics = loaded_programs().flatten().find(|program| Some(program.id()) == own);
    let (runs, time) = statistics.map_or((0, Duration::ZERO), |program| (program.run_count(), program.run_time()));
    let each = time.as_nanos().checked_div(u128::from(runs)).unwrap_or(0);
    println!("runs {runs}\tns {each}\tbios {}\tlost {}\tambiguous {}", counts.bios, counts.lost, counts.ambiguous_blocks);
    Ok(ExitCode::SUCCESS)
}

fn print(run: &Run) {
    let Some(seen) = run.observation() else {
        if run.is_ambiguous() {
            println!("{} bytes at {}: ambiguous", run.length(), run.offset());
        }
        return;
    };
    print!("{:?} {} bytes at {}", seen.operation, run.length(), run.offset());
    print!("{}{} {:?}", if seen.meta { " META" } else { "" }, if seen.fua { " FUA" } else { "" }, seen.lifetime);
    print!(" {} ({}) cgroup {}", seen.comm, seen.process, seen.cgroup);
    if let Some(file) = &seen.file {
        let name = file.name.as_ref().map_or(String::new(), ToString::to_string);
        print!(" | {:?}: inode {} '{name}' in {} generation {} uid {}", file.source, file.inode, file.directory, file.generation, file.uid);
    }
    println!(" at {:?}", run.file_offset());
}
