//! Whole disks and partitions, seen by BPF and by the tracepoint: what is known is right, and what is not certain is unknown.

mod common;

use common::{
    BLOCK, EVERYTHING, LoopDisk, MEMORY_BYTES, begin, begin_by, may_loop, may_observe, number_of, run, skipped, start_loader, tag_of,
    tagged,
};
use onefold_observer::{BLOCK_BYTES, Disk, Means, Observer, Operation, Refused, Run, Wants};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const NOTHING: Wants = Wants { files: false, names: false, reads: false };

/// Memory that is aligned as direct I/O needs it.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

impl Aligned {
    fn tagged(tag: u64, offset: u64) -> Self {
        Self(tagged(tag, offset, BLOCK).try_into().expect("a block"))
    }
}

fn open(device: &str, flags: i32) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(device).unwrap()
}

/// Writes one block past the page cache.
fn write(device: &File, tag: u64, block: u64) {
    device.write_all_at(&Aligned::tagged(tag, block).0, block * BLOCK_BYTES).unwrap();
}

/// The processes of the runs of one block; `None` for what is unknown.
fn process_of(observer: &Observer, operation: Operation, block: u64) -> Option<u32> {
    let runs = observer.seen(operation, block * BLOCK_BYTES, BLOCK_BYTES);
    let processes: Vec<_> = runs.iter().map(|run| run.observation().map(|seen| seen.process)).collect();
    assert_eq!(processes.len(), 1);
    processes[0]
}

/// The means that this machine has.
fn means(test: &str, tools: &[&str]) -> Vec<Means> {
    if !may_loop(test, tools) {
        return Vec::new();
    }
    if may_observe(test, tools) { vec![Means::Bpf, Means::Tracepoint] } else { vec![Means::Tracepoint] }
}

#[test]
fn other_disks_are_not_seen_and_a_request_uses_up_what_it_finds() {
    for means in means("other_disks_are_not_seen_and_a_request_uses_up_what_it_finds", &["losetup"]) {
        let (disk, other) = (LoopDisk::new(1 << 20), LoopDisk::new(1 << 20));
        let observer = begin_by(means, disk.number(), EVERYTHING, MEMORY_BYTES);
        let (written, not_seen) = (open(disk.device(), libc::O_DIRECT), open(other.device(), libc::O_DIRECT));
        for block in 0..8 {
            write(&not_seen, 1, block);
        }
        write(&written, 1, 3);
        assert_eq!(process_of(&observer, Operation::Write, 2), None);
        assert_eq!(process_of(&observer, Operation::Write, 3), Some(std::process::id()));
        assert_eq!(process_of(&observer, Operation::Write, 3), None);
        let counts = observer.counts();
        assert_eq!((counts.bios, counts.joined_blocks, counts.unknown_blocks), (1, 1, 2), "{counts:?}");
        assert_eq!((counts.lost, counts.pending, counts.forgotten), (0, 0, 0), "{counts:?}");
        assert!(counts.memory_bytes <= MEMORY_BYTES as u64);
    }
}

#[test]
fn reads_and_discards_are_seen_where_they_are_wanted() {
    for means in means("reads_and_discards_are_seen_where_they_are_wanted", &["losetup", "blkdiscard"]) {
        let disk = LoopDisk::new(1 << 20);
        let without = begin_by(means, disk.number(), NOTHING, MEMORY_BYTES);
        let with = begin_by(means, disk.number(), Wants { reads: true, ..NOTHING }, MEMORY_BYTES);
        let device = open(disk.device(), libc::O_DIRECT);
        let mut block = Aligned([0; BLOCK]);
        device.read_exact_at(&mut block.0, BLOCK_BYTES).unwrap();
        assert_eq!(process_of(&with, Operation::Read, 1), Some(std::process::id()));
        assert_eq!(process_of(&without, Operation::Read, 1), None);
        assert_eq!(without.counts().bios, 0);

        run("blkdiscard", &["--offset", "8192", "--length", "16384", disk.device()]);
        for observer in [&with, &without] {
            let runs = observer.seen(Operation::Discard, 0, 1 << 20);
            let known: Vec<&Run> = runs.iter().filter(|run| run.observation().is_some()).collect();
            assert_eq!(known.iter().map(|run| (run.offset(), run.length())).collect::<Vec<_>>(), [(8192, 16384)]);
            let seen = known[0].observation().unwrap();
            assert_eq!((seen.operation, seen.file.is_none(), seen.comm.to_string()), (Operation::Discard, true, "blkdiscard".into()));
        }

        run("blkdiscard", &["--zeroout", "--offset", "32768", "--length", "4096", disk.device()]);
        let runs = with.seen(Operation::WriteZeroes, 32768, 4096);
        assert_eq!(runs.iter().map(|run| run.observation().unwrap().operation).collect::<Vec<_>>(), [Operation::WriteZeroes]);
    }
}

