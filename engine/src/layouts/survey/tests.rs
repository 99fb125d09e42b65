//! Surveys of volumes in memory, sound and hostile ones.

use super::*;
use crate::layouts::test_kit::{self, Block, Forged, SYSTEM, VOLUME, Volume};
use crate::layouts::{FileSystem, Kind};
use crate::units::Bytes;
use proptest::prelude::*;

/// Surveys a volume, and checks what holds whatever is on it.
fn survey_of(volume: &Volume, blocks: Blocks) -> Layout {
    counted(volume, blocks).0
}

/// The layout of a volume, and the reads of its survey.
fn counted(volume: &Volume, blocks: Blocks) -> (Layout, usize) {
    let mut survey = Survey::begin(blocks);
    for reads in 0.. {
        assert!(reads <= READS_MAX, "the reads are bounded");
        match survey.step() {
            Step::Read(lbn) => {
                assert!(lbn.0 < blocks.0, "{lbn} lies in the volume");
                survey.take(&volume.block(lbn));
                assert!(survey.has_read(lbn));
            }
            Step::Done(layout) => {
                check(&layout, blocks);
                return (layout, reads);
            }
        }
    }
    unreachable!("the reads are bounded")
}

fn check(layout: &Layout, blocks: Blocks) {
    let protected = layout.protected(&[]);
    assert!(protected.ranges.len() <= 64);
    let mut end = 0;
    for range in &protected.ranges {
        assert!(range.blocks > 0 && (end == 0 || range.first.0 > end), "in order, and apart");
        end = range.first.0 + u64::from(range.blocks);
    }
    assert!(end <= blocks.0, "{end} blocks of {blocks}");
    assert!(layout.watched().iter().all(|lbn| lbn.0 < blocks.0));
}

fn survey(volume: &Volume) -> Layout {
    survey_of(volume, VOLUME)
}

fn ranges(layout: &Layout) -> Vec<(u64, u32)> {
    layout.protected(&[]).ranges.iter().map(|range| (range.first.0, range.blocks)).collect()
}

/// The kind, and a sound volume of it.
fn sound() -> Vec<(Kind, Volume)> {
    let f2fs = test_kit::f2fs().sound();
    let (leaf_at, inner_at) = (SYSTEM.0 + 4096, SYSTEM.0);
    let system = test_kit::chunk(SYSTEM.0, 0x22, SYSTEM.1);
    let metadata = test_kit::chunk(64 << 20, 0x24, [64 << 20, 128 << 20]);
    let data = test_kit::chunk(96 << 20, 0x21, [256 << 20, 512 << 20]);
    let leaf = test_kit::leaf(leaf_at, &[system, metadata, data]).sound();
    let inner = test_kit::inner(inner_at, 1, &[leaf_at]).sound();
    let btrfs = Volume::default().with(65536, &test_kit::btrfs().sound());
    vec![
        (Kind::Ext, Volume::default().with(1024, &test_kit::ext4().sound())),
        (Kind::F2fs, Volume::default().with(1024, &f2fs).with(5120, &f2fs)),
        (Kind::Xfs, Volume::default().with(0, &test_kit::xfs().sound())),
        (Kind::Btrfs, btrfs.with(SYSTEM.1[0], &inner).with(SYSTEM.1[0] + 4096, &leaf).with(SYSTEM.1[1] + 4096, &leaf)),
    ]
}

#[test]
fn each_file_system_is_found_on_a_volume_of_its_own() {
    let mib = |mib: u64| mib * 256;
    let expected = [vec![(0, 2)], vec![(0, 1), (512, 512)], vec![(0, 1)], vec![(16, 1), (mib(22), 2048), (mib(64), 2048)]];
    for ((kind, volume), expected) in sound().iter().zip(expected) {
        let (layout, reads) = counted(volume, VOLUME);
        assert!(reads <= 5, "{kind}: {reads} reads");
        assert_eq!(layout.file_systems(), [FileSystem { kind: *kind, first: Bytes(0), block: Bytes(4096) }]);
        assert_eq!(ranges(&layout), expected, "{kind}");
        assert!(layout.is_complete(), "{kind}");
    }
}

#[test]
fn a_file_system_that_reaches_beyond_the_volume_is_none() {
    for (kind, volume) in sound() {
        let layout = survey_of(&volume, Blocks(40_000));
        assert_eq!((layout.file_systems(), ranges(&layout)), (&[][..], vec![]), "{kind}");
    }
}

#[test]
fn what_looks_like_a_superblock_elsewhere_is_not_looked_at() {
    for (kind, volume) in sound() {
        let mut moved = Volume::default();
        (0..32).for_each(|lbn| moved.put((lbn + 1000) * 4096, &volume.block(Lbn(lbn))));
        assert_eq!(survey(&moved).file_systems(), [], "{kind}");
    }
}

