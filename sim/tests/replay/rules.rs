//! Replay keeps dependencies and think times on slow devices.

use crate::watch::{Arrival, Observations, ObservedMachine};
use crate::{on, records};
use fastrand::Rng;
use onefold_engine::interface::Op;
use onefold_engine::settings::Persistence;
use onefold_engine::units::Bytes;
use onefold_sim::laboratory::replay::run::{Plan, replay, replay_on};
use onefold_sim::laboratory::replay::scheme::{IndexLimits, ReadyScheme, Scheme, ready};
use onefold_trace::record::{Block, ContentName, Op as Recorded, Record};
use std::sync::{Arc, Mutex};

/// Makes bursts of writes, some reads, discards and partial writes, with flushes and FUA writes between them.
fn bursts(seed: u64) -> Vec<Record> {
    let mut rng = Rng::with_seed(seed);
    let mut time_ns = 0;
    let mut records = Vec::new();
    for n in 0..2000 {
        time_ns += if rng.u8(..) < 8 { 30_000_000 } else { rng.u64(0..20_000) };
        let sectors = rng.u8(..) < 16;
        let unit = if sectors { 512 } else { 4096 };
        let (offset, length) = (Bytes(rng.u64(0..500) * unit), Bytes(rng.u64(1..8) * unit));
        let mut record = match rng.u8(..) {
            0..8 => Record::new(time_ns, Recorded::Flush, Bytes(0), Bytes(0)),
            8..16 => Record::new(time_ns, Recorded::Discard, offset, length),
            16..24 => Record::new(time_ns, Recorded::WriteZeroes, offset, length),
            24..48 => Record::new(time_ns, Recorded::Read, offset, length),
            _ => Record::new(time_ns, Recorded::Write, offset, length),
        };
        if record.op == Recorded::Write {
            let name = |rng: &mut Rng| match rng.u8(0..20) {
                0 => ContentName::Zero,
                1 => ContentName::Unknown,
                _ => ContentName::Of([rng.u8(1..100); 20]),
            };
            record.blocks = (0..record.blocks_touched()).map(|_| Block::named(name(&mut rng))).collect();
            record.fua = n % 50 == 0;
        }
        let fua = record.fua;
        records.push(record);
        if fua && rng.bool() {
            records.push(Record::new(time_ns + 5, Recorded::Flush, Bytes(0), Bytes(0)));
        }
    }
    records
}

fn watched(records: &[Record], plan: &Plan) -> Vec<Arrival> {
    let observations = Arc::new(Mutex::new(Observations::default()));
    let made = ready(plan.scheme, plan.persistence, 5000, plan.memory_bytes, plan.index).expect("a volume");
    let machine = Box::new(ObservedMachine { machine: made.machine, observations: observations.clone() });
    replay_on(ReadyScheme { machine, ..made }, "bursts", crate::records(records), plan).unwrap_or_else(|error| panic!("{error}"));
    let arrivals = std::mem::take(&mut observations.lock().expect("nobody panicked with it").arrivals);
    // The reads that verify everything at the end are not part of the replay.
    let last = arrivals.iter().rposition(|c| c.op != Op::Read).expect("something was written");
    arrivals[..=last].to_vec()
}

#[test]
fn nothing_is_sent_behind_an_unanswered_flush() {
    for (seed, model) in ["instant", "ufs", "emmc", "tablet", "850pro"].into_iter().enumerate() {
        let records = bursts(seed as u64);
        for persistence in [Persistence::Weak, Persistence::Strong] {
            let arrivals = watched(&records, &Plan { persistence, ..on(model) });
            for c in &arrivals {
                assert!(!c.behind_barrier, "{model} {persistence:?}: {c:?} passed a flush");
                assert!(c.op != Op::Flush || c.unanswered == 1, "{model} {persistence:?}: {c:?} did not wait for what is before it");
            }
            assert!(arrivals.iter().any(|c| c.fua) && arrivals.iter().any(|c| c.op == Op::Flush));
        }
    }
}

