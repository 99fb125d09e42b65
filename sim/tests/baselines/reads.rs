//! Every read of every rival, while the device completes in random order.

use crate::bench::Bench;
use crate::client::Client;
use onefold_engine::settings::Persistence;
use onefold_engine::units::Blocks;
use onefold_sim::baselines::{Baseline, Settings, journal, none, shadow};

const LOGICAL: u64 = 80;

fn run<M: Baseline>(make: impl Fn(Settings) -> M, collects: bool) {
    for persistence in [Persistence::Weak, Persistence::Strong] {
        for seed in 0..4 {
            let settings = Settings { reserve: Blocks(64), ..Settings::new(persistence, Blocks(LOGICAL)) };
            let mut bench = Bench::new(make(settings), seed);
            let mut client = Client::new(seed, LOGICAL, persistence == Persistence::Strong);
            for _ in 0..1800 {
                if client.waits() < 12 {
                    client.ask(&mut bench);
                }
                bench.complete_some(10);
                if bench.rng.u8(0..100) == 0 {
                    bench.pass_ms(1100);
                }
                client.hear(&mut bench);
            }
            bench.settle();
            client.hear(&mut bench);
            assert_eq!(client.waits(), 0, "{}: everything is answered in the end", bench.machine.report());
            assert!(client.reads > 60, "only {} reads", client.reads);
            bench.close();
            let collected = bench.machine.report().fact("blocks collected").unwrap_or(0);
            assert_eq!(collected > 100, collects, "{}", bench.machine.report());
        }
    }
}

#[test]
fn a_plain_disk_reads_back_what_was_written() {
    run(none::Plain::new, false);
}

#[test]
fn the_shadow_reads_back_what_was_written() {
    run(shadow::machine, true);
}

#[test]
fn the_journal_reads_back_what_was_written() {
    run(journal::machine, true);
}
