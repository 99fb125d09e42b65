//! The jobs, each a figure of `docs/plan.md`.

use crate::device::{Counts, by_class, metadata};
use crate::machine::Machine;
use fastrand::Rng;
use onefold_engine::interface::Class;
use onefold_engine::settings::Settings;
use onefold_engine::units::{count, index};

pub const NAMES: &[&str] = &["random-unique", "random-flushes", "random-tight", "half-duplicates", "sequential", "engine-steps"];

/// Blocks of the range that the random jobs write to: 64 MiB.
const RANGE: u64 = 16_384;
const WRITES: u64 = 16_384;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Writes between two flushes.
const FLUSH_EVERY: u64 = 32;
/// Time between two writes, in nanoseconds: ten thousand a second.
const GAP: u64 = 100_000;

pub fn run(name: &str, seed: u64) -> Option<String> {
    Some(match name {
        "random-unique" => {
            let run = random(GIB, WRITES, seed, 0);
            report(ratio(run.counts.total(), run.writes), &run)
        }
        "random-flushes" => {
            let run = random(GIB, WRITES, seed, 0);
            report(ratio(run.flushes_until_close, run.flushes), &run)
        }
        "random-tight" => {
            let run = tight(seed);
            report(ratio(run.counts.total(), run.writes), &run)
        }
        "half-duplicates" => {
            let run = random(GIB, WRITES, seed, 128);
            let data = run.counts.units[Class::Data as usize];
            // Wanted: data units = client units less duplicates.
            report(data.abs_diff(run.writes - run.duplicates).to_string(), &run)
        }
        "sequential" => {
            let run = sequential();
            report(ratio(run.counts.total(), run.writes), &run)
        }
        "engine-steps" => steps(seed),
        _ => return None,
    })
}

/// What a job did.
struct Run {
    counts: Counts,
    writes: u64,
    flushes: u64,
    /// Device flushes before the close.
    flushes_until_close: u64,
    duplicates: u64,
}

fn ratio(a: u64, b: u64) -> String {
    format!("{:.4}", a as f64 / b as f64)
}

fn report(value: impl std::fmt::Display, run: &Run) -> String {
    format!(
        "{{\"value\": {value}, \"client_units\": {}, \"duplicates\": {}, \"client_flushes\": {}, \"device_flushes\": {}, \
         \"metadata_units\": {}, \"units\": {}}}",
        run.writes,
        run.duplicates,
        run.flushes,
        run.flushes_until_close,
        metadata(&run.counts),
        by_class(&run.counts)
    )
}

/// A client that writes single blocks at random places of the range and flushes now and then.
struct Client {
    machine: Machine,
    rng: Rng,
    /// The content of each block of the range.
    held: Vec<u64>,
    /// The blocks that hold any.
    written: Vec<usize>,
    name: u64,
    /// Of 256 writes, so many repeat a content that some other block of the range holds.
    duplicate: u8,
    run: Run,
}

impl Client {
    fn new(volume_bytes: u64, seed: u64, duplicate: u8) -> Self {
        let machine = Machine::new(volume_bytes, Settings::default());
        let run = Run { counts: machine.counts(), writes: 0, flushes: 0, flushes_until_close: 0, duplicates: 0 };
        Self { machine, rng: Rng::with_seed(seed), held: vec![0; index(RANGE)], written: Vec::new(), name: 0, duplicate, run }
    }

    /// Writes one block; says which.
    fn write(&mut self) -> usize {
        let lbn = self.rng.usize(..self.held.len());
        let repeats = self.rng.u8(..) < self.duplicate && !self.written.is_empty();
        let name = if repeats {
            // Where the block holds that content already, nothing is stored either.
            self.run.duplicates += 1;
            self.held[self.written[self.rng.usize(..self.written.len())]]
        } else {
            self.name += 1;
            self.name
        };
        if self.held[lbn] == 0 {
            self.written.push(lbn);
        }
        self.held[lbn] = name;
        self.machine.write(count(lbn), &[name]);
        self.machine.pass(GAP);
        self.run.writes += 1;
        if self.run.writes % FLUSH_EVERY == 0 {
            self.machine.flush();
            self.run.flushes += 1;
        }
        lbn
    }

    fn finish(mut self) -> Run {
        let before = self.run.counts;
        self.run.flushes_until_close = self.machine.counts().since(&before).flushes;
        self.machine.finish();
        self.run.counts = self.machine.counts().since(&before);
        self.run
    }
}

fn random(volume_bytes: u64, writes: u64, seed: u64, duplicate: u8) -> Run {
    let mut client = Client::new(volume_bytes, seed, duplicate);
    (0..writes).for_each(|_| {
        client.write();
    });
    client.finish()
}

/// On 80 MiB, until each block of the range was written once and overwritten four times.
fn tight(seed: u64) -> Run {
    let mut client = Client::new(80 * MIB, seed, 0);
    let mut times = vec![0; index(RANGE)];
    let mut missing = times.len();
    while missing > 0 || client.run.writes % FLUSH_EVERY != 0 {
        let lbn = client.write();
        times[lbn] += 1;
        missing -= usize::from(times[lbn] == 5);
    }
    client.finish()
}

/// 1 GiB in writes of 128 KiB, one every 640 µs, and a flush.
fn sequential() -> Run {
    let mut machine = Machine::new(2 * GIB, Settings::default());
    let before = machine.counts();
    let blocks = GIB / 4096;
    for first in (0..blocks).step_by(32) {
        let names: Vec<u64> = (first + 1..=first + 32).collect();
        machine.write(first, &names);
        machine.pass(640_000);
    }
    machine.flush();
    let flushes_until_close = machine.counts().since(&before).flushes;
    machine.finish();
    Run { counts: machine.counts().since(&before), writes: blocks, flushes: 1, flushes_until_close, duplicates: 0 }
}

/// Seconds that this thread has had a processor: others may use the machine as well.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let nanoseconds: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number of nanoseconds");
    nanoseconds / 1e9
}

/// Single-block writes at random places of 1 GiB, one every 2 µs of simulated time, commits by the timer: writes a second of one processor.
fn steps(seed: u64) -> String {
    const STEPS: u64 = 2_000_000;
    let mut machine = Machine::new(2 * GIB, Settings::default());
    let mut rng = Rng::with_seed(seed);
    let blocks = GIB / 4096;
    let began = processor_seconds();
    for name in 1..=STEPS {
        machine.write(rng.u64(..blocks), &[name]);
        machine.pass(2_000);
    }
    let seconds = processor_seconds() - began;
    let units = machine.counts().total();
    format!("{{\"value\": {:.0}, \"writes\": {STEPS}, \"seconds\": {seconds:.3}, \"device_units\": {units}}}", STEPS as f64 / seconds)
}
