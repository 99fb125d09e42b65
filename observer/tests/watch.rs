//! The content of writes, compared with what the disk has.

mod common;

use common::{BLOCK, LoopDisk, has_file_system, may_observe, number_of, run, skipped, start_loader, tagged};
use onefold_observer::{BLOCK_BYTES, Event, File, Operation, Place, Request, Wants, Watch};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

const FILES: Wants = Wants { files: true, names: true, reads: false };
const RING_BYTES: usize = 32 << 20;
const WRITTEN: usize = 24 << 20;

fn watch(device: &str, ring_bytes: usize) -> Watch {
    let place = Place::of(number_of(device)).unwrap();
    let watch = Watch::begin_in_child(place, Path::new(device), FILES, ring_bytes, start_loader).unwrap();
    assert!(watch.has_content(), "the address of a page of the kernel is known");
    watch
}

/// All that a watch has seen: the last content of each block, and the requests.
#[derive(Default)]
struct Seen {
    blocks: HashMap<u64, [u8; BLOCK]>,
    requests: Vec<Request>,
    block_count: u64,
}

impl Seen {
    fn take(&mut self, watch: &mut Watch) {
        watch.drain(|event| match event {
            Event::Block { at, content, .. } => {
                self.block_count += 1;
                self.blocks.insert(at, *content);
            }
            Event::Request(request) => self.requests.push(request),
        });
    }

    fn written_blocks(&self) -> u64 {
        let writes = self.requests.iter().filter(|request| request.observation.operation == Operation::Write);
        writes.map(Request::blocks).sum()
    }

    /// Checks each block against the device, and returns how many have this tag.
    fn check(&self, device: &str, tag: u64) -> usize {
        let disk = fs::File::open(device).unwrap();
        let mut tagged = 0;
        let mut other = 0;
        for (at, content) in &self.blocks {
            let mut block = [0; BLOCK];
            disk.read_exact_at(&mut block, *at).unwrap();
            other += usize::from(block != *content);
            tagged += usize::from(content[..8] == tag.to_le_bytes());
        }
        assert_eq!(other, 0, "blocks of {} that the disk has otherwise", self.blocks.len());
        tagged
    }
}

/// Writes a file, buffered, and checks that all of it was seen on the way to the disk.
fn file_system(test: &str, kind: &str, make: &[&str]) {
    if !may_observe(test, &[make[0]]) || !has_file_system(test, kind) {
        return;
    }
    let disk = LoopDisk::new(512 << 20);
    let mounted = disk.mount(make, kind);
    let mut watch = watch(disk.device(), RING_BYTES);
    let mut seen = Seen::default();
    let content = tagged(0xC0FF_EE00, 0, WRITTEN);
    fs::write(mounted.file("content.bin"), &content).unwrap();
    mounted.sync();
    seen.take(&mut watch);
    let counts = watch.counts();
    assert_eq!((counts.lost_requests, counts.lost_blocks, counts.unreadable), (0, 0, 0));
    assert_eq!(counts.requests, seen.requests.len() as u64);
    drop(mounted);
    seen.take(&mut watch);
    assert_eq!(seen.check(disk.device(), 0xC0FF_EE00), WRITTEN / BLOCK, "each block of the file was seen");
    let own = std::process::id();
    // The name is told once; the inode always.
    let named = seen.requests.iter().filter_map(|request| request.observation.file.as_ref()).find(|file| {
        let name = file.name.as_ref();
        name.is_some_and(|name| name.as_bytes() == b"content.bin")
    });
    let named = named.expect("the file has its name");
    let is_it = |file: &File| (file.inode, file.generation) == (named.inode, named.generation);
    let of_file = seen.requests.iter().filter(|request| request.observation.file.as_ref().is_some_and(is_it));
    let (mut bytes, mut of_own) = (0, 0);
    for request in of_file {
        bytes += request.length;
        of_own += if request.observation.process == own { request.length } else { 0 };
    }
    assert_eq!((bytes, of_own), (WRITTEN as u64, WRITTEN as u64), "all of it is this process's, whoever writes it back");
    assert!(seen.requests.iter().any(|request| request.flushes), "the sync ended with a flush");
}

