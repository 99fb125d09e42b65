//! Reads of which the cache has a part: few cached blocks in the middle do not make several commands of one.

use crate::machine::Machine;
use crate::media::{blank, content_of, pattern};
use crate::replay::MODES;
use onefold_engine::interface::{Class, Event, IoFailure, Op};
use onefold_engine::settings::Settings;
use onefold_engine::units::BLOCK_SIZE;

const BLOCKS: u64 = 32;

/// A volume of blocks that lie together, after an opening. These of them are in the cache.
fn with_cached(settings: &Settings, cached: &[(u64, u64)]) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings.clone());
    m.feed(Event::Tick);
    m.write(0, &content(0, BLOCKS));
    let mut m = Machine::open(m.close(), settings.clone());
    for &(first, blocks) in cached {
        assert_eq!(m.read(4096 * first, 4096 * blocks), content(first, blocks));
    }
    m.keeps_reads_of = Some(Class::Data);
    m
}

/// The place of a block's content on the medium.
fn place_of(m: &Machine, lbn: u64) -> usize {
    let content = content(lbn, 1);
    m.medium.chunks_exact(BLOCK_SIZE).position(|block| block == content).expect("it is stored") * BLOCK_SIZE
}

fn content(first: u64, blocks: u64) -> Vec<u8> {
    (first..first + blocks).flat_map(|n| pattern(n + 1, BLOCK_SIZE)).collect()
}

/// The blocks of the reads that are kept.
fn lengths(m: &Machine) -> Vec<usize> {
    let blocks = |read: &Event| if let Event::Read { buffer, .. } = read { buffer.blocks() } else { panic!("{read:?}") };
    m.kept_reads.iter().map(blocks).collect()
}

fn bring(m: &mut Machine) {
    std::mem::take(&mut m.kept_reads).into_iter().for_each(|read| m.feed(read));
}

#[test]
fn few_cached_blocks_are_read_along() {
    for mode in MODES {
        let settings = Settings { commit_mode: mode, ..Settings::default() };
        // One in front, one, four and five in the middle, and the last ones.
        let mut m = with_cached(&settings, &[(0, 1), (4, 1), (8, 4), (16, 5), (30, 2)]);
        let read = m.begin(Op::Read, 0, 4096 * BLOCKS, None, false);
        assert_eq!(lengths(&m), [15, 9], "{mode:?}: 1 to 15, and 21 to 29");
        bring(&mut m);
        assert!(content_of(m.answer(read)) == content(0, BLOCKS), "{mode:?}");
    }
}

#[test]
fn a_cached_block_that_cannot_be_read_along_is_answered_all_the_same() {
    for mode in MODES {
        let mut m = with_cached(&Settings { commit_mode: mode, ..Settings::default() }, &[(4, 1)]);
        let read = m.begin(Op::Read, 0, 4096 * BLOCKS, None, false);
        let mut all = std::mem::take(&mut m.kept_reads);
        let Some(Event::Read { result, .. }) = all.first_mut() else { panic!("{mode:?}") };
        *result = Err(IoFailure);
        all.into_iter().for_each(|read| m.feed(read));
        assert_eq!(lengths(&m), [1; 31], "{mode:?}: each block by itself, and not the cached one");
        bring(&mut m);
        assert!(content_of(m.answer(read)) == content(0, BLOCKS), "{mode:?}");
    }
}

/// The cache may have lost the block by the time that the read ends. What is in the cache is verified no more.
#[test]
fn what_was_read_along_does_not_enter_the_cache() {
    const OTHERS: u64 = 2000;
    for mode in MODES {
        let settings = Settings { commit_mode: mode, memory_bytes: 2 << 20, ..Settings::default() };
        let mut m = Machine::open(blank(32 << 20, None), settings.clone());
        m.feed(Event::Tick);
        m.write(0, &content(0, OTHERS));
        let mut m = Machine::open(m.close(), settings);
        assert_eq!(m.read(4 * 4096, 4096), content(4, 1));
        let at = place_of(&m, 4);
        m.medium[at] ^= 1;
        m.keeps_reads_of = Some(Class::Data);
        // A full cache takes in what has passed lately: the second one would bring it.
        let reads = [(); 2].map(|()| m.begin(Op::Read, 0, 4096 * 8, None, false));
        assert_eq!(lengths(&m), [8; 2], "{mode:?}");
        let kept = std::mem::take(&mut m.kept_reads);
        m.keeps_reads_of = None;
        // Others are read twice each meanwhile, and the cache has room for few.
        (BLOCKS..OTHERS).for_each(|lbn| assert_eq!([m.read(4096 * lbn, 4096), m.read(4096 * lbn, 4096)].map(|read| read.len()), [4096; 2]));
        kept.into_iter().for_each(|read| m.feed(read));
        for read in reads {
            assert!(content_of(m.answer(read)) == content(0, 8), "{mode:?}: it was in memory when the read began");
        }
        assert!(m.fails_to_read(4), "{mode:?}: it is rotten, and no longer in memory");
    }
}
