//! Real file systems with damaged bytes: a survey ends, and names only blocks of the volume.

use super::{Block, Image, have};
use onefold_engine::layouts::{Layout, READS_MAX, Step, Survey};
use onefold_engine::units::{Blocks, Lbn};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest::{collection::vec, prelude::*, sample::Index};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// The blocks of an image that its survey reads.
fn read_by_survey(image: &Image) -> BTreeMap<Lbn, Block> {
    let mut blocks = BTreeMap::new();
    survey(400 * MIB / 4096, |lbn| *blocks.entry(lbn).or_insert_with(|| image.block(lbn)));
    blocks
}

fn survey(volume: u64, mut block: impl FnMut(Lbn) -> Block) -> Layout {
    let mut survey = Survey::begin(Blocks(volume));
    for _ in 0..=READS_MAX {
        match survey.step() {
            Step::Read(lbn) => survey.take(&block(lbn)),
            Step::Done(layout) => return layout,
        }
    }
    panic!("more than {READS_MAX} reads");
}

#[test]
fn damaged_file_systems_never_panic() {
    let test = "damaged_file_systems_never_panic";
    if !have(test, &["mke2fs", "mkfs.xfs", "mkfs.f2fs", "mkfs.btrfs"]) {
        return;
    }
    let makers: [(&str, &[&str]); 6] = [
        ("mke2fs", &["-q", "-F", "-t", "ext2", "-b", "1024"]),
        ("mke2fs", &["-q", "-F", "-t", "ext4", "-O", "meta_bg,^resize_inode,^metadata_csum"]),
        ("mkfs.xfs", &["-q", "-m", "crc=0,finobt=0"]),
        ("mkfs.xfs", &["-q"]),
        ("mkfs.f2fs", &["-q"]),
        ("mkfs.btrfs", &["-q"]),
    ];
    let images: Vec<_> = makers.iter().map(|(tool, options)| read_by_survey(&Image::made(400 * MIB, tool, options))).collect();
    assert!(images.iter().all(|blocks| blocks.len() >= 3));
    let config = Config { cases: 20_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let changes = vec((any::<Index>(), any::<Index>(), prop_oneof![Just(0), Just(0xff), any::<u8>()]), 1..6);
    let volumes = prop_oneof![Just(400 * MIB / 4096), Just(u64::MAX / 4096), 1..102_400_u64];
    let inputs = (0..images.len(), changes, volumes);
    let result = runner.run(&inputs, |(image, changes, volume)| {
        let mut blocks = images[image].clone();
        let lbns: Vec<Lbn> = blocks.keys().copied().collect();
        for (lbn, at, byte) in &changes {
            // The first superblocks have most of what matters.
            let lbn = lbns[lbn.index(lbns.len() * 2) % lbns.len()];
            let room = if at.index(2) == 0 { 4096 } else { 1280 };
            blocks.get_mut(&lbn).expect("a block of the image")[at.index(room)] = *byte;
        }
        let layout = survey(volume, |lbn| {
            assert!(lbn.0 < volume, "{lbn} lies in the volume");
            blocks.get(&lbn).copied().unwrap_or([0; 4096])
        });
        let protected = layout.protected(&[]);
        prop_assert!(protected.ranges.len() <= 64);
        prop_assert!(protected.ranges.iter().all(|range| range.first.0 + u64::from(range.blocks) <= volume));
        prop_assert!(layout.watched().iter().all(|lbn| lbn.0 < volume));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
