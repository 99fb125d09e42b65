//! Btrfs, compared with `btrfs inspect-internal dump-tree`.

use super::{Image, blocks_of, found, have, number_after, run};
use onefold_engine::format::ProtectedRange;
use onefold_engine::layouts::Kind;
use onefold_engine::units::Lbn;
use std::ops::Range;

const MIB: u64 = 1 << 20;
const SUPERBLOCK: Range<u64> = 65536..65536 + 4096;

/// The superblock, and the first stripes of the chunks of system and metadata with two stripes on a device, as the tool lists them.
fn main_copies(image: &Image) -> Vec<ProtectedRange> {
    let text = run("btrfs", &["inspect-internal", "dump-tree", "-t", "chunk", image.path()]);
    let chunks = text.split(" CHUNK_ITEM ").skip(1).filter_map(|chunk| {
        let kinds = chunk.split_once("type ")?.1.lines().next()?;
        let is_kept_twice = kinds.contains("DUP") && (kinds.contains("SYSTEM") || kinds.contains("METADATA"));
        let first = number_after(chunk.split_once("stripe 0 devid")?.1, "offset");
        is_kept_twice.then(|| first..first + number_after(chunk, "length"))
    });
    blocks_of(&chunks.chain([SUPERBLOCK]).collect::<Vec<_>>())
}

fn compare(test: &str, options: &[&str], ranges: usize) {
    if !have(test, &["mkfs.btrfs", "btrfs"]) {
        return;
    }
    let image = Image::made(400 * MIB, "mkfs.btrfs", &[&["-q", "-f"], options].concat());
    let layout = image.survey();
    assert_eq!(layout.file_systems(), [found(Kind::Btrfs, 0, 4096)], "{options:?}");
    let protected = layout.protected(&[]);
    assert_eq!(protected.ranges, main_copies(&image), "{options:?}");
    assert_eq!(protected.ranges.len(), ranges, "{options:?}");
    assert!(layout.is_complete());
}

#[test]
fn btrfs_on_one_device() {
    let test = "btrfs_on_one_device";
    compare(test, &[], 3);
    compare(test, &["-m", "single"], 1);
    compare(test, &["-n", "4096"], 3);
    compare(test, &["-n", "65536"], 3);
    compare(test, &["--mixed", "-m", "dup", "-d", "dup"], 3);
}

#[test]
fn btrfs_with_other_checksums() {
    compare("btrfs_with_other_checksums", &["--csum", "xxhash"], 3);
    compare("btrfs_with_other_checksums", &["--csum", "sha256"], 3);
    compare("btrfs_with_other_checksums", &["--csum", "blake2"], 3);
}

#[test]
fn only_what_moves_chunks_changes_the_layout_of_btrfs() {
    let test = "only_what_moves_chunks_changes_the_layout_of_btrfs";
    if !have(test, &["mkfs.btrfs", "btrfs", "btrfstune"]) {
        return;
    }
    let image = Image::made(400 * MIB, "mkfs.btrfs", &["-q"]);
    let layout = image.survey();
    let before = image.block(Lbn(16));
    run("btrfs", &["filesystem", "label", image.path(), "another"]);
    let labelled = image.block(Lbn(16));
    assert_ne!(before, labelled, "the superblock was written");
    assert!(!layout.watch().changes(Lbn(16), &labelled), "a label moves no chunk");
    run("btrfstune", &["-f", "-u", image.path()]);
    assert!(layout.watch().changes(Lbn(16), &image.block(Lbn(16))), "the trees were written again with another identity");
    let layout = image.survey();
    assert_eq!(layout.protected(&[]).ranges, main_copies(&image));
    run("btrfstune", &["-f", "-m", image.path()]);
    assert!(!layout.watch().changes(Lbn(16), &image.block(Lbn(16))), "the trees keep the old identity");
    assert_eq!(image.survey().protected(&[]).ranges, main_copies(&image));
    run("mkfs.btrfs", &["-q", "-f", "-m", "single", image.path()]);
    assert!(layout.watch().changes(Lbn(16), &image.block(Lbn(16))), "another file system");
}

#[test]
fn two_devices_need_no_protection() {
    let test = "two_devices_need_no_protection";
    if !have(test, &["mkfs.btrfs", "btrfs"]) {
        return;
    }
    let (first, second) = (Image::new(400 * MIB), Image::new(400 * MIB));
    run("mkfs.btrfs", &["-q", "-m", "raid1", "-d", "raid0", first.path(), second.path()]);
    for image in [first, second] {
        let layout = image.survey();
        assert_eq!(layout.protected(&[]).ranges, blocks_of(&[SUPERBLOCK]));
        assert!(layout.is_complete(), "the chunk tree is read from the copy on this device");
    }
}
