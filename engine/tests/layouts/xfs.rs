//! XFS, compared with `xfs_db`.

use super::{Image, found, have, number_after, run};
use onefold_engine::layouts::Kind;
use onefold_engine::units::Lbn;

const MIB: u64 = 1 << 20;

fn compare(test: &str, options: &[&str]) {
    if !have(test, &["mkfs.xfs", "xfs_db"]) {
        return;
    }
    let image = Image::made(400 * MIB, "mkfs.xfs", &[&["-q"], options].concat());
    let says =
        |object: &str, field: &str| number_after(&run("xfs_db", &["-r", "-c", object, "-c", &format!("p {field}"), image.path()]), " = ");
    let (block, sector) = (says("sb 0", "blocksize"), says("sb 0", "sectsize"));
    // The free list is the last of the headers.
    let free_list = run("xfs_db", &["-r", "-c", "agfl 0", "-c", "daddr", image.path()]);
    let end = number_after(&free_list, "current daddr is") * 512 + sector;
    let layout = image.survey();
    assert_eq!(layout.file_systems(), [found(Kind::Xfs, 0, block)], "{options:?}");
    let protected = layout.protected(&[]).ranges;
    assert_eq!(protected.len(), 1);
    assert_eq!((protected[0].first, u64::from(protected[0].blocks)), (Lbn(0), end.div_ceil(4096)), "{options:?}");
    assert!(layout.is_complete());
    let mut watch = layout.watch();
    let mut block = image.block(Lbn(0));
    // Counts of free blocks and inodes.
    block[128..160].fill(7);
    assert!(!watch.changes(Lbn(0), &block), "{options:?}");
    block[91] ^= 1;
    assert!(watch.changes(Lbn(0), &block), "{options:?}: another count of groups");
}

#[test]
fn xfs_of_version_5() {
    compare("xfs_of_version_5", &[]);
    compare("xfs_of_version_5", &["-s", "size=4096"]);
    compare("xfs_of_version_5", &["-b", "size=1024"]);
    compare("xfs_of_version_5", &["-b", "size=16384", "-s", "size=16384"]);
}

#[test]
fn xfs_of_version_4() {
    compare("xfs_of_version_4", &["-m", "crc=0,finobt=0"]);
    compare("xfs_of_version_4", &["-m", "crc=0,finobt=0", "-b", "size=512"]);
    compare("xfs_of_version_4", &["-m", "crc=0,finobt=0", "-d", "agcount=3"]);
}

#[test]
fn an_xfs_whose_checksum_or_second_header_is_wrong_is_none() {
    let test = "an_xfs_whose_checksum_or_second_header_is_wrong_is_none";
    if !have(test, &["mkfs.xfs"]) {
        return;
    }
    for (options, at) in [("crc=1", 200), ("crc=0,finobt=0", 512)] {
        let image = Image::made(400 * MIB, "mkfs.xfs", &["-q", "-m", options]);
        assert_eq!(image.survey().file_systems().len(), 1);
        image.write(at, &[0xff]);
        let layout = image.survey();
        assert_eq!((layout.file_systems(), layout.protected(&[]).ranges), (&[][..], vec![]), "{options}");
        assert!(layout.watch().changes(Lbn(0), &image.block(Lbn(0))), "the next write of the superblock asks for another survey");
    }
}