#[test]
fn ext4_is_seen_block_by_block() {
    file_system("ext4_is_seen_block_by_block", "ext4", &["mkfs.ext4", "-q", "-F"]);
}

#[test]
fn xfs_is_seen_block_by_block() {
    file_system("xfs_is_seen_block_by_block", "xfs", &["mkfs.xfs", "-q", "-f"]);
}

#[test]
fn btrfs_is_seen_block_by_block() {
    file_system("btrfs_is_seen_block_by_block", "btrfs", &["mkfs.btrfs", "-q", "-f"]);
}

/// Memory whose parts are apart: a block of it that begins within a page has two vectors.
#[repr(align(4096))]
struct Aligned([u8; 5 * BLOCK]);

#[test]
fn a_block_of_several_vectors_is_whole() {
    if !may_observe("a_block_of_several_vectors_is_whole", &[]) {
        return;
    }
    let disk = LoopDisk::new(64 << 20);
    let mut watch = watch(disk.device(), RING_BYTES);
    let mut memory = Box::new(Aligned([0; 5 * BLOCK]));
    memory.0[512..512 + 4 * BLOCK].copy_from_slice(&tagged(0xD1, 0, 4 * BLOCK));
    let device = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(disk.device()).unwrap();
    // Whole blocks out of memory that begins within a page; then sectors, the first and the last block in part.
    device.write_all_at(&memory.0[512..512 + 4 * BLOCK], 8 * BLOCK_BYTES).unwrap();
    device.write_all_at(&memory.0[512..512 + 2 * BLOCK], 20 * BLOCK_BYTES + 1024).unwrap();
    device.sync_all().unwrap();
    let mut seen = Seen::default();
    seen.take(&mut watch);
    assert_eq!(seen.check(disk.device(), 0xD1), 5);
    let mut places: Vec<_> = seen.blocks.keys().map(|at| at / BLOCK_BYTES).collect();
    places.sort_unstable();
    assert_eq!(places, [8, 9, 10, 11, 21], "only blocks that were written whole");
}

/// Writes a block directly.
fn write_directly(path: &str, at: u64, tag: u64) {
    let mut memory = Box::new(Aligned([0; 5 * BLOCK]));
    memory.0[..BLOCK].copy_from_slice(&tagged(tag, at * BLOCK_BYTES, BLOCK));
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    file.write_all_at(&memory.0[..BLOCK], at * BLOCK_BYTES).unwrap();
}

#[test]
fn a_write_of_one_block_has_its_content_and_its_file_with_it() {
    if !may_observe("a_write_of_one_block_has_its_content_and_its_file_with_it", &["mkfs.ext4"]) {
        return;
    }
    let disk = LoopDisk::new(256 << 20);
    let mounted = disk.mount(&["mkfs.ext4", "-q", "-F", "-b", "4096"], "ext4");
    let files = ["short", &"long".repeat(31)].map(|name| (name.to_owned(), mounted.file(name)));
    for (_, path) in &files {
        fs::write(path, tagged(6, 0, 32 * BLOCK)).unwrap();
    }
    mounted.sync();
    let mut watch = watch(disk.device(), RING_BYTES);
    for at in 0..32 {
        files.iter().for_each(|(_, path)| write_directly(path.to_str().unwrap(), at, 0xE1));
    }
    let mut seen = Seen::default();
    seen.take(&mut watch);
    for (name, path) in &files {
        let inode = fs::metadata(path).unwrap().ino();
        let of_file = seen.requests.iter().filter_map(|request| request.observation.file.as_ref()).filter(|file| file.inode == inode);
        let names: Vec<_> = of_file.map(|file| file.name.as_ref().map(|name| name.as_bytes().to_vec())).collect();
        assert_eq!(names.len(), 32, "{name}");
        assert!(names.iter().flatten().all(|found| found == name.as_bytes()), "{name}: {names:?}");
        assert!(names.iter().flatten().next().is_some(), "a processor that meets another file tells its name");
    }
    drop(mounted);
    seen.take(&mut watch);
    assert_eq!(seen.check(disk.device(), 0xE1), 64);
}

