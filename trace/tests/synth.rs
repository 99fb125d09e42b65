//! Synthetic traces, whose properties, counted like `trace info` does, have to be those that were asked for.

use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::content::blocks;
use onefold_trace::header::Unit;
use onefold_trace::info::{Counter, Info};
use onefold_trace::record::{ContentName, Op, Record};
use onefold_trace::synth::phone::PHONES;
use onefold_trace::synth::{Access, Choice, Contents, Distribution, Flushes, Length, Plan, Synth};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Makes a trace of this plan, and returns its totals and its records.
fn made(plan: &Plan) -> (Info, Vec<Record>) {
    let mut synth = Synth::new(plan.clone()).unwrap_or_else(|wrong| panic!("{wrong}: {plan:?}"));
    let records: Vec<Record> = synth.by_ref().collect();
    assert_eq!(synth.shortfall(), None, "{plan:?}");
    let mut counter = Counter::new();
    records.iter().for_each(|record| counter.count(record, Unit::Block));
    let info = counter.info(&synth.header("synth"));
    assert!(records.iter().all(Record::is_well_formed));
    assert!(records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "times rise");
    (info, records)
}

fn share(some: u64, all: u64) -> f64 {
    some as f64 / all as f64
}

#[track_caller]
fn near(what: &str, came: f64, asked: f64, bearable: f64) {
    assert!((came - asked).abs() <= bearable, "{what}: {came} instead of {asked}");
}

fn access() -> impl Strategy<Value = Access> {
    let hot = (0.5..0.95f64, 0.05..0.5f64).prop_map(|(requests, blocks)| Access::HotSpot { requests, blocks });
    prop_oneof![Just(Access::Uniform), Just(Access::Sequential), hot, Just(Access::NuRand)]
}

fn sizes() -> impl Strategy<Value = Choice> {
    prop::sample::select(vec!["1", "8", "1-16", "1:70,8:20,16-32:10"]).prop_map(|typed| typed.parse().expect("a choice"))
}

const BLOCKS: u64 = 6000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Checks that the shares of contents are exact, except for rounding.
    #[test]
    fn duplication_zeros_and_overwrites_are_exact(
        (zero, live, gone) in (0.0..0.2f64, 0.0..0.4f64, 0.0..0.05f64),
        overwrites in 0.3..0.8f64, skew in 0.0..2.0f64, access in access(), sizes in sizes(), seed in any::<u64>(),
    ) {
        let contents = Contents::Shares { zero, live: Some(live), ever: Some(live + gone), skew };
        let plan = Plan { seed, length: Length::Blocks(BLOCKS), overwrites: Some(overwrites), contents, access, sizes, ..Plan::default() };
        let (info, _) = made(&plan);
        let all = info.total.blocks_written;
        prop_assert_eq!(all, BLOCKS);
        near("zero", share(info.total.zeros, all), zero, 0.001);
        near("live", share(info.total.duplicates_live, all), live, 0.006);
        near("ever", share(info.total.duplicates_ever, all), live + gone, 0.006);
        near("overwrites", info.shape.overwrites.expect("some"), overwrites, 0.001);
    }

    /// Checks a plan without a live share: any known content may recur.
    #[test]
    fn duplication_ever_alone_is_exact(ever in 0.0..0.9f64, working_set in 40u64..20_000, access in access(), seed in any::<u64>()) {
        let contents = Contents::Shares { zero: 0.05, live: None, ever: Some(ever), skew: 0.8 };
        let (info, _) = made(&Plan { seed, length: Length::Blocks(BLOCKS), working_set, contents, access, ..Plan::default() });
        near("ever", share(info.total.duplicates_ever, BLOCKS), ever, 0.001);
        prop_assert!(info.blocks_end <= working_set);
    }

    /// Checks the requests: their number and kind, FUA and flushes.
    #[test]
    fn requests_follow_the_plan(
        requests in 2000u64..5000, reads in 0.0..0.9f64, fua in 0.0..1.0f64, every in 1u64..50, sizes in sizes(), access in access(),
        seed in any::<u64>(),
    ) {
        let flushes = Flushes { every_writes: Some(every), every_ns: None, fua };
        let plan = Plan { seed, length: Length::Requests(requests), reads, flushes, sizes, access, ..Plan::default() };
        let (info, _) = made(&plan);
        prop_assert_eq!(info.total.reads + info.total.writes, requests);
        near("reads", info.shape.reads.expect("some"), reads, 0.001);
        near("FUA", share(info.total.fua, info.total.writes), fua, 0.003);
        prop_assert_eq!(info.total.flushes, info.total.writes / every);
        if plan.sizes.ends() == (1, 1) {
            prop_assert_eq!(info.blocks_between_flushes_median, Some(every));
        }
        prop_assert!(info.blocks_end <= plan.working_set);
    }

    /// Checks that each content, and zeros, occurs as often as the distribution says.
    #[test]
    fn a_distribution_is_exact(
        classes in prop::collection::btree_map(1u64..60, 0u64..40, 1..12), zero in 0u64..50, access in access(), reads in 0.0..0.5f64,
        seed in any::<u64>(),
    ) {
        let distribution = Distribution::new(zero, &classes, &BTreeMap::from([(64, 1), (4096, 1)]));
        prop_assume!(distribution.blocks() > 0);
        let contents = Contents::Distribution(distribution.clone());
        let plan = Plan { seed, contents, access, reads, working_set: 500, ..Plan::default() };
        let (info, records) = made(&plan);
        let mut times: HashMap<ContentName, u64> = HashMap::new();
        for record in records.iter().filter(|record| record.op == Op::Write) {
            blocks(record, Unit::Block).for_each(|(_, name)| *times.entry(name).or_default() += 1);
        }
        let zeros = times.remove(&ContentName::Zero).unwrap_or(0);
        let mut occurrences = BTreeMap::new();
        times.values().for_each(|times| *occurrences.entry(*times).or_insert(0) += 1);
        let came = Distribution::new(zeros, &occurrences, &BTreeMap::from([(64, 1), (4096, 1)]));
        prop_assert_eq!(&came, &distribution);
        prop_assert_eq!(info.contents, distribution.contents());
    }

    /// Checks that other options do not change the contents, and that the same plan gives the same trace.
    #[test]
    fn the_seed_decides(seed in any::<u64>(), sizes in sizes(), access in access()) {
        let contents = Contents::Shares { zero: 0.1, live: Some(0.3), ever: None, skew: 1.0 };
        let plan = Plan { seed, length: Length::Blocks(500), contents, sizes, access, ..Plan::default() };
        let records = |plan: &Plan| Synth::new(plan.clone()).expect("a plan").collect::<Vec<_>>();
        prop_assert_eq!(records(&plan), records(&plan));
        prop_assert_ne!(records(&plan), records(&Plan { seed: seed ^ 1, ..plan.clone() }));
    }
}