#[test]
fn a_damaged_block_of_the_chunk_tree_is_read_from_its_copy() {
    let (_, mut volume) = sound().remove(3);
    volume.put(SYSTEM.1[0] + 4096 + 200, &[0xff]);
    let layout = survey(&volume);
    assert!(layout.is_complete());
    assert_eq!(ranges(&layout).len(), 3);
    volume.put(SYSTEM.1[1] + 4096 + 200, &[0xff]);
    let layout = survey(&volume);
    assert!(!layout.is_complete(), "both copies are damaged");
    assert_eq!(ranges(&layout), [(16, 1), (22 * 256, 2048)], "the system chunk is known from the superblock");
    assert!(layout.watch().changes(Lbn(16), &volume.block(Lbn(16))), "the next write of the superblock asks for another survey");
}

#[test]
fn partitions_of_a_gpt_and_of_an_mbr_are_looked_at() {
    let system = test_kit::ext4().sound();
    let at = 1 << 20;
    let gpt = Volume::default().with(512, &test_kit::gpt().sound());
    let mbr = Volume::default().with(0, &test_kit::mbr(&[(0x83, 2048, 1_000_000)]).sound());
    for volume in [gpt, mbr] {
        let layout = survey(&volume.clone().with(at + 1024, &system));
        assert_eq!(layout.file_systems(), [FileSystem { kind: Kind::Ext, first: Bytes(at), block: Bytes(4096) }]);
        assert!(layout.watched().contains(&Lbn(256)) && layout.watched().contains(&Lbn(256 + 16)));
        assert_eq!(survey(&volume).file_systems(), []);
    }
}

#[test]
fn a_chain_of_logical_partitions_that_bites_its_tail_ends() {
    let extended = test_kit::mbr(&[(5, 2048, 100_000)]).sound();
    let record = test_kit::mbr(&[(0x83, 8, 1000), (5, 0, 1000)]).sound();
    let layout = survey(&Volume::default().with(0, &extended).with(1 << 20, &record));
    assert!(!layout.is_complete());
    assert_eq!(layout.file_systems(), []);
}

#[test]
fn a_tree_whose_blocks_all_lead_to_the_same_one_ends() {
    let (_, mut volume) = sound().remove(3);
    let below = [SYSTEM.0 + 8192; 100];
    let superblock = test_kit::btrfs();
    volume.put(65536, &superblock.with(&[(199, &[7])]));
    // Each level has a block that leads a hundred times to the one of the next level.
    for level in 1..=7_u8 {
        let at = |level: u8| u64::from(7 - level) * 8192;
        let below = below.map(|_| SYSTEM.0 + at(level - 1));
        volume.put(SYSTEM.1[0] + at(level), &test_kit::inner(SYSTEM.0 + at(level), level, &below).sound());
    }
    assert!(!survey(&volume).is_complete());
}

#[test]
fn a_superblock_that_lies_in_two_blocks_is_watched_in_both() {
    // The partition begins 512 bytes before a block's end, and so does the superblock.
    let first = 2055 * 512;
    let (at, second) = (first + 65536, Lbn((first + 65536) / 4096 + 1));
    let mbr = test_kit::mbr(&[(0x83, 2055, 2_097_152 - 2055)]).sound();
    let superblock = test_kit::btrfs().with(&[(209, &(1_u64 << 29).to_le_bytes())]);
    let volume = Volume::default().with(0, &mbr).with(at, &superblock);
    let volume = volume.with(first + SYSTEM.1[0], &test_kit::inner(SYSTEM.0, 1, &[SYSTEM.0 + 4096]).sound());
    let volume = volume.with(first + SYSTEM.1[0] + 4096, &test_kit::leaf(SYSTEM.0 + 4096, &[]).sound());
    let layout = survey(&volume);
    assert_eq!(layout.file_systems(), [FileSystem { kind: Kind::Btrfs, first: Bytes(first), block: Bytes(4096) }]);
    let changes = |lbn, offset, bytes: &[u8]| layout.watch().changes(lbn, &volume.clone().with(at + offset, bytes).block(lbn));
    let half = Lbn(second.0 - 1);
    assert!(layout.watch().is_watched(half) && layout.watch().is_watched(second));
    assert!(!changes(half, 0, &superblock) && !changes(half, 0, &[9; 4]) && !changes(half, 72, &[9; 8]), "checksum and generation");
    assert!(changes(half, 64, &[0]) && changes(half, 88, &[1]), "magic and root of the chunk tree");
    assert!(!changes(second, 0, &superblock) && !changes(second, 3000, &[9]) && changes(second, 811 + 30, &[9]), "a system chunk");
}

