//! CAFTL: what it finds in line, and what it gives back.

use crate::bench::Bench;
use onefold_engine::interface::Op;
use onefold_engine::settings::Persistence;
use onefold_engine::units::Blocks;
use onefold_sim::rivals::caftl::Caftl;
use onefold_sim::rivals::{Baseline, Settings};

fn bench(memory_bytes: u64, has_pre_hashing: bool) -> Bench<Caftl> {
    Bench::new(Caftl::new(Settings::new(Persistence::Weak, Blocks(4096)), memory_bytes, has_pre_hashing), 1)
}

fn duplicates(bench: &Bench<Caftl>) -> u64 {
    bench.machine.report().fact("duplicates").expect("it counts them")
}

#[test]
fn a_duplicate_is_not_written_and_reads_as_what_it_is() {
    let mut bench = bench(1 << 20, false);
    bench.write(7, &[1]);
    bench.write(9, &[1]);
    bench.write(7, &[2]);
    bench.ask(Op::Read, 7, 3, &[], false);
    bench.settle();
    assert_eq!(duplicates(&bench), 1);
    assert_eq!(bench.units.iter().sum::<u64>(), 2);
    bench.close();
}

#[test]
fn of_a_request_the_first_block_decides() {
    let mut bench = bench(1 << 20, false);
    bench.write(0, &[1]);
    bench.write(8, &[2]);
    bench.settle();
    bench.write(16, &[5, 1, 2]);
    bench.write(32, &[1, 2, 6]);
    bench.settle();
    assert_eq!(duplicates(&bench), 2, "nothing of the first request, two blocks of the second");
    bench.close();
}
