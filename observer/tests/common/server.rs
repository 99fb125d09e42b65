//! A server that has nothing to serve, for the tests of `loader.rs`.
//!
//! `observer-server load` loads for its parent. `observer-server MAJOR:MINOR MEMORY_BYTES` has this program loaded by such a child, prints
//! `loading PROCESS` with the child's number, and a line with the microseconds that it took, and the KiB of its own memory before and at
//! most. Then it waits to be killed, or for the end of its standard input.

use onefold_observer::{Disk, Observer, Wants, load_for_parent};
use std::error::Error;
use std::fs;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let usage = "usage: observer-server load | MAJOR:MINOR MEMORY_BYTES";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [load] if load == "load" => Ok(load_for_parent().map(|()| ExitCode::SUCCESS)?),
        [disk, memory_bytes] => {
            let (major, minor) = disk.split_once(':').ok_or(usage)?;
            let disk = Disk { major: major.parse()?, minor: minor.parse()? };
            observe(disk, memory_bytes.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(usage.into()),
    }
}

fn observe(disk: Disk, memory_bytes: usize) -> Result<(), Box<dyn Error>> {
    let spawn = |socket: Stdio| {
        let child = Command::new("/proc/self/exe").arg("load").stdin(socket).spawn()?;
        println!("loading {}", child.id());
        Ok(child)
    };
    let before = memory_kib("VmRSS:")?;
    let began = Instant::now();
    let wants = Wants { files: true, names: true, reads: false };
    let observer = Observer::begin_in_child(disk, wants, memory_bytes, spawn)?;
    let took = began.elapsed();
    println!("{:?} {} {before} {}", observer.means(), took.as_micros(), memory_kib("VmHWM:")?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Returns a line of this process's account of its memory.
fn memory_kib(line: &str) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|text| text.strip_prefix(line)).ok_or("no such line")?;
    Ok(value.trim().trim_end_matches(" kB").parse()?)
}
