//! Every read of every rival, while the device completes in random order.

use crate::bench::{Bench, names_in};
use crate::client::Client;
use onefold_engine::interface::Op;
use onefold_engine::settings::Persistence;
use onefold_engine::units::Blocks;
use onefold_sim::rivals::{Baseline, Settings, journal, none, shadow};

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
                client.take_answers(&mut bench);
            }
            bench.settle();
            client.take_answers(&mut bench);
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

/// Checks that a block whose content is overwritten, collected and free again is not written while a read of it is in flight.
fn read_slowly<M: Baseline>(make: impl Fn(Settings) -> M) {
    let mut bench = Bench::new(make(Settings { reserve: Blocks(8), ..Settings::new(Persistence::Weak, Blocks(LOGICAL)) }), 1);
    bench.late_reads = true;
    bench.write(0, &[7]);
    bench.flush();
    bench.settle();
    let read = bench.ask(Op::Read, 0, 1, &[], false);
    for content in 100..400 {
        let write = bench.write(content % 3, &[content]);
        while !bench.replies.contains_key(&write) {
            assert!(bench.complete_one());
        }
        assert!(!bench.replies.contains_key(&read), "the read was to be slow");
    }
    assert!(bench.machine.report().fact("blocks collected") > Some(100), "{}", bench.machine.report());
    bench.settle();
    assert_eq!(names_in(&bench.replies[&read]), [7]);
}

#[test]
fn a_slow_read_finds_what_was_there_when_it_came() {
    read_slowly(shadow::machine);
    read_slowly(journal::machine);
}
