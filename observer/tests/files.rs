//! Files on a file system over a loop device, block by block: each block on the device has the tag of its file and its place in it.

mod common;

use common::{BLOCK, EVERYTHING, LoopDisk, Mounted, check_places, has_file_system, may_observe, tagged};
use onefold_observer::{BLOCK_BYTES, Lifetime, Observation, Observer, Operation, Run, Source};
use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

const BYTES: usize = 1 << 20;
/// `F_SET_RW_HINT`, and two of its hints.
const SET_LIFETIME: c_int = 1024 + 12;
const SHORT: u64 = 2;
const EXTREME: u64 = 5;

/// One file, as it was written.
struct Written<'a> {
    name: &'a str,
    tag: u64,
    file: File,
    /// Whether its writer submits the bios itself.
    is_own: bool,
    source: Source,
    lifetime: Lifetime,
}

/// A disk with a file system, and its observer.
struct Stage {
    observer: Observer,
    mounted: Mounted,
    disk: LoopDisk,
}

impl Stage {
    fn new(make: &[&str], kind: &str, bytes: u64) -> Self {
        let disk = LoopDisk::new(bytes);
        let mounted = disk.mount(make, kind);
        mounted.sync();
        let observer = disk.observe(EVERYTHING);
        Self { observer, mounted, disk }
    }

    fn create(&self, name: &str, flags: c_int) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).custom_flags(flags);
        options.open(self.mounted.file(name)).unwrap()
    }

    fn runs(&self) -> Vec<Run> {
        self.disk.all(&self.observer, Operation::Write)
    }

    /// Checks what was seen of a file, and that each of its blocks was.
    fn check(&self, runs: &[Run], written: &Written<'_>) {
        let about = written.file.metadata().unwrap();
        let directory = std::fs::metadata(self.mounted.file(".")).unwrap().ino();
        let check = |seen: &Observation| {
            let file = seen.file.as_ref().unwrap_or_else(|| panic!("{}: no file in {seen:?}", written.name));
            assert_eq!((file.inode, file.uid, file.directory), (about.ino(), about.uid(), directory), "{seen:?}");
            assert_eq!(file.name.as_ref().map(|name| name.to_string()).as_deref(), Some(written.name), "{seen:?}");
            assert_eq!(file.source, written.source, "{seen:?}");
            assert_eq!((seen.operation, seen.meta, seen.lifetime), (Operation::Write, false, written.lifetime), "{seen:?}");
            if written.is_own {
                assert_eq!((seen.process, seen.comm.to_string()), (std::process::id(), own_comm()), "{seen:?}");
            }
        };
        let places = check_places(&self.disk, runs, written.tag, check);
        let all: Vec<u64> = (0..about.size()).step_by(BLOCK).collect();
        assert_eq!(places, all, "{}: each block was seen once", written.name);
        for seen in runs.iter().filter_map(Run::observation) {
            let Some(file) = &seen.file else { continue };
            // Btrfs has an inode of its own for its trees.
            let is_tree = written.source == Source::Btrfs && file.inode == 1 && seen.meta;
            let is_data = matches!(file.source, Source::PageCache | Source::Direct) && !is_tree;
            assert!(!is_data || (file.inode == about.ino() && !seen.meta), "nothing else was written: {seen:?}");
        }
    }
}

/// The name of this thread, as the kernel has it.
fn own_comm() -> String {
    std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim().to_string()
}

#[allow(unsafe_code)]
fn set_lifetime(file: &File, hint: u64) {
    // SAFETY: the command reads one word.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), SET_LIFETIME, &raw const hint) };
    assert_eq!(result, 0, "F_SET_RW_HINT: {}", std::io::Error::last_os_error());
}

/// Writes memory that is aligned as direct I/O needs it.
#[allow(unsafe_code)]
fn write_direct(file: &File, content: &[u8], offset: u64) {
    let layout = std::alloc::Layout::from_size_align(content.len(), 4096).unwrap();
    // SAFETY: the memory has the content's length, is written before it is read, and is freed once.
    unsafe {
        let memory = std::alloc::alloc(layout);
        std::ptr::copy_nonoverlapping(content.as_ptr(), memory, content.len());
        let result = file.write_all_at(std::slice::from_raw_parts(memory, content.len()), offset);
        std::alloc::dealloc(memory, layout);
        result.unwrap();
    }
}

