//! The power is lost at a random moment: the content of the device is enough for everything that was flushed.

use crate::bench::{Bench, Block};
use crate::client::Client;
use onefold_engine::settings::Persistence;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Blocks};
use onefold_sim::laboratory::counts::names::{digest_of, name_of};
use onefold_sim::rivals::{Baseline, Settings, journal, shadow};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

const LOGICAL: u64 = 64;

/// Interrupts runs and passes the medium to `found`, with the machine for its layout.
fn cut<M: Baseline>(make: impl Fn(Settings) -> M, found: impl Fn(&M, &HashMap<u64, Block>) -> BTreeMap<u64, u64>) {
    for persistence in [Persistence::Weak, Persistence::Strong] {
        let mut flushed = 0;
        for seed in 0..100 {
            let mut bench = Bench::new(make(Settings { reserve: Blocks(32), ..Settings::new(persistence, Blocks(LOGICAL)) }), seed);
            let mut client = Client::new(seed, LOGICAL, persistence == Persistence::Strong);
            let steps = bench.rng.usize(1..160);
            for _ in 0..steps {
                if client.waits() < 6 {
                    client.ask(&mut bench);
                }
                bench.complete_some(8);
                if bench.rng.u8(0..20) == 0 {
                    bench.pass_ms(16_000);
                }
                client.take_answers(&mut bench);
            }
            flushed += client.durable.iter().filter(|&&version| version > 0).count();
            let medium = bench.cut();
            let map = found(&bench.machine, &medium);
            let name = |lbn: u64| map.get(&lbn).map_or(0, |block| medium.get(block).map_or(0, |bytes| name_of(bytes)));
            client.check(name, &format!("seed {seed}, {persistence:?}, after {steps} steps"));
        }
        assert!(flushed > 500, "only {flushed} blocks had anything flushed");
    }
}

fn bytes_of(medium: &HashMap<u64, Block>, at: u64, length: u64) -> Vec<u8> {
    let zero: Block = Box::new([0; BLOCK_SIZE]);
    (at / BLOCK_BYTES..(at + length) / BLOCK_BYTES).flat_map(|block| *medium.get(&block).unwrap_or(&zero).clone()).collect()
}

#[test]
fn a_shadow_on_the_device_is_a_sound_redb_file_with_all_that_was_flushed() {
    cut(shadow::machine, |machine, medium| {
        let (at, length) = machine.scheme().place();
        let found = shadow::reopen(bytes_of(medium, at.0, length.0)).expect("redb opens what a crash leaves");
        // Every link is counted, that of the fingerprint included, and nothing else is.
        let mut links: BTreeMap<u64, u32> = BTreeMap::new();
        found.map.values().chain(found.names.values()).for_each(|&pbn| *links.entry(pbn).or_default() += 1);
        assert_eq!(found.refs, links);
        found.map
    });
}

#[test]
fn a_journal_on_the_device_has_all_that_was_flushed() {
    let replayed = Cell::new(0);
    // Such a small ring wraps around, and its commits wait for write-backs.
    cut(
        |settings| journal::machine_with_ring(settings, 8),
        |machine, medium| {
            let zero: Block = Box::new([0; BLOCK_SIZE]);
            let read = |block: u64| **medium.get(&block).unwrap_or(&zero);
            let digest = |block: &[u8; BLOCK_SIZE]| digest_of(name_of(block));
            let found = journal::recover(machine.scheme(), LOGICAL, read, digest).expect("there is a superblock");
            let mut links: BTreeMap<u64, u16> = BTreeMap::new();
            found.map.values().for_each(|&block| *links.entry(block).or_default() += 1);
            for (block, &(count, named)) in &found.counts {
                let linked = links.remove(block).unwrap_or(0) + u16::from(named);
                assert_eq!(count, linked, "block {block}");
            }
            assert!(links.is_empty(), "links that nobody counts: {links:?}");
            replayed.set(replayed.get() + found.applied);
            found.map
        },
    );
    assert!(replayed.get() > 200, "only {} blocks of the ring were needed", replayed.get());
}