#[test]
fn an_unreadable_block_ends_a_look_and_no_survey() {
    let (_, volume) = sound().remove(0);
    let mut survey = Survey::begin(VOLUME);
    let layout = loop {
        match survey.step() {
            Step::Read(Lbn(0)) => survey.take(&volume.block(Lbn(0))),
            Step::Read(_) => survey.take_none(),
            Step::Done(layout) => break layout,
        }
    };
    assert_eq!(layout.file_systems().len(), 1);
    assert!(!layout.is_complete());
}

#[test]
fn a_volume_of_no_or_few_blocks_is_surveyed() {
    for blocks in 0..20 {
        assert_eq!(survey_of(&Volume::default(), Blocks(blocks)).file_systems(), []);
    }
}

/// The places of the structures of a volume, and a sound one of each.
fn places() -> Vec<(u64, Forged)> {
    let leaf = test_kit::leaf(SYSTEM.0 + 4096, &[test_kit::chunk(SYSTEM.0, 0x22, SYSTEM.1)]);
    vec![
        (1024, test_kit::ext4()),
        (1024, test_kit::f2fs()),
        (0, test_kit::xfs()),
        (512, test_kit::gpt()),
        (0, test_kit::mbr(&[(5, 2048, 100_000), (0x83, 4096, 100_000)])),
        (1 << 20, test_kit::mbr(&[(0x83, 8, 1000), (5, 0, 1000)])),
        (65536, test_kit::btrfs()),
        (SYSTEM.1[0], test_kit::inner(SYSTEM.0, 1, &[SYSTEM.0 + 4096])),
        (SYSTEM.1[0] + 4096, leaf),
    ]
}

/// Numbers at which arithmetic ends.
fn edge() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![Just(0), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    prop_oneof![
        proptest::collection::vec(bytes, 1..9),
        (1..9_usize, any::<bool>()).prop_map(|(length, ones)| vec![if ones { 0xff } else { 0 }; length])
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn forged_structures_with_right_checksums_never_panic(
        changes in proptest::collection::vec((0..9_usize, any::<prop::sample::Index>(), edge()), 0..12),
        blocks in prop_oneof![Just(VOLUME.0), Just(u64::MAX), Just(u64::MAX / 4096), 1..300_000_u64],
    ) {
        let mut places = places();
        for (place, at, change) in &changes {
            let forged = &mut places[*place].1;
            // Most fields that matter lie in the first bytes of a structure.
            let room = forged.bytes.len().min(if at.index(4) == 0 { usize::MAX } else { 512 });
            for (offset, byte) in (at.index(room)..).zip(change).take_while(|(offset, _)| *offset < room) {
                forged.bytes[offset] = *byte;
            }
        }
        for chosen in 0..3 {
            // Three of the structures lie in the same bytes.
            let mut volume = Volume::default();
            for (_, (at, forged)) in places.iter().enumerate().filter(|(number, _)| *number > 2 || *number == chosen) {
                volume.put(*at, &forged.sound());
            }
            survey_of(&volume, Blocks(blocks));
        }
    }
}

/// A block of noise from a seed.
fn noise(seed: &mut u64) -> Block {
    let mut block = [0; 4096];
    for bytes in block.chunks_exact_mut(8) {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.copy_from_slice(&seed.rotate_left(29).to_le_bytes());
    }
    block
}

#[test]
fn ten_thousand_blocks_of_noise_with_a_magic_protect_nothing() {
    let mut seed = 1;
    for _ in 0..10_000 {
        let (mut first, mut second, mut late) = (noise(&mut seed), noise(&mut seed), noise(&mut seed));
        first[510..520].copy_from_slice(b"\x55\xaaEFI PART");
        second[..8].copy_from_slice(b"EFI PART");
        late[48..56].copy_from_slice(&65536_u64.to_le_bytes());
        late[64..72].copy_from_slice(b"_BHRfS_M");
        second[1024..1028].copy_from_slice(&0xf2f5_2010_u32.to_le_bytes());
        // Half of them have the magic of ext4, without a checksum, the others that of F2FS; all have that of XFS.
        first[..4].copy_from_slice(b"XFSB");
        if seed & 1 == 0 {
            first[1024 + 0x38..1024 + 0x3a].copy_from_slice(&0xef53_u16.to_le_bytes());
            first[1024 + 0x64..1024 + 0x68].copy_from_slice(&1_u32.to_le_bytes());
        } else {
            first[1024..1028].copy_from_slice(&0xf2f5_2010_u32.to_le_bytes());
        }
        let layout = survey(&Volume::default().with(0, &first).with(4096, &second).with(65536, &late));
        assert_eq!((layout.file_systems(), ranges(&layout)), (&[][..], vec![]));
    }
}