/// Checks the mean size of requests, in standard errors of a size of one block each. The seeds are fixed: a draw of others would miss the
/// bounds by chance at times.
#[test]
fn the_mean_size_of_requests_is_that_of_the_plan() {
    let hot = Access::HotSpot { requests: 0.8, blocks: 0.2 };
    for (typed, bearable) in [("1", 0.0), ("8", 0.0), ("1-16", 2.5), ("1:70,8:20,16-32:10", 6.5)] {
        let sizes: Choice = typed.parse().expect("a choice");
        let runs = (0..25).flat_map(|seed| [Access::Uniform, Access::Sequential, hot, Access::NuRand].map(|access| (seed, access)));
        for (seed, access) in runs {
            let plan = Plan { seed, length: Length::Requests(3000), reads: 0.2, sizes: sizes.clone(), access, ..Plan::default() };
            let (info, _) = made(&plan);
            let came = info.shape.write_blocks_mean.expect("some") / sizes.mean();
            near(&format!("{typed}, seed {seed}"), came, 1.0, bearable / (info.total.writes as f64).sqrt());
        }
    }
}

#[test]
fn patterns_and_the_working_set_show() {
    let info = |access, working_set| made(&Plan { length: Length::Blocks(40_000), working_set, access, ..Plan::default() }).0;
    let uniform = info(Access::Uniform, 2000);
    assert_eq!((uniform.shape.blocks_ever_written, uniform.blocks_end), (2000, 2000));
    let sequential = info(Access::Sequential, 2000);
    near("sequential", sequential.shape.sequential.expect("some"), 1.0, 0.001);
    near("the busiest tenth, all alike", sequential.shape.busiest_tenth.expect("some"), 0.1, 0.001);
    near("sequential by chance", uniform.shape.sequential.expect("some"), 0.0, 0.01);
    // There are so few blocks that the cold ones are written, too: the busiest tenth is one of the written blocks.
    let hot = info(Access::HotSpot { requests: 0.9, blocks: 0.1 }, 500);
    near("the busiest tenth", hot.shape.busiest_tenth.expect("some"), 0.9, 0.01);
    assert!(info(Access::NuRand, 2000).shape.busiest_tenth.expect("some") > 0.3);
}

#[test]
fn locality_shows() {
    let back = |skew| {
        let contents = Contents::Shares { zero: 0.0, live: None, ever: Some(0.5), skew };
        made(&Plan { length: Length::Blocks(40_000), contents, ..Plan::default() }).0.shape.duplicates_back_median.expect("some")
    };
    let (none, harmonic, strong) = (back(0.0), back(1.0), back(2.0));
    assert!(none > 10 * harmonic && harmonic > 3 * strong, "{none} {harmonic} {strong}");
}

