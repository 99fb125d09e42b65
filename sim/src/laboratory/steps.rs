//! The speed of the engine alone: no hashing, no I/O, no threads. Whatever it asks for is done immediately.
//!
//! 1. A write step is one request for one block, from its admission to the completion of all device commands that it causes, including its
//!    share of commits, reclaim and write-backs. Digests and the client's buffer are prepared before. The device stores nothing: all
//!    metadata of the volume fits the engine's memory, so that no page that it wrote is ever read again; otherwise the measurement panics.
//! 2. The rate is by the thread's own processor time, so that other work on the machine does not count; that by the wall clock is given as
//!    well.
//! 3. Loads overwrite a range of 64 MiB on 1 GiB again and again, so that blocks are unlinked, reclaimed and reused meanwhile.

use crate::ground::figure::{Figure, Relation, say};
use crate::ground::words::{above_zero, number};
use crate::laboratory::counts::names::digest_of;
use crate::laboratory::counts::pool::Pool;
use fastrand::Rng;
use onefold_engine::Engine;
use onefold_engine::buffer::{Buffer, BufferMut};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::{FormatStep, Geometry, Superblock, Wish, format};
use onefold_engine::interface::{Action, Class, Event, Notice, Op, Payload, Policies, Reply, Request, RequestId};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, Time};
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const RANGE_BLOCKS: u64 = 16_384;
/// The number of contents that duplicates are drawn from: four blocks of the range link to each, on average.
const POOL: u64 = 4096;
const WARM_UP: u64 = 200_000;
const ROUNDS: usize = 7;
const ROUND_WRITES: u64 = 200_000;
const TARGET: f64 = 500_000.0;

/// A load to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: &'static str,
    pub duplicates: bool,
    /// The number of writes between flushes; 0 for none.
    pub flush_every: u64,
}

/// All cases; the figure is the slowest.
pub const CASES: [Case; 4] = [
    Case { name: "unique, a flush every 32", duplicates: false, flush_every: 32 },
    Case { name: "unique, no flush", duplicates: false, flush_every: 0 },
    Case { name: "duplicates, a flush every 32", duplicates: true, flush_every: 32 },
    Case { name: "duplicates, no flush", duplicates: true, flush_every: 0 },
];

/// The engine over a device that does everything at once.
struct Instantly {
    engine: Engine,
    /// The pages that formatting wrote and that have not been read yet.
    formatted: FxHashMap<u64, Box<[u8; BLOCK_SIZE]>>,
    buffer: Buffer,
    now_ns: u64,
    next: u64,
    answered: u64,
    wake_ns: u64,
    serving: bool,
    events: VecDeque<Event>,
    out: Vec<Action>,
}

impl Instantly {
    fn open() -> Self {
        let geometry = Geometry::plan(Bytes(1 << 30), &Wish::default()).expect("1 GiB is enough for a volume");
        let settings = Settings::default();
        let superblock = Superblock::new(geometry, *b"onefold-sim-uuid", [7; 32], Algorithm::Blake3, &settings);
        let written = format(&superblock, superblock.geometry.device_bytes, &[]);
        let formatted =
            written.filter_map(|step| if let FormatStep::Write { at, page } = step { Some((at.0, page)) } else { None }).collect();
        let accountant = Accountant::new(settings.memory_bytes);
        let engine = Engine::open(superblock, settings, Pool::plain(), accountant, Time(0));
        let mut opened = Self {
            engine,
            formatted,
            buffer: BufferMut::zeroed(1).freeze(),
            now_ns: 0,
            next: 0,
            answered: 0,
            wake_ns: u64::MAX,
            serving: false,
            events: VecDeque::new(),
            out: Vec::new(),
        };
        opened.feed(Event::Tick);
        assert!(opened.serving, "everything happens at once");
        opened
    }