#[test]
fn each_write_of_one_block_is_seen_or_counted() {
    if !may_observe("each_write_of_one_block_is_seen_or_counted", &[]) {
        return;
    }
    let disk = LoopDisk::new(64 << 20);
    let mut watch = watch(disk.device(), 128 << 10);
    let written = 3000;
    (0..written).for_each(|at| write_directly(disk.device(), at, 0xE2));
    let mut seen = Seen::default();
    seen.take(&mut watch);
    let counts = watch.counts();
    assert!(seen.block_count > 20 && counts.lost_requests > 0, "{counts:?}");
    assert_eq!(seen.block_count + counts.lost_blocks, written, "{counts:?}");
    assert_eq!((counts.requests, counts.requests + counts.lost_requests), (seen.requests.len() as u64, written), "{counts:?}");
    assert!(counts.requests > seen.block_count, "observations find the room that content leaves");
    // There is room again.
    (0..4).for_each(|at| write_directly(disk.device(), at, 0xE3));
    let mut later = Seen::default();
    later.take(&mut watch);
    assert_eq!((later.check(disk.device(), 0xE3), later.requests.len()), (4, 4));
}

#[test]
fn a_partition_is_seen_alone_and_from_its_own_beginning() {
    let test = "a_partition_is_seen_alone_and_from_its_own_beginning";
    if !may_observe(test, &["sfdisk"]) {
        return;
    }
    let disk = LoopDisk::new(64 << 20);
    run("sh", &["-c", &format!("printf '2048,32768\\n34816,65536\\n' | sfdisk -q --no-reread {0} && partx -u {0}", disk.device())]);
    let [first, second] = [1, 2].map(|number| format!("{}p{number}", disk.device()));
    let mut watch = watch(&second, RING_BYTES);
    let write = |device: &str, tag: u64| {
        let file = OpenOptions::new().write(true).open(device).unwrap();
        file.write_all_at(&tagged(tag, 0, 16 * BLOCK), 4 * BLOCK_BYTES).unwrap();
        file.sync_all().unwrap();
    };
    write(&first, 1);
    write(&second, 2);
    let mut seen = Seen::default();
    seen.take(&mut watch);
    assert_eq!((seen.check(&second, 2), seen.blocks.len()), (16, 16));
    assert_eq!(watch.place().bytes(), 32 << 20);
}

#[test]
fn a_mapped_disk_is_seen() {
    let test = "a_mapped_disk_is_seen";
    if !may_observe(test, &["dmsetup"]) {
        return;
    }
    if !fs::read_to_string("/proc/devices").unwrap().contains("device-mapper") {
        skipped(test, "this kernel has no device mapper");
        return;
    }
    let disk = LoopDisk::new(64 << 20);
    let name = format!("onefold-watch-{}", std::process::id());
    run("dmsetup", &["create", &name, "--table", &format!("0 65536 linear {} 2048", disk.device())]);
    let mapped = fs::canonicalize(format!("/dev/mapper/{name}")).unwrap();
    let mapped = mapped.to_str().unwrap().to_owned();
    let mut seen = Seen::default();
    {
        let mut watch = watch(&mapped, RING_BYTES);
        let file = OpenOptions::new().write(true).open(&mapped).unwrap();
        file.write_all_at(&tagged(3, 0, 64 * BLOCK), 0).unwrap();
        file.sync_all().unwrap();
        seen.take(&mut watch);
    }
    let found = seen.check(&mapped, 3);
    run("dmsetup", &["remove", &name]);
    assert_eq!(found, 64);
}