#[test]
fn strong_persistence_limits_the_waiting_changes() {
    let write = |n: u64| Record::new(n * 1000, Recorded::Write, Bytes(n * 8192), Bytes(4096));
    let records: Vec<Record> = (0..200).map(write).collect();
    for most in [32, 1] {
        let plan = Plan { persistence: Persistence::Strong, outstanding_max: most, ..on("tablet") };
        let arrivals = watched(&records, &plan);
        assert_eq!(arrivals.iter().map(|c| c.unanswered).max(), Some(most), "the device is slow enough for all of them");
    }
}

#[test]
fn a_fua_write_and_the_flush_right_after_it_are_one() {
    let records = bursts(9);
    let fua = records.iter().filter(|r| r.fua).count();
    let pairs = records.windows(2).filter(|w| w[0].fua && w[1].op == Recorded::Flush).count();
    let flushes = records.iter().filter(|r| r.op == Recorded::Flush).count();
    assert!(pairs > 5 && pairs < fua);
    let arrivals = watched(&records, &on("instant"));
    assert_eq!(arrivals.iter().filter(|c| c.fua).count(), fua);
    assert_eq!(arrivals.iter().filter(|c| c.op == Op::Flush).count(), flushes - pairs);
}

#[test]
fn think_times_are_kept() {
    let write = |time_ns, block: u64| Record {
        blocks: vec![Block::named(ContentName::Unknown)],
        ..Record::new(time_ns, Recorded::Write, Bytes(block * 4096), Bytes(4096))
    };
    let flush = |time_ns| Record::new(time_ns, Recorded::Flush, Bytes(0), Bytes(0));
    let ms = 1_000_000;
    let records = [write(ms, 1), write(5 * ms, 2), flush(6 * ms), write(9 * ms, 3), write(3000 * ms, 4)];
    let gaps = |model: &str| {
        let arrivals = watched(&records, &on(model));
        arrivals.windows(2).map(|w| w[1].at_ns - w[0].at_ns).collect::<Vec<u64>>()
    };
    assert_eq!(gaps("instant"), [4 * ms, ms, 3 * ms, 2991 * ms]);
    let slow = gaps("tablet");
    assert_eq!((slow[0], slow[1], slow[3]), (4 * ms, ms, 2991 * ms), "only what waits for the flush is later");
    // The second write's content, sent at 5 ms, then the refs page, then the map page take 2.91 ms each; then the flush of 6 ms is
    // answered.
    assert_eq!(slow[2], 5 * ms + 3 * 2_910_000 - 6 * ms);
}

#[test]
fn the_same_trace_gives_the_same_report() {
    let trace = bursts(3);
    let report = |plan: &Plan| onefold_sim::laboratory::replay::run::replay("bursts", records(&trace), 5000, plan).expect("it runs");
    let plan = Plan { persistence: Persistence::Strong, ..on("ufs") };
    assert_eq!(report(&plan), report(&plan));
}

/// A thousand contents, and some of them again, at places of their own.
fn few_copies() -> Vec<Record> {
    let content =
        |n: u64| Block::named(ContentName::Of(std::array::from_fn(|i| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[i % 8])));
    let write = |at: u64, n: u64| {
        let mut record = Record::new(at * 1_000_000, Recorded::Write, Bytes(at * 4096), Bytes(4096));
        record.blocks = vec![content(n)];
        record
    };
    (0..1000).map(|n| write(n, n)).chain((0..20).map(|n| write(1000 + 7 * n, 37 * n))).collect()
}

#[test]
fn work_out_of_line_is_waited_for() {
    for scheme in [Scheme::OrderedAnticipate, Scheme::Packed] {
        let linked = |is_out_of_line: bool| {
            let index = IndexLimits { bytes_max: 512, is_out_of_line, ..IndexLimits::default() };
            let plan = Plan { scheme, index, ..on("instant") };
            let report = replay("copies", records(&few_copies()), 1 << 20, &plan).unwrap_or_else(|error| panic!("{error}"));
            report.space.linked
        };
        assert_eq!(linked(true), Some(1000), "{scheme:?}");
        assert!(linked(false) > Some(1005), "{scheme:?}: the index found them");
    }
}