    fn feed(&mut self, event: Event) {
        self.events.push_back(event);
        let mut out = std::mem::take(&mut self.out);
        while let Some(event) = self.events.pop_front() {
            self.engine.step(Time(self.now_ns), event, &mut out);
            for action in out.drain(..) {
                match action {
                    Action::Write { io, .. } => self.events.push_back(Event::Written { io, result: Ok(()) }),
                    Action::Flush { io } => self.events.push_back(Event::Flushed { io, result: Ok(()) }),
                    Action::Reply { reply, .. } => {
                        assert!(matches!(reply, Reply::Done), "{reply:?}");
                        self.answered += 1;
                    }
                    Action::Wake { at } => {
                        self.wake_ns = at.0;
                        if at.0 <= self.now_ns {
                            self.events.push_back(Event::Tick);
                        }
                    }
                    Action::Discard { io, .. } => self.events.push_back(Event::Discarded { io, result: Ok(()) }),
                    // Superblocks that the engine wrote are not kept: a page of zeros is not a superblock.
                    Action::Read { io, mut buffer, class: Class::Superblock, .. } => {
                        buffer.bytes_mut().fill(0);
                        self.events.push_back(Event::Read { io, buffer, digests: Vec::new(), result: Ok(()) });
                    }
                    Action::Read { io, at, mut buffer, class, .. } => {
                        assert_eq!(class, Class::Written, "only pages that formatting wrote are ever read");
                        buffer.block_mut(0).copy_from_slice(&self.formatted.remove(&at.0).expect("each is read once")[..]);
                        self.events.push_back(Event::Read { io, buffer, digests: Vec::new(), result: Ok(()) });
                    }
                    Action::Remember(_) | Action::Forget { .. } | Action::Replayed | Action::Retry => {}
                    Action::Notice(Notice::Serving) => self.serving = true,
                    Action::Notice(notice) => assert!(!matches!(notice, Notice::Damage { .. }), "{notice:?}"),
                    Action::Digest { .. } | Action::Compress { .. } | Action::Closed { .. } => unreachable!("nobody asked for it"),
                }
            }
        }
        self.out = out;
    }

    fn request(&mut self, op: Op, lbn: u64, payload: Option<Payload>) {
        self.next += 1;
        self.now_ns += 1000;
        if self.wake_ns <= self.now_ns {
            self.wake_ns = u64::MAX;
            self.feed(Event::Tick);
        }
        let length = if payload.is_some() { BLOCK_BYTES } else { 0 };
        let id = RequestId(self.next);
        let (offset, length) = (Bytes(lbn * BLOCK_BYTES), Bytes(length));
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua: false, policies: Policies::default() }));
    }

    fn write(&mut self, lbn: u64, content: u64) {
        let payload = Payload { buffer: self.buffer.clone(), digests: vec![digest_of(content)] };
        self.request(Op::Write, lbn, Some(payload));
    }

    fn flush(&mut self) {
        self.request(Op::Flush, 0, None);
        while self.answered < self.next {
            // Sealing waits for further writes, but there are none.
            self.now_ns = self.now_ns.max(self.wake_ns);
            self.wake_ns = u64::MAX;
            self.feed(Event::Tick);
        }
    }
}

/// The rates of one case, in writes a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// The rates by processor time: the median round, the slowest, the fastest.
    pub median: f64,
    pub slowest: f64,
    pub fastest: f64,
    /// The rate by the wall clock, over all rounds.
    pub wall: f64,
    /// The device units for each write.
    pub units: f64,
}