#[test]
fn a_disk_that_cannot_be_opened_is_seen_after_a_commit_of_its_journal() {
    if !may_observe("a_disk_that_cannot_be_opened_is_seen_after_a_commit_of_its_journal", &["mkfs.ext4"]) {
        return;
    }
    let disk = LoopDisk::new(256 << 20);
    let mounted = disk.mount(&["mkfs.ext4", "-q", "-F", "-b", "4096"], "ext4");
    let place = Place::of(disk.number()).unwrap();
    let mut watch = Watch::begin_in_child(place, Path::new("/dev/nowhere"), FILES, RING_BYTES, start_loader).unwrap();
    let write = |name: &str, tag: u64| {
        fs::write(mounted.file(name), tagged(tag, 0, 16 * BLOCK)).unwrap();
        mounted.sync();
    };
    // The journal's own buffers, and a second one that agrees.
    (0..8).for_each(|number| write(&format!("before-{number}"), 1));
    assert!(watch.has_content(), "a journal has buffer heads");
    Seen::default().take(&mut watch);
    write("after", 2);
    let mut seen = Seen::default();
    seen.take(&mut watch);
    drop(mounted);
    seen.take(&mut watch);
    assert_eq!(seen.check(disk.device(), 2), 16);
}

#[test]
fn what_finds_no_room_is_counted() {
    if !may_observe("what_finds_no_room_is_counted", &["mkfs.ext4"]) {
        return;
    }
    let disk = LoopDisk::new(256 << 20);
    let mounted = disk.mount(&["mkfs.ext4", "-q", "-F", "-b", "4096"], "ext4");
    let mut watch = watch(disk.device(), 1 << 20);
    fs::write(mounted.file("big.bin"), tagged(4, 0, WRITTEN)).unwrap();
    mounted.sync();
    let mut seen = Seen::default();
    seen.take(&mut watch);
    let counts = watch.counts();
    assert!(counts.lost_blocks > 1000, "{counts:?}");
    assert_eq!(counts.lost_requests, 0, "observations find the room that content leaves");
    assert_eq!(seen.block_count + counts.lost_blocks, seen.written_blocks(), "each block is seen, or counted as lost");
    assert!(seen.written_blocks() >= (WRITTEN / BLOCK) as u64);
    // There is room again.
    fs::write(mounted.file("small.bin"), tagged(5, 0, 16 * BLOCK)).unwrap();
    mounted.sync();
    let mut later = Seen::default();
    later.take(&mut watch);
    assert_eq!(later.blocks.values().filter(|content| content[..8] == 5_u64.to_le_bytes()).count(), 16);
}

/// A loop device that counts as one without a write cache. It would do so for its next file, too.
struct WriteThrough(String);

impl WriteThrough {
    fn new(name: &str) -> Self {
        let setting = format!("/sys/block/{name}/queue/write_cache");
        fs::write(&setting, "write through").unwrap();
        Self(setting)
    }
}

impl Drop for WriteThrough {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "write back");
    }
}

#[test]
fn a_disk_without_a_write_cache_has_its_flushes_all_the_same() {
    let test = "a_disk_without_a_write_cache_has_its_flushes_all_the_same";
    if !may_observe(test, &["mkfs.ext4"]) {
        return;
    }
    let disk = LoopDisk::new(256 << 20);
    let mounted = disk.mount(&["mkfs.ext4", "-q", "-F"], "ext4");
    let name = disk.device().trim_start_matches("/dev/");
    let _restored = WriteThrough::new(name);
    let mut watch = watch(disk.device(), RING_BYTES);
    assert!(!watch.place().has_write_cache());
    if !watch.has_flushes() {
        skipped(test, "this kernel takes no program at the entry of a function");
        return;
    }
    let file = fs::File::create(mounted.file("synced")).unwrap();
    for at in 0..10 {
        file.write_all_at(&[7; BLOCK], at * BLOCK_BYTES).unwrap();
        file.sync_all().unwrap();
    }
    let mut seen = Seen::default();
    seen.take(&mut watch);
    let flushes = seen.requests.iter().filter(|request| request.flushes).count();
    let durable = seen.requests.iter().filter(|request| request.observation.fua).count();
    assert!(flushes >= 10 && durable >= 10, "ten commits: {flushes} flushes, {durable} durable writes");
    assert!(seen.requests.iter().all(|request| request.length > 0 || request.flushes));
}
