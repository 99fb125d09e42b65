//! ext2, ext3 and ext4, compared with `dumpe2fs`.

use super::{Image, blocks_of, found, have, number_after, run};
use onefold_engine::layouts::Kind;
use onefold_engine::units::Blocks;
use std::ops::Range;

const MIB: u64 = 1 << 20;

/// The main superblock and the main descriptors, as `dumpe2fs` lists them: of each metagroup, or of the file system, the first.
fn main_copies(image: &Image) -> (u64, Vec<Range<u64>>) {
    let text = run("dumpe2fs", &[image.path()]);
    let block = number_after(&text, "Block size:");
    let groups_per_metagroup =
        block / if text.contains("Group descriptor size:") { number_after(&text, "Group descriptor size:") } else { 32 };
    let has_metagroups = text.contains("meta_bg");
    let superblock = 1024..2048;
    let mut ranges = Vec::from([superblock]);
    let mut metagroups = Vec::new();
    for group in text.split("\nGroup ").skip(1) {
        let Some(number) = group.split(':').next().and_then(|number| number.parse::<u64>().ok()) else { continue };
        let metagroup = if has_metagroups { number / groups_per_metagroup } else { 0 };
        let Some((_, rest)) = group.split_once("Group descriptor") else { continue };
        if !metagroups.contains(&metagroup) {
            metagroups.push(metagroup);
            let (places, _) = rest.split_once('\n').expect("a line");
            let first = number_after(places, "at ");
            let last = places.split_once('-').map_or(first, |(_, last)| last.trim().parse().expect("the last block"));
            ranges.push(first * block..(last + 1) * block);
        }
    }
    (block, ranges)
}

/// Makes a file system and compares what a survey finds with what `dumpe2fs` says.
fn compare(test: &str, mib: u64, options: &[&str]) {
    if !have(test, &["mke2fs", "dumpe2fs"]) {
        return;
    }
    let kind: &[&str] = if options.contains(&"-t") { &[] } else { &["-t", "ext4"] };
    let options = [&["-q", "-F", "-E", "lazy_itable_init=1,nodiscard"], kind, options].concat();
    let image = Image::made(mib * MIB, "mke2fs", &options);
    let (block, ranges) = main_copies(&image);
    let layout = image.survey();
    assert_eq!(layout.file_systems(), [found(Kind::Ext, 0, block)], "{options:?}");
    let protected = layout.protected(&[]);
    let expected = blocks_of(&ranges);
    if expected.len() > 64 {
        assert_eq!(protected.ranges[..], expected[..64], "the ranges that lie first");
        assert_eq!(protected.left_out, Blocks(expected[64..].iter().map(|range| u64::from(range.blocks)).sum()));
    } else {
        assert_eq!((protected.ranges, protected.left_out), (expected, Blocks(0)), "{options:?}");
    }
    assert!(layout.is_complete());
}

#[test]
fn ext4_with_blocks_of_4_kib() {
    compare("ext4_with_blocks_of_4_kib", 1024, &["-b", "4096"]);
}

#[test]
fn ext4_with_blocks_of_1_kib() {
    compare("ext4_with_blocks_of_1_kib", 600, &["-b", "1024"]);
}

#[test]
fn ext4_with_blocks_of_2_kib() {
    compare("ext4_with_blocks_of_2_kib", 600, &["-b", "2048"]);
}

#[test]
fn ext4_with_descriptors_of_32_bytes() {
    compare("ext4_with_descriptors_of_32_bytes", 600, &["-b", "4096", "-O", "^64bit"]);
    compare("ext4_with_descriptors_of_32_bytes", 600, &["-b", "1024", "-O", "^64bit"]);
}

#[test]
fn ext4_with_metagroups() {
    compare("ext4_with_metagroups", 600, &["-b", "1024", "-O", "meta_bg,^resize_inode"]);
    compare("ext4_with_metagroups", 600, &["-b", "1024", "-O", "meta_bg,^resize_inode,^64bit,^metadata_csum"]);
    compare("ext4_with_metagroups", 40960, &["-b", "4096", "-N", "20000", "-O", "meta_bg,^resize_inode,^has_journal"]);
}

#[test]
fn ext4_with_more_metagroups_than_there_is_room_for() {
    let options = ["-b", "1024", "-N", "20000", "-g", "1024", "-O", "meta_bg,^resize_inode,^has_journal"];
    compare("ext4_with_more_metagroups_than_there_is_room_for", 2048, &options);
}

#[test]
fn ext4_with_two_backups() {
    compare("ext4_with_two_backups", 600, &["-b", "4096", "-O", "sparse_super2,^resize_inode"]);
    compare("ext4_with_two_backups", 600, &["-b", "1024", "-O", "sparse_super2,meta_bg,^resize_inode"]);
}

#[test]
fn ext4_with_clusters() {
    compare("ext4_with_clusters", 600, &["-b", "4096", "-O", "bigalloc"]);
    compare("ext4_with_clusters", 600, &["-b", "1024", "-O", "bigalloc"]);
    compare("ext4_with_clusters", 600, &["-b", "1024", "-C", "16384", "-O", "bigalloc,meta_bg,^resize_inode"]);
}

#[test]
fn ext2_and_ext3_without_a_checksum() {
    compare("ext2_and_ext3_without_a_checksum", 600, &["-t", "ext2", "-b", "1024"]);
    compare("ext2_and_ext3_without_a_checksum", 600, &["-t", "ext3", "-b", "4096"]);
    compare("ext2_and_ext3_without_a_checksum", 64, &["-t", "ext2", "-r", "0"]);
    compare("ext2_and_ext3_without_a_checksum", 64, &["-t", "ext2", "-O", "^sparse_super,^resize_inode"]);
    compare("ext2_and_ext3_without_a_checksum", 600, &["-O", "^metadata_csum,uninit_bg"]);
}

#[test]
fn an_unsound_descriptor_without_a_checksum_protects_nothing() {
    let test = "an_unsound_descriptor_without_a_checksum_protects_nothing";
    if !have(test, &["mke2fs"]) {
        return;
    }
    let image = Image::made(64 * MIB, "mke2fs", &["-q", "-F", "-t", "ext2", "-b", "4096"]);
    assert_eq!(image.survey().file_systems(), [found(Kind::Ext, 0, 4096)]);
    // The inode table of group 0 lies beyond the file system.
    image.write(4096 + 8, &u32::MAX.to_le_bytes());
    let layout = image.survey();
    assert_eq!((layout.file_systems(), layout.protected(&[]).ranges), (&[][..], vec![]));
    // The next write of the superblock asks for another survey.
    assert!(layout.watch().changes(onefold_engine::units::Lbn(0), &image.block(onefold_engine::units::Lbn(0))));
}