/// Measures one case.
///
/// # Panics
/// Panics if a write fails, or the load was not as intended.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
pub fn measure(case: Case, seed: u64, rounds: usize, round_writes: u64) -> Rates {
    let mut rng = Rng::with_seed(seed);
    let mut machine = Instantly::open();
    let mut content = 0;
    for i in 0..POOL {
        machine.write(i, i + 1);
        content += 1;
    }
    machine.flush();
    let mut go = |machine: &mut Instantly, writes: u64| {
        for i in 1..=writes {
            content += 1;
            let name = if case.duplicates { 1 + rng.u64(0..POOL) } else { content };
            machine.write(rng.u64(0..RANGE_BLOCKS), name);
            if case.flush_every > 0 && i % case.flush_every == 0 {
                machine.flush();
            }
        }
    };
    go(&mut machine, WARM_UP.min(round_writes));
    let before = machine.engine.ledger().clone();
    let began = Instant::now();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let began = processor_time();
            go(&mut machine, round_writes);
            processor_time() - began
        })
        .collect();
    let wall = began.elapsed();
    machine.flush();
    let after = machine.engine.ledger();
    let (all, new) = (round_writes * rounds as u64, after.new_blocks - before.new_blocks);
    let known = after.duplicates + after.unchanged - before.duplicates - before.unchanged;
    assert_eq!(if case.duplicates { (0, all) } else { (all, 0) }, (new, known), "{}: blocks stored, blocks known", case.name);
    times.sort_unstable();
    let rate = |time: Duration| round_writes as f64 / time.as_secs_f64();
    Rates {
        median: rate(times[rounds / 2]),
        slowest: rate(times[rounds - 1]),
        fastest: rate(times[0]),
        wall: all as f64 / wall.as_secs_f64(),
        units: (after.device_units() - before.device_units()) as f64 / all as f64,
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).expect("time goes forward"), u32::try_from(time.tv_nsec).expect("less than a second"))
}

/// Runs `steps [engine-steps] [--json] [--seed N] [--only CASE] [--rounds N] [--writes N]`.
///
/// # Errors
/// Returns what was typed wrong.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let (mut json, mut seed, mut only, mut rounds, mut writes) = (false, 1, None, ROUNDS, ROUND_WRITES);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--json" => json = true,
            "--seed" => seed = number(word, words.next())?,
            "--only" => {
                only = Some(value()?.parse::<usize>().ok().filter(|i| *i < CASES.len()).ok_or("--only needs a number from 0 to 3")?)
            }
            "--rounds" => rounds = above_zero(word, words.next())?,
            "--writes" => writes = above_zero(word, words.next())?,
            "engine-steps" => {}
            other => return Err(format!("steps has no option {other}; it has --json, --seed N, --only CASE, --rounds N, --writes N")),
        }
    }
    let cases: Vec<Case> = CASES.into_iter().enumerate().filter(|(i, _)| only.is_none_or(|o| o == *i)).map(|(_, c)| c).collect();
    let rates: Vec<(Case, Rates)> = cases.into_iter().map(|case| (case, measure(case, seed, rounds, writes))).collect();
    let slowest = rates.iter().map(|(_, r)| r.median).fold(f64::INFINITY, f64::min);
    let mut figure = Figure::new("engine-steps", slowest.round(), "writes/s", Relation::AtLeast, TARGET);
    figure.seed = seed;
    figure.command = format!("cargo run --release -p onefold-sim -- steps --seed {seed}");
    let one = |(case, r): &(Case, Rates)| {
        serde_json::json!({ "case": case.name, "median": r.median.round(), "slowest": r.slowest.round(), "fastest": r.fastest.round(),
            "wall": r.wall.round(), "units_per_write": r.units })
    };
    figure.detail = serde_json::json!({ "rounds": rounds, "writes_a_round": writes, "cases": rates.iter().map(one).collect::<Vec<_>>() });
    if json {
        let _ = say(serde_json::to_string(&figure).map_err(|e| e.to_string())?);
    } else {
        let heads = format!(
            "  {:<30} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "writes a second", "median", "slowest", "fastest", "wall", "units/write"
        );
        let row = |(case, r): &(Case, Rates)| {
            format!("  {:<30} {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>12.4}", case.name, r.median, r.slowest, r.fastest, r.wall, r.units)
        };
        let lines = [figure.to_string(), heads].into_iter().chain(rates.iter().map(row));
        let _ = say(lines.collect::<Vec<_>>().join("\n"));
    }
    Ok(if figure.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_the_load_that_it_says() {
        for case in CASES {
            let rates = measure(case, 5, 1, 5000);
            assert!(rates.slowest > 0.0);
            // `measure` itself asserts that blocks are stored, or known, to the last one.
            assert_eq!(rates.units >= 1.0, !case.duplicates, "{}: {}", case.name, rates.units);
        }
    }
}
