//! Partitions, compared with what `fdisk` was asked for.

use super::{Image, found, have};
use onefold_engine::layouts::{FileSystem, Kind};
use onefold_engine::units::Lbn;
use std::io::Write as _;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

/// Partitions an image by a script of `sfdisk`, which `fdisk` applies, for only that one takes the size of a sector.
fn partition(image: &Image, sector_bytes: u64, script: &str) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(script.as_bytes()).expect("a script");
    let mut fdisk = Command::new("fdisk");
    fdisk.args(["-b", &sector_bytes.to_string(), image.path()]).env("PATH", super::folders().join(":"));
    let mut fdisk = fdisk.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fdisk runs");
    let commands = format!("I\n{}\nw\n", file.path().display());
    fdisk.stdin.take().expect("a pipe").write_all(commands.as_bytes()).expect("fdisk reads");
    let output = fdisk.wait_with_output().expect("fdisk ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("Script successfully applied"), "{script}\n{text}");
}

/// An image of `mib` MiB with this table, and a file system in each partition, by its first MiB.
fn partitioned(sector_bytes: u64, script: &str, firsts: &[u64]) -> Image {
    let image = Image::new(400 * MIB);
    partition(&image, sector_bytes, script);
    for first in firsts {
        image.insert(first * MIB, &Image::made(20 * MIB, "mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096"]));
    }
    image
}

fn ext_at(firsts: &[u64]) -> Vec<FileSystem> {
    firsts.iter().map(|first| found(Kind::Ext, first * MIB, 4096)).collect()
}

fn compare(test: &str, sector_bytes: u64, script: &str, firsts: &[u64]) {
    if !have(test, &["fdisk", "mke2fs"]) {
        return;
    }
    let image = partitioned(sector_bytes, script, firsts);
    let layout = image.survey();
    let mut systems = layout.file_systems().to_vec();
    systems.sort_by_key(|system| system.first);
    assert_eq!(systems, ext_at(firsts), "{script}");
    let protected = layout.protected(&[]).ranges;
    for first in firsts {
        // A superblock and a block of descriptors at the beginning of each partition.
        assert!(protected.iter().any(|range| range.first == Lbn(first * MIB / 4096) && range.blocks == 2), "{first}: {protected:?}");
    }
    let is_gpt = script.contains("gpt");
    assert_eq!(protected.len(), firsts.len() + usize::from(is_gpt), "{protected:?}");
    assert_eq!(is_gpt, protected.iter().any(|range| range.first == Lbn(0)), "the table of a GPT has a copy, that of an MBR has none");
    assert!(layout.is_complete());
}

#[test]
fn primary_and_logical_partitions_of_an_mbr() {
    let script = "label: dos\nstart=1MiB, size=30MiB, type=83\nstart=40MiB, size=300MiB, type=5\n\
        start=50MiB, size=30MiB, type=83\nstart=100MiB, size=30MiB, type=83\nstart=200MiB, size=30MiB, type=83\n\
        start=350MiB, size=30MiB, type=83\n";
    // The first entry after the extended one that lies behind it is primary.
    compare("primary_and_logical_partitions_of_an_mbr", 512, script, &[1, 50, 100, 200, 350]);
}

#[test]
fn an_mbr_of_sectors_of_4_kib() {
    let script = "label: dos\nstart=1MiB, size=30MiB, type=83\nstart=40MiB, size=300MiB, type=5\nstart=50MiB, size=30MiB, type=83\n";
    compare("an_mbr_of_sectors_of_4_kib", 4096, script, &[1, 50]);
}

#[test]
fn partitions_of_a_gpt() {
    let script = "label: gpt\nstart=1MiB, size=30MiB\nstart=50MiB, size=30MiB\nstart=200MiB, size=30MiB\n";
    compare("partitions_of_a_gpt", 512, script, &[1, 50, 200]);
    compare("partitions_of_a_gpt", 4096, script, &[1, 50, 200]);
}

#[test]
fn a_partition_that_begins_at_no_block() {
    let test = "a_partition_that_begins_at_no_block";
    if !have(test, &["fdisk", "mke2fs"]) {
        return;
    }
    let image = Image::new(100 * MIB);
    partition(&image, 512, "label: dos\nstart=63, size=60000, type=83\n");
    image.insert(63 * 512, &Image::made(20 * MIB, "mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096"]));
    let layout = image.survey();
    assert_eq!(layout.file_systems(), [found(Kind::Ext, 63 * 512, 4096)]);
    // The superblock from byte 33280, the descriptors from byte 36352 to 40448.
    let ranges: Vec<(u64, u32)> = layout.protected(&[]).ranges.iter().map(|range| (range.first.0, range.blocks)).collect();
    assert_eq!(ranges, [(8, 2)]);
    // Other counts of free blocks change nothing, another count of blocks does.
    let mut watch = layout.watch();
    let mut block = image.block(Lbn(8));
    assert!(watch.is_watched(Lbn(8)) && !watch.changes(Lbn(8), &block));
    block[512 + 4] ^= 1;
    assert!(watch.changes(Lbn(8), &block));
}

#[test]
fn a_table_that_changes_asks_for_a_survey() {
    let test = "a_table_that_changes_asks_for_a_survey";
    if !have(test, &["fdisk", "mke2fs"]) {
        return;
    }
    for (sector_bytes, label) in [(512, "dos"), (512, "gpt"), (4096, "gpt")] {
        let image = partitioned(sector_bytes, &format!("label: {label}\nstart=1MiB, size=30MiB\n"), &[1]);
        let layout = image.survey();
        let mut watch = layout.watch();
        assert!(layout.watched().iter().all(|lbn| watch.is_watched(*lbn) && !watch.changes(*lbn, &image.block(*lbn))), "{label}");
        partition(&image, sector_bytes, &format!("label: {label}\nstart=1MiB, size=30MiB\nstart=50MiB, size=30MiB\n"));
        assert!(layout.watched().iter().any(|lbn| watch.changes(*lbn, &image.block(*lbn))), "{label}");
    }
}
