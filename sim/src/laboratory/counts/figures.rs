//! The figures that are counts, by the names that `./dev bench --list` shows.

use crate::ground::figure::{Figure, Relation, say};
use crate::ground::words::number;
use crate::laboratory::counts::drive::{Outcome, Plan, run};
use crate::laboratory::counts::load::{Load, Random, Sequential, WritesEnd};
use crate::laboratory::counts::pace::Pace;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Class;
use onefold_engine::settings::Settings;
use onefold_engine::units::BLOCK_BYTES;
use std::process::ExitCode;

const MIB: u64 = 1 << 20;
/// The number of blocks of the range that random writes go to: 64 MiB.
const RANGE: usize = 16_384;
const WRITES: u64 = 16_384;
const FLUSH_EVERY: u64 = 32;

/// The scene that is run for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scene {
    mode: CommitMode,
    device_mib: u64,
    memory_mib: u64,
    /// The size to which each block compresses, in percent; 100 if none compresses.
    percent: u64,
    /// Whether the device supports writes with FUA.
    fua: bool,
    load: LoadKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadKind {
    /// Single blocks at random places among `range`, with a flush after every `flush_every` writes, and the given percentage of duplicates.
    Random { range: usize, writes: u64, flush_every: u64, duplicates_percent: u8 },
    /// The same with unique contents, until each block was overwritten four times.
    Overwritten { range: usize, flush_every: u64 },
    /// 1 GiB in sequence.
    Sequence,
}

/// The quantity that is counted.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// Device units for each unit of the client.
    Units,
    /// Device flushes for each flush of the client: those of the service only; all; or all and writes with FUA.
    ServedFlushes,
    Flushes,
    FlushesAndFua,
    /// Data units saved, less the duplicates.
    Saved,
}

impl Scene {
    const fn new(mode: CommitMode, load: LoadKind) -> Self {
        Self { mode, device_mib: 1024, memory_mib: 64, percent: 100, fua: false, load }
    }

    /// Makes a scene of 16,384 writes of 4 KiB at random places of 64 MiB, on 1 GiB.
    const fn random(mode: CommitMode, flush_every: u64, duplicates_percent: u8) -> Self {
        Self::new(mode, LoadKind::Random { range: RANGE, writes: WRITES, flush_every, duplicates_percent })
    }

    /// Makes a scene on 1.25 GiB: a volume of 1 GiB has no room for the sequence, its metadata and its reserve.
    const fn sequence(mode: CommitMode) -> Self {
        Self { device_mib: 1280, ..Self::new(mode, LoadKind::Sequence) }
    }

    const fn soft(self, percent: u64) -> Self {
        Self { percent, ..self }
    }

    const fn with_fua(self) -> Self {
        Self { fua: true, ..self }
    }
}

const ORDERED: CommitMode = CommitMode::Ordered;
const LOG: CommitMode = CommitMode::Log;
const TIGHT: Scene = Scene { device_mib: 80, ..Scene::new(ORDERED, LoadKind::Overwritten { range: RANGE, flush_every: FLUSH_EVERY }) };

/// A million synced writes at random places of 64 GiB, on 66 GiB.
const WIDE: Scene = Scene {
    device_mib: 66 << 10,
    ..Scene::new(LOG, LoadKind::Random { range: 64 << 18, writes: 1_000_000, flush_every: 1, duplicates_percent: 0 }).soft(75)
};

/// The figures: what is run, what is counted, and the target.
const FIGURES: [(&str, Scene, Count, f64); 24] = [
    ("random-unique", Scene::random(ORDERED, FLUSH_EVERY, 0), Count::Units, 1.6),
    ("random-flushes", Scene::random(ORDERED, FLUSH_EVERY, 0), Count::ServedFlushes, 2.0),
    ("random-tight", TIGHT, Count::Units, 1.65),
    ("half-duplicates", Scene::random(ORDERED, FLUSH_EVERY, 50), Count::Saved, 0.0),
    ("sequential", Scene::sequence(ORDERED), Count::Units, 1.01),
    ("log-single", Scene::random(LOG, 1, 0), Count::Units, 2.02),
    ("log-single-flushes", Scene::random(LOG, 1, 0), Count::Flushes, 1.01),
    ("log-batch", Scene::random(LOG, 32, 0), Count::Units, 1.05),
    ("log-batch-flushes", Scene::random(LOG, 32, 0), Count::Flushes, 1.05),
    ("log-half-duplicates", Scene::random(LOG, 32, 50), Count::Saved, 0.0),
    ("log-sequential", Scene::sequence(LOG), Count::Units, 1.01),
    ("carried-single", Scene::random(LOG, 1, 0).soft(75), Count::Units, 1.02),
    ("carried-single-flushes", Scene::random(LOG, 1, 0).soft(75), Count::Flushes, 1.01),
    ("carried-single-fua", Scene::random(LOG, 1, 0).soft(75).with_fua(), Count::Units, 1.02),
    ("carried-single-fua-flushes", Scene::random(LOG, 1, 0).soft(75).with_fua(), Count::FlushesAndFua, 1.01),
    ("carried-batch", Scene::random(LOG, 32, 0).soft(75), Count::Units, 1.01),
    ("carried-batch-flushes", Scene::random(LOG, 32, 0).soft(75), Count::Flushes, 1.05),
    ("packed-four", Scene::random(LOG, 4, 0).soft(40), Count::Units, 0.53),
    ("packed-four-flushes", Scene::random(LOG, 4, 0).soft(40), Count::Flushes, 1.02),
    ("packed-batch", Scene::random(LOG, 32, 0).soft(40), Count::Units, 0.53),
    ("packed-batch-flushes", Scene::random(LOG, 32, 0).soft(40), Count::Flushes, 1.05),
    ("packed-sequential", Scene::sequence(LOG).soft(40), Count::Units, 0.52),
    ("carried-wide", WIDE, Count::Units, 1.08),
    ("carried-wide-16m", Scene { memory_mib: 16, ..WIDE }, Count::Units, 1.20),
];

