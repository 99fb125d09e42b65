//! The parsers: sound structures, structures with a wrong checksum, and unsound numbers with a right one.

use super::test_kit::{self, Forged, SYSTEM};
use super::{boot_record, btrfs, ext, f2fs, gpt, xfs};

type IsSound = fn(&[u8]) -> bool;

fn is_ext(bytes: &[u8]) -> bool {
    ext::Superblock::parse(bytes).is_some()
}

fn is_f2fs(bytes: &[u8]) -> bool {
    f2fs::Superblock::parse(bytes).is_some()
}

fn is_xfs(bytes: &[u8]) -> bool {
    xfs::Superblock::parse(bytes).is_some_and(|superblock| superblock.confirms(bytes))
}

fn is_btrfs(bytes: &[u8]) -> bool {
    btrfs::Superblock::parse(bytes).is_some()
}

fn is_gpt(bytes: &[u8]) -> bool {
    gpt::Header::parse(bytes, 512).is_some_and(|header| header.partitions(&bytes[512..]).is_some())
}

fn structures() -> [(&'static str, Forged, IsSound); 5] {
    [
        ("ext4", test_kit::ext4(), is_ext),
        ("F2FS", test_kit::f2fs(), is_f2fs),
        ("XFS", test_kit::xfs(), is_xfs),
        ("Btrfs", test_kit::btrfs(), is_btrfs),
        ("GPT", test_kit::gpt(), is_gpt),
    ]
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    for (name, forged, is_sound) in structures() {
        let mut bytes = forged.sound();
        assert!(is_sound(&bytes), "{name}");
        // No checksum covers the second sector of XFS, the sector after a header's end, and the room for a longer checksum of Btrfs.
        let covered = |at: usize| match name {
            "XFS" => at < 512,
            "GPT" => !(92..512).contains(&at),
            "Btrfs" => !(4..32).contains(&at),
            _ => true,
        };
        // Without the bit that says that there is a checksum, the other numbers decide, and they are sound.
        let flag =
            [("ext4", 101 * 8 + 2), ("F2FS", 2181 * 8 + 3), ("XFS", 101 * 8)].iter().find(|(of, _)| *of == name).map(|(_, bit)| *bit);
        for bit in (0..bytes.len() * 8).filter(|bit| covered(bit / 8) && Some(*bit) != flag) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sound(&bytes), "{name}: byte {}, bit {}", bit / 8, bit % 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_structure_that_is_cut_short_is_none() {
    for (name, forged, is_sound) in structures().into_iter().filter(|(name, ..)| *name != "GPT") {
        let bytes = forged.sound();
        let needed = if name == "XFS" { 512 } else { bytes.len() };
        assert!((0..needed).step_by(7).all(|length| !is_sound(&bytes[..length])), "{name}");
    }
}

/// Field, its new bytes, and why they are unsound.
type Unsound = (usize, &'static [u8], &'static str);

fn refuses(forged: &Forged, is_sound: IsSound, changes: &[Unsound]) {
    for (at, bytes, why) in changes {
        assert!(!is_sound(&forged.with(&[(*at, bytes)])), "{why}");
    }
}

#[test]
fn unsound_numbers_of_ext4_are_refused() {
    let changes: [Unsound; 14] = [
        (0, &[1], "inodes that do not agree with the groups"),
        (4, &[0, 0, 0, 0], "no blocks"),
        (4, &[0, 0, 1, 0], "fewer groups than the inodes say"),
        (0x14, &[1], "a first block of 1 with blocks of 4 KiB"),
        (0x18, &[7], "blocks of 128 KiB"),
        (0x18, &[0xff, 0xff, 0xff, 0xff], "blocks of no size"),
        (0x20, &[0, 0, 0, 0], "groups of no blocks"),
        (0x20, &[1, 0x80], "groups of more blocks than a bitmap has bits"),
        (0x28, &[0, 0], "groups of no inodes"),
        (0x4c, &[2], "an unknown revision"),
        (0x58, &[0, 0x20], "inodes longer than a block"),
        (0x5a, &[1], "a backup of group 1"),
        (0x60, &[0xc8], "a journal on a device of its own"),
        (0xfe, &[63], "descriptors of an odd size"),
    ];
    refuses(&test_kit::ext4(), is_ext, &changes);
    // A metagroup beyond all, with and without bits above.
    let metagroups = test_kit::ext4().with(&[(0x60, &[0xd0]), (0x104, &[2])]);
    assert!(!is_ext(&metagroups));
    assert!(is_ext(&test_kit::ext4().with(&[(0x60, &[0xd0]), (0x104, &[1])])));
    // As many blocks of 64 KiB as groups of 2^31 clustered blocks can have: their bytes are beyond all numbers from 2^48 blocks on.
    let clustered = |inodes: u32, blocks_high: u32| {
        let (inodes, blocks_high) = (inodes.to_le_bytes(), blocks_high.to_le_bytes());
        let group = (1_u32 << 31).to_le_bytes();
        let sizes: [(usize, &[u8]); 4] = [(0x18, &[6]), (0x1c, &[18]), (0x28, &[1, 0]), (0x64, &[1, 6])];
        let counts: [(usize, &[u8]); 4] = [(0, &inodes), (4, &[0; 4]), (0x150, &blocks_high), (0x20, &group)];
        is_ext(&test_kit::ext4().with(&[sizes, counts].concat()))
    };
    assert!(clustered(1 << 16, 1 << 15) && !clustered(1 << 17, 1 << 16));
}

#[test]
fn unsound_numbers_of_f2fs_are_refused() {
    let changes: [Unsound; 9] = [
        (8, &[8], "sectors of 256 bytes"),
        (12, &[2], "sectors that do not fill a block"),
        (16, &[13], "blocks of 8 KiB"),
        (20, &[10], "segments of 4 MiB"),
        (48, &[98], "fewer segments than the areas have"),
        (52, &[1], "one checkpoint pack"),
        (76, &[1], "a gap before the checkpoint packs"),
        (84, &[0xff, 0xff, 0xff, 0xff], "an area beyond all"),
        (36, &[0, 1, 0, 0], "fewer blocks than the segments have"),
    ];
    refuses(&test_kit::f2fs(), is_f2fs, &changes);
}

#[test]
fn unsound_numbers_of_xfs_are_refused() {
    let changes: [Unsound; 11] = [
        (4, &[0, 0, 0x10, 1], "blocks of an odd size"),
        (8, &[0xff], "more blocks than the groups have"),
        (8, &[0, 0, 0, 0, 0, 0, 0, 1], "fewer blocks than the groups have"),
        (84, &[0, 0, 0, 0], "groups of no blocks"),
        (88, &[0, 0, 0, 0], "no groups"),
        (88, &[0xff, 0xff, 0xff, 0xff], "groups beyond all"),
        (100, &[0xb4, 0xa6], "an unknown version"),
        (102, &[0, 0], "sectors of no bytes"),
        (106, &[0, 9], "inodes that do not fill a block"),
        (124, &[13], "another logarithm of the group's blocks"),
        (126, &[1], "a file system that is still being made"),
    ];
    refuses(&test_kit::xfs(), is_xfs, &changes);
    // Version 4 has no checksum, and needs the second header.
    let old = test_kit::xfs();
    assert!(is_xfs(&old.with(&[(100, &[0xb4, 0xa4])])));
    for at in [512, 519, 523, 527] {
        assert!(!is_xfs(&old.with(&[(100, &[0xb4, 0xa4]), (at, &[0x33])])), "byte {at}");
    }
}

#[test]
fn unsound_numbers_of_btrfs_are_refused() {
    let changes: [Unsound; 10] = [
        (48, &[1], "a copy of the superblock"),
        (144, &[1], "sectors of an odd size"),
        (148, &[0, 0, 2], "tree blocks of 128 KiB"),
        (148, &[0, 8], "tree blocks of 2 KiB"),
        (160, &[1, 8], "more chunks than there is room for"),
        (160, &[7], "a chunk that is cut off"),
        (196, &[4], "an unknown checksum"),
        (199, &[8], "a tree of nine levels"),
        (811 + 17, &[0xff; 8], "a chunk beyond all"),
        (811 + 17 + 44, &[0, 0], "a chunk without stripes"),
    ];
    refuses(&test_kit::btrfs(), is_btrfs, &changes);
}

#[test]
fn unsound_numbers_of_a_gpt_are_refused() {
    let changes: [Unsound; 7] = [
        (12, &[91], "a short header"),
        (12, &[1, 2], "a header longer than a sector"),
        (24, &[2], "a header that lies elsewhere"),
        (72, &[1], "a table over the header"),
        (80, &[0, 0, 0, 0], "no entries"),
        (80, &[0xff, 0xff, 0xff, 0xff], "entries beyond all"),
        (84, &[127], "entries of an odd size"),
    ];
    refuses(&test_kit::gpt(), is_gpt, &changes);
    // Entries that end before they begin, and beyond all numbers.
    for changes in [(544, [0xff; 8]), (552, [0xff; 8])] {
        let bytes = test_kit::gpt().with(&[(changes.0, &changes.1)]);
        let header = gpt::Header::parse(&bytes, 512).expect("a sound header");
        assert_eq!(header.partitions(&bytes[512..]), Some(vec![]));
    }
}

#[test]
fn a_boot_sector_of_a_file_system_is_no_table() {
    let table = test_kit::mbr(&[(0x83, 2048, 1000), (0xee, 1, 1000), (0x0f, 4096, 1000), (0x83, 8192, 0)]);
    let entries = boot_record::entries(&table.bytes, 512);
    let ranges: Vec<_> = entries.iter().map(|entry| (entry.is_extended, entry.range.clone())).collect();
    assert_eq!(ranges, [(false, 1_048_576..1_560_576), (true, 2_097_152..2_609_152)]);
    assert_eq!(boot_record::entries(&table.bytes, 4096)[0].range, 8_388_608..12_484_608);
    assert_eq!(boot_record::entries(&table.with(&[(446 + 32, &[0x20])]), 512), []);
    assert_eq!(boot_record::entries(&table.with(&[(510, &[0x54])]), 512), []);
    assert_eq!(boot_record::entries(&[0x55; 511], 512), []);
}

#[test]
fn a_block_of_the_chunk_tree_has_to_be_the_one_that_is_meant() {
    let superblock = btrfs::Superblock::parse(&test_kit::btrfs().sound()).expect("a sound superblock");
    let pointer = btrfs::Pointer::root(&superblock);
    let inner = test_kit::inner(SYSTEM.0, 1, &[SYSTEM.0 + 4096]);
    assert!(pointer.follow(&superblock, &inner.sound()).is_some());
    let changes: [Unsound; 5] = [
        (32, &[0], "of another file system"),
        (48, &[1], "of another address"),
        (80, &[8], "of another generation"),
        (88, &[4], "of another tree"),
        (100, &[0], "of another level"),
    ];
    for (at, bytes, why) in changes {
        assert!(pointer.follow(&superblock, &inner.with(&[(at, bytes)])).is_none(), "{why}");
    }
    let mut damaged = inner.sound();
    damaged[4000] ^= 1;
    assert!(pointer.follow(&superblock, &damaged).is_none());
    // More pointers than there is room for.
    let crowded = pointer.follow(&superblock, &inner.with(&[(96, &[0xff; 4])]));
    assert!(matches!(crowded, Some(btrfs::Node::Inner(pointers)) if pointers.len() == (4096 - 101) / 33));
}