#[test]
fn times_and_sizes_follow_the_plan() {
    let flushes = Flushes { every_ns: Some(50_000_000), ..Flushes::default() };
    let compressed: Choice = "1000:50,4096:50".parse().expect("a choice");
    let contents = Contents::Shares { zero: 0.0, live: Some(0.3), ever: None, skew: 1.0 };
    let plan = Plan { length: Length::Blocks(20_000), rate: 2000.0, flushes, compressed: Some(compressed), contents, ..Plan::default() };
    for even in [false, true] {
        let (info, records) = made(&Plan { even, ..plan.clone() });
        near("seconds", info.duration_ns as f64 / 1e9, 10.0, if even { 0.001 } else { 0.3 });
        near("flushes", info.total.flushes as f64, 200.0, if even { 1.0 } else { 7.0 });
        near("bytes", info.shape.compressed_bytes_mean.expect("known"), (1024.0 + 4096.0) / 2.0, 60.0);
        let mut sizes: HashMap<ContentName, Option<u16>> = HashMap::new();
        for block in records.iter().flat_map(|record| &record.blocks) {
            assert_eq!(*sizes.entry(block.name).or_insert(block.compressed), block.compressed, "one content, one size");
            assert!([Some(1024), Some(4096)].contains(&block.compressed));
        }
    }
}

#[test]
fn phones_are_as_in_the_table() {
    for phone in PHONES {
        let scale = 1.0 / 4000.0;
        let (info, _) = made(&phone.plan(scale, 1));
        let gb = |blocks: u64| (blocks * BLOCK_BYTES) as f64 / f64::from(1 << 30) / scale;
        let close = |what: &str, came: f64, in_table: f64| near(&format!("{}, {what}", phone.id), came / in_table, 1.0, 0.01);
        close("GB of all requests", gb(info.total.blocks_written + info.total.blocks_read), phone.total_gb);
        close("reads for each write", share(info.total.blocks_read, info.total.blocks_written), phone.reads_per_write);
        close("GB of unique addresses", gb(info.shape.blocks_ever_written), phone.unique_addresses_gb);
        close("GB of unique data", gb(info.contents), phone.unique_data_gb);
        near("duplication", share(info.total.duplicates_ever, info.total.blocks_written) * 100.0, phone.duplication_pct, 0.05);
        near("days", info.duration_ns as f64 / 86_400e9 / scale / phone.days, 1.0, 0.03);
    }
}

#[test]
fn a_contradictory_plan_is_refused_with_the_option() {
    let shares = |zero, live, ever| Contents::Shares { zero, live, ever, skew: 1.0 };
    let plan = Plan::default;
    let hot = Access::HotSpot { requests: 1.5, blocks: 0.1 };
    let cases = [
        (Plan { contents: shares(0.6, Some(0.5), None), ..plan() }, "--zero 0.6"),
        (Plan { contents: shares(0.0, Some(0.5), Some(0.4)), ..plan() }, "--duplication-ever 0.4"),
        (Plan { contents: shares(0.0, Some(1.5), None), ..plan() }, "--duplication 1.5"),
        (Plan { reads: -0.1, ..plan() }, "--reads -0.1"),
        (Plan { reads: 1.0, ..plan() }, "--requests"),
        (Plan { sizes: "0-4".parse().expect("a choice"), ..plan() }, "--request-blocks 0-4"),
        (Plan { sizes: Choice::only(100), working_set: 50, ..plan() }, "50 blocks"),
        (Plan { sizes: Choice::only(100), length: Length::Blocks(200), overwrites: Some(0.9), ..plan() }, "--overwrites 0.9 leaves 20"),
        (Plan { compressed: Some(Choice::only(5000)), ..plan() }, "--compressed 5000"),
        (Plan { rate: 0.0, ..plan() }, "--rate 0"),
        (Plan { access: hot, ..plan() }, "--hotspot 150/10"),
        (Plan { length: Length::Blocks(1 << 40), ..plan() }, "1099511627776 block writes"),
        (Plan { flushes: Flushes { every_writes: Some(0), ..Flushes::default() }, ..plan() }, "--flush-every"),
    ];
    for (plan, wanted) in cases {
        let error = Synth::new(plan).err().unwrap_or_else(|| panic!("not refused: {wanted}")).to_string();
        assert!(error.contains(wanted), "{error}, not {wanted}");
    }
}

#[test]
fn an_impossible_share_is_reported() {
    let gone = Contents::Shares { zero: 0.0, live: Some(0.1), ever: Some(0.4), skew: 1.0 };
    let mut synth =
        Synth::new(Plan { length: Length::Blocks(5000), overwrites: Some(0.0), contents: gone, ..Plan::default() }).expect("a plan");
    assert_eq!(synth.by_ref().filter(|record| record.op == Op::Write).count(), 5000);
    assert!(
        synth.shortfall().is_some_and(|reason| reason.starts_with("1500 of 5000") && reason.contains("--overwrites")),
        "{:?}",
        synth.shortfall()
    );
}
