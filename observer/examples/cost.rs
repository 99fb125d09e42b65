//! Measures the processor time that observing costs for each bio, by the kernel's own statistics of the BPF program.
//!
//! `TMPDIR=/dev/shm cost [ROUNDS]`, as root: it makes two loop devices, and an ext4 on one of them. Each row is the median of the
//! rounds, in nanoseconds for each bio, with the 60 or so that the kernel's statistics count for an empty program. Runs for bios of other
//! disks are taken out at the cost of the first row. The last column is the time of the server's side: draining and joining one request.
//! The last rows are those of a recording with content, into a ring that has room for all: the time of a request of one block, with its
//! copy, and of handing it on, once it is read.

#[path = "../tests/common/mod.rs"]
mod common;

use aya::programs::{ProgramInfo, loaded_programs};
use aya::sys::{Stats, enable_stats};
use common::{BLOCK, LoopDisk, Mounted, start_loader, tagged};
use onefold_observer::{BLOCK_BYTES, Event, Means, Operation, Place, Wants, Watch, load_for_parent};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 8192;

#[derive(Clone, Copy)]
enum Load {
    Direct,
    Buffered,
}

/// Memory that is aligned as direct I/O needs it.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

fn program_of(name: &str) -> Option<ProgramInfo> {
    loaded_programs().flatten().filter(|program| program.name() == name.as_bytes()).max_by_key(|program| program.loaded_at())
}

/// Writes every second block, so that no two of them are one bio.
fn write(mounted: &Mounted, load: Load) {
    let flags = if matches!(load, Load::Direct) { libc::O_DIRECT } else { 0 };
    let file = OpenOptions::new().write(true).custom_flags(flags).open(mounted.file("file")).expect("the file is there");
    let block = Aligned([7; BLOCK]);
    for at in (0..BLOCKS).step_by(2) {
        file.write_all_at(&block.0, at * BLOCK_BYTES).expect("the disk has room");
    }
    file.sync_all().expect("the disk works");
}

/// Returns the nanoseconds of a bio in the kernel and of a request here.
fn measure(disk: &LoopDisk, mounted: &Mounted, wants: Wants, load: Load, other_ns: u64) -> (u64, u64) {
    let observer = common::begin_by(Means::Bpf, disk.number(), wants, 64 << 20);
    write(mounted, load);
    let program = program_of("observe").expect("the program is loaded");
    let (runs, time) = (program.run_count(), program.run_time());
    let bios = observer.counts().bios;
    let began = Instant::now();
    for at in 0..bios {
        std::hint::black_box(observer.seen(Operation::Write, at * BLOCK_BYTES, BLOCK_BYTES));
    }
    let request_ns = began.elapsed().as_nanos().checked_div(u128::from(bios)).unwrap_or(0);
    let others = runs.saturating_sub(bios);
    let own = if bios == 0 { time / u32::try_from(runs.max(1)).expect("some thousand runs") } else { time };
    let spent = own.saturating_sub(Duration::from_nanos(if bios == 0 { 0 } else { others * other_ns }));
    let bio_ns = spent.as_nanos().checked_div(u128::from(bios.max(1))).unwrap_or(0);
    (u64::try_from(bio_ns).expect("less than centuries"), u64::try_from(request_ns).expect("less than centuries"))
}

/// Returns the nanoseconds of a bio of a recording in the kernel, and of a request here.
fn measure_recording(disk: &LoopDisk, mounted: &Mounted, wants: Wants, load: Load, other_ns: u64) -> (u64, u64) {
    let place = Place::of(disk.number()).expect("the disk is there");
    let device = Path::new(disk.device());
    let mut watch = Watch::begin_in_child(place, device, wants, 64 << 20, start_loader).expect("a disk can be watched");
    let program = || program_of("record").map(|program| (program.run_count(), program.run_time())).expect("it is loaded");
    let (runs, time) = program();
    write(mounted, load);
    let (runs, time) = (program().0 - runs, program().1.saturating_sub(time));
    let began = Instant::now();
    let mut requests = 0;
    watch.drain(|event| requests += u64::from(matches!(std::hint::black_box(event), Event::Request(_))));
    let request_ns = began.elapsed().as_nanos() / u128::from(requests.max(1));
    let others = Duration::from_nanos(runs.saturating_sub(requests) * other_ns);
    let bio_ns = time.saturating_sub(others).as_nanos() / u128::from(requests.max(1));
    (u64::try_from(bio_ns).expect("less than centuries"), u64::try_from(request_ns).expect("less than centuries"))
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    if std::env::args().nth(1).is_some_and(|first| first == "load") {
        load_for_parent()?;
        return Ok(ExitCode::SUCCESS);
    }
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let (disk, other) = (LoopDisk::new(256 << 20), LoopDisk::new(64 << 20));
    let mounted = disk.mount(&["mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "ext4");
    std::fs::write(mounted.file("file"), tagged(7, 0, usize::try_from(BLOCKS)? * BLOCK))?;
    mounted.sync();
    let _statistics = enable_stats(Stats::RunTime)?;

    let (bare, files, names) = (Wants::default(), Wants { files: true, ..Wants::default() }, common::EVERYTHING);
    let cases = [
        ("other disk", &other, names, Load::Direct),
        ("direct, without file", &disk, bare, Load::Direct),
        ("direct, with file", &disk, files, Load::Direct),
        ("direct, with name", &disk, names, Load::Direct),
        ("buffered, without file", &disk, bare, Load::Buffered),
        ("buffered, with file", &disk, files, Load::Buffered),
        ("buffered, with name", &disk, names, Load::Buffered),
    ];
    let mut other_ns = 0;
    println!("case\tns a bio\tns a request");
    for (name, observed, wants, load) in cases {
        let mut taken: Vec<_> = (0..rounds).map(|_| measure(observed, &mounted, wants, load, other_ns)).collect();
        taken.sort_unstable();
        let (bio_ns, request_ns) = taken[rounds / 2];
        if name == "other disk" {
            other_ns = bio_ns;
        }
        println!("{name}\t{bio_ns}\t{request_ns}");
    }
    for (name, wants, load) in [
        ("recording, direct, without file", bare, Load::Direct),
        ("recording, direct, with name", names, Load::Direct),
        ("recording, buffered, with name", names, Load::Buffered),
    ] {
        let mut taken: Vec<_> = (0..rounds).map(|_| measure_recording(&disk, &mounted, wants, load, other_ns)).collect();
        taken.sort_unstable();
        println!("{name}\t{}\t{}", taken[rounds / 2].0, taken[rounds / 2].1);
    }
    Ok(ExitCode::SUCCESS)
}
