//! F2FS, compared with `dump.f2fs`.

use super::{Image, blocks_of, found, have, number_after, run};
use onefold_engine::layouts::Kind;
use onefold_engine::units::Lbn;

const MIB: u64 = 1 << 20;

fn compare(test: &str, mib: u64, options: &[&str]) {
    if !have(test, &["mkfs.f2fs", "dump.f2fs"]) {
        return;
    }
    let image = Image::made(mib * MIB, "mkfs.f2fs", &[&["-q", "-f"], options].concat());
    let text = run("dump.f2fs", &["-d", "1", image.path()]);
    // A number in hexadecimal, then the same in decimal.
    let says = |field: &str| number_after(text.split_once(field).unwrap_or_else(|| panic!("no {field} in {text}")).1, ":");
    let (pack, sit) = (says("cp_blkaddr "), says("sit_blkaddr "));
    let layout = image.survey();
    assert_eq!(layout.file_systems(), [found(Kind::F2fs, 0, 4096)], "{options:?}");
    // The two packs share the blocks before those of the segments' table.
    let ranges = [1024..4096, pack * 4096..(pack + sit) / 2 * 4096];
    assert_eq!(layout.protected(&[]).ranges, blocks_of(&ranges), "{options:?}");
    assert!(layout.is_complete());
    let mut watch = layout.watch();
    let mut block = image.block(Lbn(1));
    assert!(!watch.changes(Lbn(1), &block));
    block[1024 + 76] ^= 1;
    assert!(watch.changes(Lbn(1), &block), "the second superblock has other areas");
    // The first superblock is wiped: the second one counts.
    image.write(1024, &[0; 4]);
    assert_eq!(image.survey().protected(&[]).ranges, blocks_of(&ranges), "{options:?}");
    image.write(4096 + 1024, &[0; 4]);
    assert_eq!(image.survey().file_systems(), []);
}

#[test]
fn f2fs_without_a_checksum() {
    compare("f2fs_without_a_checksum", 300, &[]);
    compare("f2fs_without_a_checksum", 3000, &["-s", "4", "-z", "2"]);
}

#[test]
fn f2fs_with_a_checksum() {
    compare("f2fs_with_a_checksum", 300, &["-O", "extra_attr,sb_checksum"]);
}
