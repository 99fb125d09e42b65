//! Streams: the number that a request brings for each of its blocks counts with that block, whatever its place is; and what a stream writes
//! lies together.

use crate::carriers::soft;
use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use crate::replay::MODES;
use onefold_engine::fingerprint::Digest;
use onefold_engine::format::CommitMode;
use onefold_engine::format::unit::{self, Unit, UnitKind};
use onefold_engine::interface::{Event, Policies, Policy, Reply};
use onefold_engine::policy::Stream;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Pbn, count, index};
use std::collections::{BTreeMap, BTreeSet};

fn of(number: usize) -> Policy {
    Policy::DEFAULT.of_stream(Stream::new(number).expect("there are as many"))
}

/// The containers that were opened.
fn containers(m: &Machine) -> u64 {
    m.engine.ledger().streams.iter().map(|stream| stream.containers).sum()
}

/// The duplicates, zeros, new blocks and unchanged blocks of a stream.
fn counts(m: &Machine, stream: usize) -> [u64; 4] {
    let counts = m.engine.ledger().streams[stream];
    [counts.duplicates, counts.zeroes, counts.new_blocks, counts.unchanged]
}

#[test]
fn each_block_counts_for_its_own_stream() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode: mode, ..Settings::default() });
        m.feed(Event::Tick);
        let content = |n: u64| pattern(n, 4096);
        m.policies = Policies::Each([of(1), of(2), of(1), Policy::DEFAULT, of(15)].into());
        // New, new, the same as the first, zeros, new.
        m.write(0, &[content(1), content(2), content(1), vec![0; 4096], content(3)].concat());
        assert_eq!([1, 2, 0, 15].map(|stream| counts(&m, stream)), [[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]], "{mode:?}");
        // A stream may write what another one has written, and what lies there already; a part of a block belongs to it, too.
        m.policies = Policies::Same(of(2));
        m.write(4096, &content(2));
        m.write(40_960, &content(3));
        m.write(512, &pattern(9, 512));
        m.flush();
        assert_eq!(counts(&m, 2), [1, 0, 2, 1], "{mode:?}");
        let ledger = m.engine.ledger();
        let sum = |of: usize| (0..16).map(|stream| counts(&m, stream)[of]).sum::<u64>();
        assert_eq!([0, 1, 2, 3].map(sum), [ledger.duplicates, ledger.zeroes, ledger.new_blocks, ledger.unchanged], "{mode:?}");
    }
}

/// A volume whose containers have this number of blocks.
fn with_containers(mode: CommitMode, bytes: u64, container_blocks: u64) -> Machine {
    let settings = Settings { commit_mode: mode, ..Settings::default() }.with_knobs(|knobs| knobs.container_blocks = container_blocks);
    let mut m = Machine::open(blank(bytes, None), settings);
    m.feed(Event::Tick);
    m
}

/// The blocks of the data region, by their content.
fn places(m: &Machine) -> BTreeMap<Vec<u8>, u64> {
    let geometry = chosen(&m.medium).expect("it is a volume").geometry;
    let block = |pbn| {
        let at = index(geometry.block_at(Pbn(pbn)).get());
        (m.medium[at..at + BLOCK_SIZE].to_vec(), pbn)
    };
    (0..geometry.data_blocks).map(block).collect()
}