fn play(scene: Scene, seed: u64, pace: Pace) -> Result<Outcome, String> {
    let load = match scene.load {
        LoadKind::Random { range, writes, flush_every, duplicates_percent } => {
            Load::Random(Random::new(seed, range, flush_every, duplicates_percent, WritesEnd::Writes(writes)))
        }
        LoadKind::Overwritten { range, flush_every } => Load::Random(Random::new(seed, range, flush_every, 0, WritesEnd::Overwritten(4))),
        LoadKind::Sequence => Load::Sequential(Sequential::new(1024 * MIB / BLOCK_BYTES, 32)),
    };
    let compressed = (scene.percent < 100).then(|| u16::try_from(BLOCK_BYTES * scene.percent / 100).expect("below a block"));
    let (commit_mode, memory_bytes) = (scene.mode, scene.memory_mib * MIB);
    let settings = Settings { commit_mode, memory_bytes, ..Settings::default() }.with_facts(|facts| facts.device_takes_fua = scene.fua);
    run(&Plan { device_bytes: scene.device_mib * MIB, settings, pace, compressed }, load)
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn figure(name: &'static str, what: Count, target: f64, o: &Outcome) -> Figure {
    match what {
        Count::Units => Figure::new(name, ratio(o.closed.units(), o.client_units), "units/unit", Relation::AtMost, target),
        Count::ServedFlushes => {
            let flushes = ratio(o.served.flushes - o.opened.flushes, o.client_flushes);
            Figure::new(name, flushes, "flushes/flush", Relation::Exactly, target)
        }
        Count::Flushes => Figure::new(name, ratio(o.closed.flushes, o.client_flushes), "flushes/flush", Relation::AtMost, target),
        Count::FlushesAndFua => {
            let both = o.closed.flushes + o.closed.fua_writes;
            Figure::new(name, ratio(both, o.client_flushes), "flushes/flush", Relation::AtMost, target)
        }
        Count::Saved => {
            let (data, duplicates) = (o.closed.units_of(Class::Data), o.load.duplicates());
            let saved = ratio(o.client_units, 1) - ratio(data, 1);
            Figure::new(name, saved - ratio(duplicates, 1), "units", Relation::Exactly, target)
        }
    }
}

/// A figure of each scene, by its name.
#[must_use]
pub fn scenes() -> Vec<&'static str> {
    let mut known = Vec::new();
    let is_new = |&(_, scene, ..): &(_, Scene, _, _)| {
        let is_new = !known.contains(&scene);
        known.push(scene);
        is_new
    };
    FIGURES.into_iter().filter(is_new).map(|(name, ..)| name).collect()
}

/// Measures a figure.
///
/// # Errors
/// Fails if the two accounts differ, or the medium is not as it should be at the end.
pub fn measure(name: &str, seed: u64, pace: Pace) -> Result<(Figure, Outcome), String> {
    let known = || FIGURES.map(|(n, ..)| n).join(", ");
    let &(name, scene, what, target) =
        FIGURES.iter().find(|(n, ..)| *n == name).ok_or_else(|| format!("no figure is called {name}; there are {}", known()))?;
    let outcome = play(scene, seed, pace)?;
    if let Some(finding) = outcome.findings.first() {
        return Err(format!("{name}: check found {} things after a clean close, the first: {finding:?}", outcome.findings.len()));
    }
    let mut figure = figure(name, what, target, &outcome);
    figure.seed = seed;
    figure.command = format!("cargo run --release -p onefold-sim -- counts {name} --seed {seed} --pace {}", pace.model.name);
    figure.detail = detail(&outcome, pace);
    Ok((figure, outcome))
}