/// Both flags by a file system's own journal: its commit block is META and FUA.
#[test]
fn meta_and_fua_are_seen_by_both_means() {
    let test = "meta_and_fua_are_seen_by_both_means";
    for means in means(test, &["losetup", "mkfs.ext4"]) {
        if !common::has_file_system(test, "ext4") {
            return;
        }
        let disk = LoopDisk::new(64 << 20);
        let mounted = disk.mount(&["mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "ext4");
        mounted.sync();
        let observer = begin_by(means, disk.number(), EVERYTHING, MEMORY_BYTES);
        let file = File::create(mounted.file("new")).unwrap();
        file.write_all_at(&tagged(1, 0, BLOCK), 0).unwrap();
        file.sync_all().unwrap();
        let runs = disk.all(&observer, Operation::Write);
        let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).map(Run::blocks).sum::<u64>();
        let data = count(&|run| !run.observation().unwrap().meta);
        let metadata = count(&|run| run.observation().unwrap().meta);
        let durable = count(&|run| run.observation().unwrap().fua);
        assert_eq!((data, durable), (1, 1), "{means:?}: one block of data, one commit block: {runs:?}");
        assert!(metadata >= 4, "{means:?}: {runs:?}");
    }
}

#[test]
fn a_partition_is_seen_at_the_places_of_the_disk() {
    let test = "a_partition_is_seen_at_the_places_of_the_disk";
    for means in means(test, &["losetup", "sfdisk"]) {
        let disk = LoopDisk::new(16 << 20);
        let table = format!("printf 'start=8192,size=8192\\n' | sfdisk --quiet --label gpt {}", disk.device());
        run("sh", &["-c", &table]);
        run("losetup", &["--set-capacity", disk.device()]);
        let partition = format!("{}p1", disk.device());
        if !Path::new(&partition).exists() {
            run("sh", &["-c", &format!("partx --add {0} 2>&1 || partx --update {0}", disk.device())]);
        }
        if !Path::new(&partition).exists() {
            return skipped(test, "this machine makes no device of a loop device's partition");
        }
        let refused = begin(number_of(&partition), NOTHING).err();
        assert!(matches!(refused, Some(Refused::Partition { .. })), "{refused:?}");

        let observer = begin_by(means, disk.number(), EVERYTHING, MEMORY_BYTES);
        write(&open(&partition, libc::O_DIRECT), 77, 5);
        let runs = disk.all(&observer, Operation::Write);
        let places: Vec<_> = runs.iter().map(|run| (run.offset(), run.length())).collect();
        assert_eq!(places, [(8192 * 512 + 5 * BLOCK_BYTES, BLOCK_BYTES)], "{means:?}");
        assert_eq!(tag_of(&disk.block(places[0].0)), (77, 5));
    }
}

#[test]
fn a_loss_leaves_the_unknown_and_nothing_wrong() {
    for means in means("a_loss_leaves_the_unknown_and_nothing_wrong", &["losetup"]) {
        let disk = LoopDisk::new(64 << 20);
        let observer = begin_by(means, disk.number(), EVERYTHING, 128 << 10);
        let device = open(disk.device(), libc::O_DIRECT);
        let blocks = 8192;
        // Each processor has its own ring of the tracepoint, and reports its own losses.
        let mut first = rustix::thread::CpuSet::new();
        first.set(0);
        rustix::thread::sched_setaffinity(None, &first).unwrap();
        // Nobody drains meanwhile: the ring is full long before the end.
        for block in 0..blocks {
            write(&device, 1, block);
        }
        for block in 0..blocks {
            assert_eq!(process_of(&observer, Operation::Write, block), None, "{means:?}, block {block}");
        }
        let counts = observer.counts();
        assert!(counts.forgotten > 0 && counts.forgotten < blocks, "{counts:?}");
        assert_eq!((counts.joined_blocks, counts.unknown_blocks, counts.pending), (0, blocks, 0), "{counts:?}");
        if means == Means::Bpf {
            assert_eq!(counts.bios + counts.lost, blocks, "{counts:?}");
        }
        // What comes after is known again. Losses of the tracepoint's rings are reported with the next record, which is forgotten, too; and
        // other tests write on loop devices, which share these rings.
        let mut after = (0..100).map(|block| {
            write(&device, 1, block);
            process_of(&observer, Operation::Write, block)
        });
        match means {
            Means::Bpf => assert_eq!(after.next(), Some(Some(std::process::id()))),
            Means::Tracepoint => assert_eq!(after.find_map(|process| process), Some(std::process::id())),
        }
        if means == Means::Tracepoint {
            // A lost record may have been of another loop device, on which another test writes.
            assert!(observer.counts().bios + observer.counts().lost > blocks, "{:?}", observer.counts());
        }
    }
}

/// Threads that write the same blocks, one at a time for each block: no request may get another write's facts.
#[test]
fn threads_never_get_the_facts_of_each_other() {
    let test = "threads_never_get_the_facts_of_each_other";
    for means in means(test, &["losetup"]) {
        let disk = LoopDisk::new(1 << 20);
        let observer = begin_by(means, disk.number(), EVERYTHING, MEMORY_BYTES);
        let blocks: Vec<Mutex<()>> = (0..32).map(|_| Mutex::new(())).collect();
        let (writes, unknown) = (3000, AtomicU64::new(0));
        let own = |seen: &Run, name: &str| seen.observation().map(|seen| assert_eq!(seen.comm.to_string(), name, "{means:?}"));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (observer, blocks, unknown, disk) = (&observer, &blocks, &unknown, &disk);
                let name = format!("writer {thread}");
                let work = move || {
                    let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim().to_string();
                    let device = open(disk.device(), libc::O_DIRECT);
                    for turn in 0..writes {
                        let block = (turn * 7 + thread * 13) % blocks.len() as u64;
                        let _alone = blocks[usize::try_from(block).unwrap()].lock().unwrap();
                        write(&device, thread, block);
                        for run in observer.seen(Operation::Write, block * BLOCK_BYTES, BLOCK_BYTES).iter() {
                            unknown.fetch_add(u64::from(own(run, &name).is_none()), Ordering::Relaxed);
                        }
                    }
                };
                std::thread::Builder::new().name(name).spawn_scoped(scope, work).unwrap();
            }
        });
        let counts = observer.counts();
        assert_eq!((counts.bios, counts.lost, counts.expired), (4 * writes, 0, 0), "{counts:?}");
        let unknown = unknown.load(Ordering::Relaxed);
        println!("{means:?}: {unknown} of {} unknown, {counts:?}", 4 * writes);
        assert!(unknown <= writes / 25, "{means:?}: {unknown} of {} are unknown: {counts:?}", 4 * writes);
        assert_eq!(counts.pending, 0, "an observation that came late was used up: {counts:?}");
    }
}

#[test]
fn what_cannot_be_observed_is_refused_with_a_reason() {
    let no_disk = begin(Disk { major: 4095, minor: 7 }, NOTHING).err().expect("there is no such disk");
    assert!(matches!(no_disk, Refused::NoDisk { .. }), "{no_disk:?}");
    assert!(no_disk.to_string().starts_with("4095:7: there is no such block device"), "{no_disk}");
    if may_loop("what_cannot_be_observed_is_refused_with_a_reason", &["losetup"]) {
        let disk = LoopDisk::new(1 << 20);
        let refused = Observer::begin_in_child(disk.number(), NOTHING, 4096, start_loader).err().expect("a page is too little");
        assert!(matches!(refused, Refused::Memory { given: 4096, .. }), "{refused:?}");
    }
}