#[allow(unsafe_code)]
fn write_mapped(file: &File, content: &[u8]) {
    file.set_len(content.len() as u64).unwrap();
    let (protection, flags) = (rustix::mm::ProtFlags::WRITE | rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
    // SAFETY: the file has the content's length, and nobody else has this memory.
    unsafe {
        let memory = rustix::mm::mmap(std::ptr::null_mut(), content.len(), protection, flags, file, 0).unwrap();
        std::ptr::copy_nonoverlapping(content.as_ptr(), memory.cast(), content.len());
        rustix::mm::munmap(memory, content.len()).unwrap();
    }
}

/// Writes files in each way, and checks every block of them.
fn every_way(make: &[&str], kind: &str, buffered: Source, direct: Source) {
    let stage = Stage::new(make, kind, 512 << 20);
    // Btrfs has its checksums made by other threads, so that bios are not the writer's.
    let is_own = kind != "btrfs";

    let file = stage.create("buffered.db-wal", 0);
    set_lifetime(&file, SHORT);
    file.write_all_at(&tagged(101, 0, BYTES), 0).unwrap();
    file.sync_all().unwrap();
    let runs = stage.runs();
    stage.check(&runs, &Written { name: "buffered.db-wal", tag: 101, file, is_own, source: buffered, lifetime: Lifetime::Short });
    assert!(runs.iter().any(|run| run.observation().unwrap().meta), "fsync of a new file writes metadata");

    let file = stage.create("direct", libc::O_DIRECT);
    set_lifetime(&file, EXTREME);
    for part in (0..BYTES as u64).step_by(BYTES / 4) {
        write_direct(&file, &tagged(102, part, BYTES / 4), part);
    }
    stage.check(&stage.runs(), &Written { name: "direct", tag: 102, file, is_own, source: direct, lifetime: Lifetime::Extreme });

    let file = stage.create("mapped", 0);
    write_mapped(&file, &tagged(103, 0, BYTES));
    file.sync_all().unwrap();
    stage.check(&stage.runs(), &Written { name: "mapped", tag: 103, file, is_own, source: buffered, lifetime: Lifetime::NotSet });

    let file = stage.create("unsynced", 0);
    file.write_all_at(&tagged(104, 0, BYTES), 0).unwrap();
    std::fs::rename(stage.mounted.file("unsynced"), stage.mounted.file("renamed")).unwrap();
    stage.mounted.sync();
    stage.check(&stage.runs(), &Written { name: "renamed", tag: 104, file, is_own: false, source: buffered, lifetime: Lifetime::NotSet });

    let counts = stage.observer.counts();
    assert_eq!((counts.lost, counts.ambiguous_blocks), (0, 0), "{counts:?}");
    at_the_end(stage, kind);
}

/// An unmount writes metadata: no file may be named for it.
fn at_the_end(stage: Stage, kind: &str) {
    let Stage { observer, mounted, disk } = stage;
    drop(mounted);
    let runs = disk.all(&observer, Operation::Write);
    let seen: Vec<&Observation> = runs.iter().filter_map(Run::observation).map(AsRef::as_ref).collect();
    // Btrfs has written everything before.
    assert!(kind == "btrfs" || seen.iter().any(|seen| seen.meta), "an unmount writes metadata");
    for file in seen.iter().filter_map(|seen| seen.file.as_ref()) {
        let is_tree = kind == "btrfs" && file.inode == 1;
        assert!(is_tree || !matches!(file.source, Source::PageCache | Source::Direct), "{file:?}");
    }
    let buffers: Vec<_> = seen.iter().filter_map(|seen| seen.file.as_ref()).filter(|file| file.source == Source::XfsBuffer).collect();
    assert_eq!(buffers.is_empty(), kind != "xfs");
    assert!(buffers.iter().all(|file| file.name.as_ref().is_some_and(|name| name.to_string().starts_with("xfs_"))), "{buffers:?}");
}

#[test]
fn every_block_of_ext4_is_known() {
    let test = "every_block_of_ext4_is_known";
    if may_observe(test, &["losetup", "mkfs.ext4"]) && has_file_system(test, "ext4") {
        every_way(&["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "ext4", Source::PageCache, Source::Direct);
    }
}

#[test]
fn every_block_of_xfs_is_known() {
    let test = "every_block_of_xfs_is_known";
    if may_observe(test, &["losetup", "mkfs.xfs"]) && has_file_system(test, "xfs") {
        every_way(&["mkfs.xfs", "-q", "-s", "size=4096"], "xfs", Source::PageCache, Source::Direct);
    }
}

#[test]
fn every_block_of_btrfs_is_known() {
    let test = "every_block_of_btrfs_is_known";
    if may_observe(test, &["losetup", "mkfs.btrfs"]) && has_file_system(test, "btrfs") {
        every_way(&["mkfs.btrfs", "-q"], "btrfs", Source::Btrfs, Source::Btrfs);
    }
}

/// Pages that are neighbours on the disk need not be neighbours in the file: ext4 packs them where there is little room.
#[test]
fn no_place_is_given_wrongly_in_a_sparse_file() {
    let test = "no_place_is_given_wrongly_in_a_sparse_file";
    if !(may_observe(test, &["losetup", "mkfs.ext4"]) && has_file_system(test, "ext4")) {
        return;
    }
    let make = ["mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let stage = Stage::new(&make, "ext4", 32 << 20);
    let room = stage.create("room", 0);
    room.write_all_at(&tagged(1, 0, 100 * BLOCK), 0).unwrap();
    room.sync_all().unwrap();
    let filler = stage.create("filler", 0);
    let full = (0..).find(|block| filler.write_all_at(&[1; BLOCK], block * BLOCK_BYTES).is_err()).unwrap();
    assert!(full > 1000, "{full} blocks");
    filler.sync_all().unwrap();
    std::fs::remove_file(stage.mounted.file("room")).unwrap();
    drop(room);
    stage.mounted.sync();
    stage.runs();

    let file = stage.create("sparse", 0);
    // The first time each page gets its block, in a bio of its own; the second time there are bios of many pages.
    for _ in 0..2 {
        stage.runs();
        for page in (0..60).map(|page| page * 5000) {
            file.write_all_at(&tagged(105, page * BLOCK_BYTES, BLOCK), page * BLOCK_BYTES).unwrap();
        }
        file.sync_all().unwrap();
    }
    let runs = stage.runs();
    let inode = file.metadata().unwrap().ino();
    let of_file = |run: &&Run| run.observation().unwrap().file.as_ref().is_some_and(|file| file.inode == inode);
    let (placed, packed): (Vec<&Run>, Vec<&Run>) = runs.iter().filter(of_file).partition(|run| run.file_offset().is_some());
    check_places(&stage.disk, &placed.iter().copied().cloned().collect::<Vec<_>>(), 105, |_| {});
    let blocks = |runs: &[&Run]| runs.iter().map(|run| run.blocks()).sum::<u64>();
    assert_eq!(blocks(&placed) + blocks(&packed), 60, "each page is known to be the file's");
    if packed.is_empty() {
        common::skipped(test, "this kernel's ext4 has packed no pages");
    }
}

/// A direct write takes its bytes out of memory that may itself be a file's cache.
#[test]
fn the_memory_of_a_direct_write_does_not_name_its_file() {
    let test = "the_memory_of_a_direct_write_does_not_name_its_file";
    if !(may_observe(test, &["losetup", "mkfs.ext4"]) && has_file_system(test, "ext4")) {
        return;
    }
    let stage = Stage::new(&["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "ext4", 512 << 20);
    let source = stage.create("source", 0);
    source.write_all_at(&tagged(106, 0, BYTES), 0).unwrap();
    source.sync_all().unwrap();
    stage.runs();
    let file = stage.create("target", libc::O_DIRECT);
    write_from_map(&file, &source);
    stage.check(
        &stage.runs(),
        &Written { name: "target", tag: 106, file, is_own: true, source: Source::Direct, lifetime: Lifetime::NotSet },
    );
}

#[allow(unsafe_code)]
fn write_from_map(to: &File, source: &File) {
    let (protection, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
    // SAFETY: the file has these bytes, and nobody changes them.
    unsafe {
        let memory = rustix::mm::mmap(std::ptr::null_mut(), BYTES, protection, flags, source, 0).unwrap();
        to.write_all_at(std::slice::from_raw_parts(memory.cast(), BYTES), 0).unwrap();
        rustix::mm::munmap(memory, BYTES).unwrap();
    }
}