fn detail(o: &Outcome, pace: Pace) -> serde_json::Value {
    let class = |c: Class| {
        let (w, r) = (o.closed.written[c as usize], o.closed.read[c as usize]);
        let name = format!("{c:?}").to_lowercase();
        serde_json::json!({
            "class": name,
            "written_units": w.units,
            "write_commands": w.commands,
            "read_units": r.units,
            "read_commands": r.commands,
        })
    };
    serde_json::json!({
        "client_units": o.client_units,
        "client_flushes": o.client_flushes,
        "duplicates_drawn": o.load.duplicates(),
        "duplicates_found": o.ledger.duplicates + o.ledger.unchanged,
        "device_units": o.closed.units(),
        "device_flushes": {
            "opening": o.opened.flushes,
            "service": o.served.flushes - o.opened.flushes,
            "closing": o.closed.flushes - o.served.flushes,
        },
        "device_fua_writes": o.closed.fua_writes,
        "device_discards": o.closed.discards,
        "classes": Class::ALL.map(class),
        "epochs": { "wanted": o.ledger.epochs_wanted(), "timer": o.ledger.epochs_timer, "pressure": o.ledger.epochs_pressure },
        "reclaimed_blocks": o.ledger.reclaimed_blocks,
        "pace": pace.model.name,
        "virtual_seconds": ratio(o.served_ns / 1_000_000, 1000),
    })
}

fn table(o: &Outcome) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let mut line = |what: &str, units: u64, commands: u64, reads: u64| {
        let each = ratio(units, o.client_units);
        writeln!(text, "  {what:<14} {units:>9} {commands:>10} {each:>12.4} {reads:>9}").expect("a string takes any text");
    };
    for class in Class::ALL {
        let (w, r) = (o.closed.written[class as usize], o.closed.read[class as usize]);
        line(&format!("{class:?}").to_lowercase(), w.units, w.commands, r.units);
    }
    let all = |f: fn(&crate::laboratory::counts::device::Count) -> u64| o.closed.written.iter().map(f).sum();
    line("all", o.closed.units(), all(|c| c.commands), o.closed.read.iter().map(|c| c.units).sum());
    let (open, serve, close) = (o.opened.flushes, o.served.flushes - o.opened.flushes, o.closed.flushes - o.served.flushes);
    let l = &o.ledger;
    format!(
        "  {:<14} {:>9} {:>10} {:>12} {:>9}\n{text}  {} client units, {} client flushes, {:.1} s of virtual time; device flushes: {open} \
         to open, {serve} in service, {close} to close; {} writes with FUA\n  epochs: {} by flushes, {} by the timer, {} by pressure; {} \
         duplicates drawn, {} found; {} blocks reclaimed; {} discards\n",
        "class",
        "units",
        "commands",
        "per unit",
        "read",
        o.client_units,
        o.client_flushes,
        ratio(o.served_ns / 1_000_000, 1000),
        o.closed.fua_writes,
        l.epochs_wanted(),
        l.epochs_timer,
        l.epochs_pressure,
        o.load.duplicates(),
        l.duplicates + l.unchanged,
        l.reclaimed_blocks,
        o.closed.discards,
    )
}

/// Runs `counts [NAME ...] [--json] [--seed N] [--pace NAME]`.
///
/// # Errors
/// Returns what was typed wrong, or what the run found.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let (mut names, mut json, mut seed, mut pace) = (Vec::new(), false, 1, Pace::all()[0]);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--json" => json = true,
            "--seed" => seed = number(word, words.next())?,
            "--pace" => {
                let name = value()?;
                let known = || Pace::all().iter().map(|p| p.model.name).collect::<Vec<_>>().join(", ");
                pace = Pace::named(name).ok_or_else(|| format!("--pace {name}: there are {}", known()))?;
            }
            option if option.starts_with('-') => {
                return Err(format!("counts has no option {option}; it has --json, --seed N, --pace NAME"));
            }
            name => names.push(name),
        }
    }
    if names.is_empty() {
        names = FIGURES.map(|(name, ..)| name).to_vec();
    }
    let mut all_hold = true;
    for name in names {
        let (figure, outcome) = measure(name, seed, pace)?;
        all_hold &= figure.holds;
        let text = if json { serde_json::to_string(&figure).map_err(|e| e.to_string())? } else { format!("{figure}\n{}", table(&outcome)) };
        if !say(text) {
            break;
        }
    }
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_in_the_list_with_its_target() {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/bench/list.tsv");
        let list = std::fs::read_to_string(list).expect("the list of benchmarks is there");
        for (name, _, _, target) in FIGURES {
            let row = list.lines().find(|line| line.split('\t').next() == Some(name)).unwrap_or_else(|| panic!("{name} is not in it"));
            let listed: f64 = row.split('\t').nth(3).and_then(|target| target.parse().ok()).expect("it has a target");
            assert!((listed - target).abs() < 1e-9, "{name} wants {target}, the list says {listed}");
        }
    }
}
