//! The watch over file systems that their tools change.

use super::{Image, found, have, run, skipped};
use onefold_engine::layouts::{Kind, Layout};
use onefold_engine::units::Lbn;
use std::process::Command;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Whether the watch over a layout reports the image as it is now.
fn changes(layout: &Layout, image: &Image) -> bool {
    let mut watch = layout.watch();
    layout.watched().iter().any(|lbn| watch.changes(*lbn, &image.block(*lbn)))
}

#[test]
fn only_what_moves_copies_changes_the_layout_of_ext4() {
    let test = "only_what_moves_copies_changes_the_layout_of_ext4";
    if !have(test, &["mke2fs", "tune2fs", "debugfs", "resize2fs"]) {
        return;
    }
    for features in ["metadata_csum", "^metadata_csum"] {
        let image = Image::made(600 * MIB, "mke2fs", &["-q", "-F", "-t", "ext4", "-O", features]);
        run("resize2fs", &[image.path(), "500M"]);
        let layout = image.survey();
        assert!(!changes(&layout, &image), "nothing was written");
        // Counts, times and states change.
        run("tune2fs", &["-c", "7", "-L", "another", "-T", "20200101", image.path()]);
        run("debugfs", &["-w", "-R", "mkdir folder", image.path()]);
        assert!(!changes(&layout, &image), "{features}");
        run("resize2fs", &[image.path(), "600M"]);
        assert!(changes(&layout, &image), "{features}: it has grown");
        let layout = image.survey();
        run("mke2fs", &["-q", "-F", "-t", "ext4", "-O", features, image.path()]);
        assert!(changes(&layout, &image), "{features}: another file system of the same shape");
    }
}

#[test]
fn a_superblock_that_is_wiped_or_comes_changes_the_layout() {
    let test = "a_superblock_that_is_wiped_or_comes_changes_the_layout";
    if !have(test, &["mke2fs"]) {
        return;
    }
    let empty = Image::new(600 * MIB).survey();
    assert_eq!(empty.file_systems(), []);
    assert_eq!(empty.watched(), [0, 1, 16].map(Lbn), "tables and superblocks of all kinds");
    let image = Image::made(600 * MIB, "mke2fs", &["-q", "-F", "-t", "ext4"]);
    assert!(changes(&empty, &image));
    let layout = image.survey();
    assert_eq!(layout.file_systems(), [found(Kind::Ext, 0, 4096)]);
    let mut watch = layout.watch();
    // The magic alone is wiped, as by wipefs.
    image.write(1024 + 0x38, &[0, 0]);
    assert!(watch.changes(Lbn(0), &image.block(Lbn(0))));
    assert!(!watch.changes(Lbn(0), &image.block(Lbn(0))), "the new content is known");
    assert!(!watch.changes(Lbn(0), &[0; 4096]), "one that is no superblock is like another");
    assert!(!watch.is_watched(Lbn(2)) && !watch.changes(Lbn(2), &[1; 4096]));
}

/// A mounted image.
struct Mount<'a> {
    image: &'a Image,
    folder: TempDir,
}

impl<'a> Mount<'a> {
    /// Mounts an image, or returns the reason why that is impossible here.
    fn new(image: &'a Image) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = Command::new("mount").args(["-o", "loop", image.path()]).arg(folder.path()).output();
        match output {
            Ok(output) if output.status.success() => Ok(Self { image, folder }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes files and removes some, and waits until all is in the image.
    fn work(&self) {
        for number in 0..200 {
            let file = self.folder.path().join(format!("file {number}"));
            std::fs::write(&file, vec![b'x'; 10_000 * (1 + number % 7)]).expect("a file is written");
            if number % 3 == 0 {
                std::fs::remove_file(&file).expect("a file is removed");
            }
        }
        run("sync", &["-f", self.folder.path().to_str().expect("a path in UTF-8")]);
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.folder.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking(), "{} is mounted", self.image.path());
    }
}

#[test]
fn a_file_system_at_work_does_not_change_its_layout() {
    let test = "a_file_system_at_work_does_not_change_its_layout";
    let makers: [(&str, &[&str]); 4] = [
        ("mke2fs", &["-q", "-F", "-t", "ext4"]),
        ("mke2fs", &["-q", "-F", "-t", "ext2"]),
        ("mkfs.xfs", &["-q"]),
        ("mkfs.xfs", &["-q", "-s", "size=4096"]),
    ];
    for (tool, options) in makers {
        if !have(test, &[tool, "mount", "umount"]) {
            return;
        }
        let image = Image::made(400 * MIB, tool, options);
        let layout = image.survey();
        match Mount::new(&image) {
            Err(reason) => return skipped(test, &reason),
            Ok(mount) => {
                assert!(!changes(&layout, &image), "{tool} {options:?}: mounted");
                mount.work();
                assert!(!changes(&layout, &image), "{tool} {options:?}: at work");
                let again = image.survey();
                assert_eq!(again.file_systems(), layout.file_systems(), "{tool} {options:?}: at work");
                assert_eq!(again.protected(&[]), layout.protected(&[]), "{tool} {options:?}: at work");
            }
        }
        assert!(!changes(&layout, &image), "{tool} {options:?}: unmounted");
        assert_eq!(image.survey().protected(&[]), layout.protected(&[]), "{tool} {options:?}: unmounted");
    }
}