#[test]
fn what_streams_write_in_turn_lies_in_containers_of_their_own() {
    const BLOCKS: u64 = 40;
    // Whose block comes next: the unknown stream writes little at first, so that the others are ahead of it.
    const FIRST: [usize; 7] = [1, 2, 1, 2, 1, 2, 0];
    const THEN: [usize; 3] = [0, 1, 0];
    for mode in MODES {
        let mut m = with_containers(mode, 32 << 20, BLOCKS);
        let content = |n: usize| pattern(count(n) + 1, BLOCK_SIZE);
        let writers: Vec<usize> = FIRST.into_iter().cycle().take(2100).chain(THEN.into_iter().cycle().take(1800)).collect();
        for (n, &stream) in writers.iter().enumerate() {
            m.policies = Policies::Same(of(stream));
            m.write(count(n) * 4096, &content(n));
            if n % 50 == 0 {
                m.flush();
            }
        }
        m.flush();
        let places = places(&m);
        let place = |n: usize| places[&content(n)];
        let blocks: [Vec<u64>; 3] =
            [0, 1, 2].map(|stream| writers.iter().enumerate().filter(|&(_, &of)| of == stream).map(|(n, _)| place(n)).collect());
        let [others, one, two] = [0, 1, 2].map(|stream: usize| blocks[stream].iter().map(|pbn| pbn / BLOCKS).collect::<BTreeSet<_>>());
        assert!(one.is_disjoint(&two) && one.is_disjoint(&others) && two.is_disjoint(&others), "{mode:?}: {one:?} {two:?} {others:?}");
        for (stream, filled) in [(1, one), (2, two)] {
            let written = blocks[stream].len();
            assert!(filled.len() <= index(count(written).div_ceil(BLOCKS)), "{mode:?}: {filled:?} of {written} blocks");
            let neighbours = blocks[stream].windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
            assert!(neighbours + filled.len() + 5 >= written, "{mode:?}: {:?}", blocks[stream]);
        }
        assert!(containers(&m) >= 40, "{mode:?}");
        for n in 0..writers.len() {
            assert_eq!(m.read(count(n) * 4096, 4096), content(n), "{mode:?}");
        }
    }
}

/// Otherwise a volume would be full while streams keep blocks that they do not need.
#[test]
fn the_last_free_blocks_are_for_all_streams() {
    let written = |mode, streams: usize| {
        let settings = Settings { commit_mode: mode, full_wait_ms: 0, ..Settings::default() };
        let mut m = Machine::open(blank(16 << 20, Some(40_000)), settings.with_knobs(|knobs| knobs.container_blocks = 200));
        m.feed(Event::Tick);
        let mut written = 0;
        // Each stream writes one block, and the unknown one fills the volume.
        let mut is_taken = |m: &mut Machine, stream| {
            m.policies = Policies::Same(of(stream));
            let reply = m.request_write(4096 * written, &pattern(written + 1, BLOCK_SIZE));
            written += 1;
            matches!(reply, Reply::Done)
        };
        (1..=4).for_each(|stream| assert!(is_taken(&mut m, stream.min(streams))));
        while is_taken(&mut m, 0) {}
        m.flush();
        assert_eq!(containers(&m), count(streams), "{mode:?}");
        for lbn in (0..written - 1).step_by(97) {
            assert_eq!(m.read(lbn * 4096, 4096), pattern(lbn + 1, BLOCK_SIZE), "{mode:?}");
        }
        written
    };
    for mode in MODES {
        let [without, with] = [0, 4].map(|streams| written(mode, streams));
        assert!(with + 8 >= without, "{mode:?}: {with} blocks, and {without} without streams");
    }
}

#[test]
fn a_pack_holds_blocks_of_one_stream() {
    let mut m = with_containers(CommitMode::Log, 32 << 20, 40);
    let content: Vec<u8> = soft(1, 300);
    m.policies = Policies::Each((0..300).map(|i| of(1 + i % 2)).collect());
    m.write(0, &content);
    m.flush();
    let fingerprinter = chosen(&m.medium).expect("it is a volume").fingerprinter();
    let fingerprints = |stream: usize| -> BTreeSet<_> {
        let blocks = content.chunks_exact(BLOCK_SIZE).skip(stream).step_by(2);
        let digest = |block: &[u8]| fingerprinter.digest(block.try_into().expect("a block"));
        let fingerprint = |block| if let Digest::Of(fingerprint) = digest(block) { Some(fingerprint) } else { None };
        blocks.filter_map(fingerprint).collect()
    };
    let (even, odd) = (fingerprints(0), fingerprints(1));
    let mut packs = 0;
    for block in m.medium.chunks_exact(BLOCK_SIZE) {
        let block: &[u8; BLOCK_SIZE] = block.try_into().expect("a block");
        let Some(Unit { slots, .. }) = unit::parse(block).filter(|unit| unit.header.kind == UnitKind::Pack) else { continue };
        packs += 1;
        let of = [&even, &odd].map(|stream| slots.iter().filter(|slot| stream.contains(&slot.fingerprint)).count());
        assert!(of == [slots.len(), 0] || of == [0, slots.len()], "{of:?} of {} slots", slots.len());
    }
    assert!(packs > 80, "{packs} packs");
    assert_eq!(m.read(0, 300 * 4096), content);
}
