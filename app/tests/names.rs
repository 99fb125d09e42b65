//! The names of what lies in damaged bytes, on file systems over a loop device: the place of each content is found in the image itself.

mod common;

use common::home::Home;
use common::{Dice, Scratch, have, may_mount, run};
use onefold::names::{Holder, Named, find};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;

/// A file system on a loop device over a file. All of it is gone when it is dropped.
struct Rig {
    image: PathBuf,
    device: String,
    mounts: Vec<PathBuf>,
    scratch: Scratch,
}

impl Rig {
    /// Makes a device, which is empty.
    fn new() -> Self {
        let scratch = Scratch::new();
        let image = scratch.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let device = run(Command::new("losetup").args(["--find", "--show", "--partscan"]).arg(&image)).trim().to_owned();
        Self { image, device, mounts: Vec::new(), scratch }
    }

    /// Makes a file system on it, or on a part of it, and mounts that.
    fn with(mkfs: &[&str], options: &str) -> Self {
        let mut rig = Self::new();
        run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&rig.device));
        let device = rig.device.clone();
        rig.mount(&device, "mounted", options);
        rig
    }

    fn mount(&mut self, device: &str, name: &str, options: &str) -> PathBuf {
        let at = self.scratch.path().join(name);
        std::fs::create_dir_all(&at).unwrap();
        run(Command::new("mount").args(["-o", options, device]).arg(&at));
        self.mounts.push(at.clone());
        at
    }

    fn unmount(&mut self) {
        for at in self.mounts.drain(..).rev() {
            let _ = Command::new("umount").arg(&at).status();
        }
    }

    /// Writes a file of these blocks of random bytes, each of which begins with its own mark.
    fn write(&self, name: &str, marks: Range<u64>) {
        let path = self.mounts[0].join(name);
        let mut content = Vec::new();
        let mut dice = Dice::new(marks.start);
        for mark in marks {
            let mut block = vec![0; usize::try_from(BLOCK).unwrap()];
            dice.fill(&mut block);
            block[..32].copy_from_slice(&Self::mark(mark));
            content.extend(block);
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        rustix::fs::sync();
    }

    fn mark(number: u64) -> [u8; 32] {
        let mut mark = *b"a block of the test, number ....";
        mark[28..].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
        mark
    }

    /// Returns the places on the device of the block with this mark.
    fn places_of(&self, mark: u64) -> Vec<u64> {
        let file = std::fs::File::open(&self.image).unwrap();
        let bytes = file.metadata().unwrap().len();
        let mut block = vec![0; 1 << 20];
        let mut found = Vec::new();
        for at in (0..bytes).step_by(1 << 20) {
            let length = file.read_at(&mut block, at).unwrap();
            let begins = block[..length].chunks(512).zip((at..).step_by(512)).filter(|(sector, _)| sector.starts_with(&Self::mark(mark)));
            found.extend(begins.map(|(_, place)| place));
        }
        found
    }

    fn place_of(&self, mark: u64) -> u64 {
        let places = self.places_of(mark);
        assert_eq!(places.len(), 1, "the block {mark} lies at {places:?}");
        places[0]
    }

    fn names(&self, ranges: &[Range<u64>]) -> Vec<Named> {
        find(Path::new(&self.device), ranges, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    /// Returns the only holder of one block.
    fn holder(&self, place: u64) -> Holder {
        let named = self.names(std::slice::from_ref(&(place..place + BLOCK)));
        assert!(named.len() == 1 && named[0].offset == place && named[0].bytes == BLOCK, "{named:?}");
        named[0].holder.clone()
    }

    /// Returns all holders of one block.
    fn holders(&self, place: u64) -> Vec<Holder> {
        self.names(std::slice::from_ref(&(place..place + BLOCK))).into_iter().map(|piece| piece.holder).collect()
    }

    fn file(&self, name: &str, block: u64) -> Holder {
        Holder::File { path: self.mounts[0].join(name).display().to_string(), file_offset: block * BLOCK }
    }

    fn mounted(&self) -> String {
        self.mounts[0].display().to_string()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.unmount();
        let _ = Command::new("partx").args(["--delete", &self.device]).output();
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

fn may(test: &str, tools: &[&str]) -> bool {
    may_mount(test) && have(test, tools)
}

/// Checks what all file systems have in common.
fn check_files(rig: &Rig) {
    rig.write("a/b/one file", 100..140);
    rig.write("two", 200..210);
    for (name, first, block) in [("a/b/one file", 100, 0), ("a/b/one file", 100, 39), ("two", 200, 7)] {
        assert_eq!(rig.holder(rig.place_of(first + block)), rig.file(name, block));
    }
    // Many ranges at once, in no order, two of them beside each other.
    let (far, near) = (rig.place_of(205), rig.place_of(103));
    let named = rig.names(&[far..far + BLOCK, near..near + 10, near + 10..near + BLOCK]);
    let mut expected = vec![(far, rig.file("two", 5)), (near, rig.file("a/b/one file", 3))];
    expected.sort();
    assert_eq!(named.iter().map(|piece| (piece.offset, piece.holder.clone())).collect::<Vec<_>>(), expected);
    assert_eq!(named.iter().map(|piece| piece.bytes).sum::<u64>(), 2 * BLOCK);
    // A part of a block has the offset of that part.
    let part = rig.names(std::slice::from_ref(&(far + 512..far + 1024)));
    assert_eq!(part[0].holder, Holder::File { path: rig.mounts[0].join("two").display().to_string(), file_offset: 5 * BLOCK + 512 });
}

#[test]
fn ext4_files_are_named_by_their_extents() {
    if !may("ext4_files_are_named_by_their_extents", &["mkfs.ext4"]) {
        return;
    }
    let mut rig = Rig::with(&["mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0"], "nodiscard");
    check_files(&rig);
    assert_eq!(rig.holder(0), Holder::Metadata { mount: rig.mounted() }, "the superblock");
    let place = rig.place_of(200);
    std::fs::remove_file(rig.mounts[0].join("two")).unwrap();
    rustix::fs::sync();
    assert_eq!(rig.holder(place), Holder::Free { mount: rig.mounted() });
    let place = rig.place_of(100);
    let late = find(Path::new(&rig.device), std::slice::from_ref(&(place..place + 1)), Instant::now()).unwrap();
    assert!(matches!(&late[0].holder, Holder::Unknown { why, .. } if why.contains("the time was over")), "{late:?}");
    rig.unmount();
    assert_eq!(rig.holder(place), Holder::NotMounted);
}

#[test]
fn xfs_files_are_named_by_its_reverse_map() {
    if !may("xfs_files_are_named_by_its_reverse_map", &["mkfs.xfs"]) {
        return;
    }
    for options in ["rmapbt=1,reflink=1", "rmapbt=0,reflink=1"] {
        let rig = Rig::with(&["mkfs.xfs", "-q", "-K", "-m", options], "defaults");
        check_files(&rig);
        assert_eq!(rig.holder(0), if options.contains("rmapbt=1") { Holder::Metadata { mount: rig.mounted() } } else { rig.holder(0) });
        assert!(!matches!(rig.holder(0), Holder::File { .. } | Holder::Free { .. } | Holder::Unknown { .. }), "{options}");
        run(Command::new("cp").arg("--reflink=always").arg(rig.mounts[0].join("two")).arg(rig.mounts[0].join("a/copy")));
        rustix::fs::sync();
        let place = rig.place_of(201);
        let holders = rig.holders(place);
        assert_eq!(holders, [rig.file("a/copy", 1), rig.file("two", 1)], "{options}");
        for name in ["two", "a/copy"] {
            std::fs::remove_file(rig.mounts[0].join(name)).unwrap();
        }
        rustix::fs::sync();
        run(Command::new("sync").arg("-f").arg(&rig.mounts[0]));
        // XFS frees the blocks of removed files a little later; until then they are those of inodes without names.
        let left = rig.names(std::slice::from_ref(&(place..place + BLOCK)));
        assert!(!left.iter().any(|named| matches!(named.holder, Holder::File { .. })), "{options}: {left:?}");
    }
}

#[test]
fn btrfs_files_are_named_in_every_subvolume() {
    if !may("btrfs_files_are_named_in_every_subvolume", &["mkfs.btrfs", "btrfs"]) {
        return;
    }
    let mut rig = Rig::with(&["mkfs.btrfs", "-q", "-K"], "defaults");
    check_files(&rig);
    let superblock = rig.holder(64 << 10);
    assert!(matches!(superblock, Holder::Metadata { .. } | Holder::MetadataOrFree { .. }), "{superblock:?}");
    let at = rig.mounts[0].clone();
    run(Command::new("btrfs").args(["subvolume", "create"]).arg(at.join("a/inner")));
    rig.write("a/inner/deep/three", 300..304);
    assert_eq!(rig.holder(rig.place_of(302)), rig.file("a/inner/deep/three", 2));
    run(Command::new("btrfs").args(["subvolume", "snapshot"]).arg(at.join("a/inner")).arg(at.join("kept")));
    rustix::fs::sync();
    let place = rig.place_of(303);
    let holders = rig.holders(place);
    assert_eq!(holders, [rig.file("a/inner/deep/three", 3), rig.file("kept/deep/three", 3)]);
    let of_two = rig.place_of(200);
    rig.unmount();
    let device = rig.device.clone();
    rig.mount(&device, "inner", "subvol=a/inner");
    let holders = rig.holders(place);
    assert!(holders.contains(&rig.file("deep/three", 3)) && holders.len() == 2, "{holders:?}");
    assert!(matches!(&rig.holder(of_two), Holder::Unknown { why, .. } if why.contains("not mounted")), "{:?}", rig.holder(of_two));
}

#[test]
fn files_on_partitions_are_named_and_the_rest_is_not_mounted() {
    if !may("files_on_partitions_are_named_and_the_rest_is_not_mounted", &["mkfs.ext4", "addpart"]) {
        return;
    }
    let mut rig = Rig::new();
    for (number, start, size) in [("1", "2048", "200000"), ("2", "204800", "400000")] {
        run(Command::new("addpart").args([&rig.device, number, start, size]));
    }
    let second = format!("{}p2", rig.device);
    run(Command::new("mkfs.ext4").args(["-q", "-E", "nodiscard", &second]));
    rig.mount(&second, "mounted", "nodiscard");
    check_files(&rig);
    assert_eq!(rig.holder(0), Holder::NotMounted);
    assert_eq!(rig.holder(4 << 20), Holder::NotMounted, "the first partition has no file system");
}

/// Unmounts when it is dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A volume with ext4, two files of the same random blocks, one of which has rotted.
struct Rotten {
    /// Dropped first: what is mounted cannot be detached.
    _mounted: Mounted,
    home: Home,
    at: PathBuf,
}

/// The block of each file that has rotted.
const ROTTEN: usize = 11;

impl Rotten {
    /// None, with a word, where that cannot be had.
    fn new(test: &str) -> Option<Self> {
        if !may(test, &["mkfs.ext4"]) {
            return None;
        }
        let home = Home::new();
        home.says(0, &["create", "disk.img", "--size", "128M", "--sparse"]);
        let device = home.says(0, &["attach", "--fuse", "--memory", "16M", "disk.img"]).trim().to_owned();
        run(Command::new("mkfs.ext4").args(["-q", &device]));
        let at = PathBuf::from(home.path("mounted"));
        std::fs::create_dir(&at).unwrap();
        run(Command::new("mount").arg(&device).arg(&at));
        let mounted = Mounted(at.clone());
        let mut content = vec![0; 40 * 4096];
        Dice::new(7).fill(&mut content);
        // The copy has the same blocks of the store.
        for name in ["lost", "copy"] {
            std::fs::write(at.join(name), &content).unwrap();
            rustix::fs::sync();
        }
        let sound = home.json(&["scrub", "disk.img", "--rate", "1G"]);
        assert!(sound["damaged_blocks"] == 0 && sound.get("names").is_none(), "{sound:#}");
        let store = home.read("disk.img");
        let block = &content[ROTTEN * 4096..][..4096];
        let place = store.chunks(4096).position(|bytes| bytes == block).expect("it is stored as it is") * 4096;
        let file = std::fs::File::options().write(true).open(home.path("disk.img")).unwrap();
        file.write_all_at(&[store[place + 99] ^ 1], u64::try_from(place).unwrap() + 99).unwrap();
        file.sync_all().unwrap();
        Some(Self { _mounted: mounted, home, at })
    }

    fn path(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }
}

#[test]
fn a_scrub_names_the_file_that_has_lost_content() {
    let Some(rotten) = Rotten::new("a_scrub_names_the_file_that_has_lost_content") else { return };
    let home = &rotten.home;
    let (report, _) = home.expect(6, &["scrub", "disk.img", "--rate", "1G", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let files: Vec<_> =
        report["names"].as_array().unwrap().iter().map(|named| (named["path"].as_str(), named["file_offset"].as_u64())).collect();
    let (lost, copy) = (rotten.path("lost"), rotten.path("copy"));
    let offset = Some(u64::try_from(ROTTEN).unwrap() * BLOCK);
    assert!(files.len() == 2 && files.contains(&(Some(&lost), offset)) && files.contains(&(Some(&copy), offset)), "{report:#}");
    let (table, _) = home.expect(6, &["scrub", "disk.img", "--status"]);
    assert!(table.contains(&format!("{lost}, from byte 45056 on")) && table.contains("LBN"), "{table}");
    let (table, _) = home.expect(6, &["scrub", "disk.img", "--status", "--no-names"]);
    assert!(!table.contains("LBN") && !table.contains(&lost), "{table}");
}

/// Nobody has to ask: a read that fails is among the notices, with each file that has lost content.
#[test]
fn a_read_error_names_the_file() {
    let Some(rotten) = Rotten::new("a_read_error_names_the_file") else { return };
    run(Command::new("sysctl").args(["-q", "vm.drop_caches=3"]));
    let file = std::fs::File::open(rotten.path("copy")).unwrap();
    let mut block = [0; 4096];
    assert!(file.read_exact_at(&mut block, u64::try_from(ROTTEN).unwrap() * BLOCK).is_err(), "the content is damaged");
    let begin = Instant::now();
    let named = |name: &str| format!("{}, from byte 45056 on", rotten.path(name));
    loop {
        let status = rotten.home.says(0, &["status", "disk.img"]);
        if ["lost", "copy"].iter().all(|name| status.contains(&named(name))) {
            assert!(status.contains("damaged at LBN"), "{status}");
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no name is given: {status}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // The same block is named once.
    assert!(file.read_exact_at(&mut block, u64::try_from(ROTTEN).unwrap() * BLOCK).is_err());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(rotten.home.says(0, &["status", "disk.img"]).matches(&named("copy")).count(), 1);
}
