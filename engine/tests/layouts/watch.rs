//! The watch over file systems that their tools change.

use super::{Image, found, have, run};
use onefold_engine::layouts::{Kind, Layout};
use onefold_engine::units::Lbn;

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
