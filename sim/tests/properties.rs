//! The engine compared with the plain oracle: any short series of client operations, completions, closes, kills and power losses.
//!
//! The explorer tries far more, and rarer, things; a failure here is small, and shrinks.

use fastrand::Rng;
use onefold_engine::interface::Op;
use onefold_engine::settings::{Persistence, Settings};
use onefold_sim::checkers::audit::audit;
use onefold_sim::checkers::oracle::Oracle;
use onefold_sim::device::disk::SimDisk;
use onefold_sim::device::power_loss::PowerLossStates;
use onefold_sim::explorer::opening::open_engine;
use onefold_sim::explorer::options::Shape;
use onefold_sim::explorer::prepare::{Prepared, quiet_options};
use onefold_sim::explorer::setting::Setting;
use onefold_sim::explorer::world::World;
use onefold_sim::ground::content::{Content, Shared, pattern};
use onefold_sim::ground::violation::Violation;
use proptest::prelude::*;
use std::rc::Rc;

/// One event. Blocks are counted among those that the prepared volume lets clients use.
#[derive(Clone, Debug)]
enum Happening {
    Write {
        first: u64,
        letters: Vec<u8>,
        fua: bool,
    },
    Part {
        first: u64,
        sector: u64,
        sectors: u64,
        letter: u8,
    },
    Read {
        first: u64,
        blocks: u64,
    },
    Flush,
    Discard {
        first: u64,
        blocks: u64,
    },
    Zeroes {
        first: u64,
        blocks: u64,
    },
    /// This many completions or timers.
    Steps(u8),
    Close,
    Kill(u64),
    Cut(u64),
}

/// The number of used blocks that the events choose from; they cross an edge of two map pages.
const BLOCKS: u64 = 4;

fn happening() -> impl Strategy<Value = Happening> {
    let first = 0..BLOCKS;
    prop_oneof![
        6 => (first.clone(), prop::collection::vec(0u8..6, 1..=3), any::<bool>())
            .prop_map(|(first, letters, fua)| Happening::Write { first, letters, fua }),
        3 => (first.clone(), 0u64..8, 1u64..=8, 0u8..6)
            .prop_map(|(first, sector, sectors, letter)| Happening::Part { first, sector, sectors, letter }),
        3 => (first.clone(), 1u64..=BLOCKS).prop_map(|(first, blocks)| Happening::Read { first, blocks }),
        3 => Just(Happening::Flush),
        2 => (first.clone(), 1u64..=BLOCKS).prop_map(|(first, blocks)| Happening::Discard { first, blocks }),
        1 => (first, 1u64..=BLOCKS).prop_map(|(first, blocks)| Happening::Zeroes { first, blocks }),
        8 => (1u8..20).prop_map(Happening::Steps),
        1 => Just(Happening::Close),
        1 => any::<u64>().prop_map(Happening::Kill),
        2 => any::<u64>().prop_map(Happening::Cut),
    ]
}

fn content(letter: u8) -> Shared {
    if letter == 0 { Content::zero() } else { pattern(&char::from(b'A' + letter).to_string()) }
}

fn open(setting: &Setting, disk: SimDisk, oracle: Oracle) -> Result<World, Violation> {
    let mut rng = Rng::with_seed(5);
    let machine = open_engine(&disk, setting, &mut rng).map_err(|e| Violation(format!("P1: the volume does not open: {e}")))?;
    let mut world = World::new(setting.clone(), disk, oracle, machine, rng);
    world.check_sets()?;
    Ok(world)
}

/// Begins the next life on what the last one left; its clients first read everything.
fn again(setting: &Setting, disk: SimDisk, mut oracle: Oracle) -> Result<World, Violation> {
    oracle.reopen();
    let mut world = open(setting, disk, oracle)?;
    world.read_all()?;
    Ok(world)
}

fn run(happenings: &[Happening], persistence: Persistence, refs_limit: u8) -> Result<(), Violation> {
    let prepared = Prepared::new(Shape::Tiny, false)?;
    let mut options = quiet_options(Shape::Tiny);
    options.settings =
        Settings { persistence, noncritical_delay_ms: 5, memory_bytes: 2 << 20, ..Settings::default() }.with_knobs(|knobs| {
            knobs.refs_limit = refs_limit;
            knobs.discard_batch_blocks = 1;
        });
    options.jump = 40;
    options.lbns = 4;
    let setting = prepared.setting(Rc::new(options));
    let base = setting.stretches[0].0;
    let clip = |first: u64, blocks: u64| blocks.min(BLOCKS - first);
    let mut world = open(&setting, prepared.disk.clone(), prepared.oracle.clone())?;
    for happening in happenings {
        if !(base..base + BLOCKS).all(|lbn| world.oracle.has_room(lbn)) {
            world.settle()?;
        }
        let World { client, oracle, .. } = &mut world;
        let request = match happening {
            Happening::Write { first, letters, fua } => {
                let contents: Vec<Shared> = letters.iter().take(usize::try_from(clip(*first, 4)).unwrap()).map(|l| content(*l)).collect();
                client.write(base + first, &contents, *fua, oracle)
            }
            Happening::Part { first, sector, sectors, letter } => {
                let sectors = (*sectors).min(8 - sector);
                client.write_sectors((base + first) * 8 + sector, sectors, &[content(*letter)], false, oracle)
            }
            Happening::Read { first, blocks } => client.read((base + first) * 4096, clip(*first, *blocks) * 4096, oracle),
            Happening::Flush => client.flush(oracle),
            Happening::Discard { first, blocks } => client.clear(Op::Discard, (base + first) * 8, clip(*first, *blocks) * 8, false, oracle),
            Happening::Zeroes { first, blocks } => {
                client.clear(Op::WriteZeroes, (base + first) * 8, clip(*first, *blocks) * 8, false, oracle)
            }
            Happening::Steps(steps) => {
                (0..*steps).try_for_each(|_| world.step(false).map(drop))?;
                continue;
            }
            Happening::Close => {
                world.close()?;
                let oracle = world.oracle.clone();
                audit(&world.disk, &setting.volume, &oracle, &mut Rng::with_seed(1))?;
                world = again(&setting, world.disk.cut(&Vec::new()), oracle)?;
                continue;
            }
            Happening::Kill(seed) => {
                let disk = world.disk.kill(&mut Rng::with_seed(*seed));
                world = again(&setting, disk, world.oracle)?;
                continue;
            }
            Happening::Cut(seed) => {
                let mut rng = Rng::with_seed(*seed);
                let choices = PowerLossStates::of(&world.disk, &setting.volume).choices(&world.disk, 64, &mut rng);
                let disk = world.disk.cut(&choices[rng.usize(0..choices.len())]);
                world = again(&setting, disk, world.oracle)?;
                continue;
            }
        };
        world.send(request)?;
    }
    world.settle()?;
    world.read_all()?;
    world.close()?;
    audit(&world.disk, &setting.volume, &world.oracle, &mut Rng::with_seed(1))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_keeps_every_promise(
        happenings in prop::collection::vec(happening(), 1..60),
        strong in any::<bool>(),
        refs_limit in prop_oneof![Just(3u8), Just(254u8)],
    ) {
        let persistence = if strong { Persistence::Strong } else { Persistence::Weak };
        if let Err(violation) = run(&happenings, persistence, refs_limit) {
            prop_assert!(false, "{violation}");
        }
    }
}
