//! The figures that are counts, by name, as `./dev bench --list` has them.

use crate::counts::drive::{Outcome, Plan, run};
use crate::counts::load::{End, Load, Random, Sequential};
use crate::counts::pace::Pace;
use crate::figure::{Figure, Relation};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Class;
use onefold_engine::settings::Settings;
use std::process::ExitCode;

const MIB: u64 = 1 << 20;
/// Blocks of the range that random writes go to: 64 MiB.
const RANGE: usize = 16_384;
const WRITES: u64 = 16_384;
const FLUSH_EVERY: u64 = 32;

/// What is run for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// 1 GiB, 16,384 writes.
    Roomy { duplicates_percent: u8 },
    /// The same over the log, with plain units only, and a flush every so many writes.
    Logged { flush_every: u64, duplicates_percent: u8 },
    /// 1 GiB in sequence over the log.
    LoggedSequence,
    /// 80 MiB, until each block was overwritten four times.
    Tight,
    /// 1 GiB in sequence, on 1.25 GiB: a volume of 1 GiB has no room for it, its metadata and its reserve.
    Sequence,
}

/// (name, scene) of every figure.
const FIGURES: [(&str, Scene); 11] = [
    ("random-unique", Scene::Roomy { duplicates_percent: 0 }),
    ("random-flushes", Scene::Roomy { duplicates_percent: 0 }),
    ("random-tight", Scene::Tight),
    ("half-duplicates", Scene::Roomy { duplicates_percent: 50 }),
    ("sequential", Scene::Sequence),
    ("log-single", Scene::Logged { flush_every: 1, duplicates_percent: 0 }),
    ("log-single-flushes", Scene::Logged { flush_every: 1, duplicates_percent: 0 }),
    ("log-batch", Scene::Logged { flush_every: 32, duplicates_percent: 0 }),
    ("log-batch-flushes", Scene::Logged { flush_every: 32, duplicates_percent: 0 }),
    ("log-half-duplicates", Scene::Logged { flush_every: 32, duplicates_percent: 50 }),
    ("log-sequential", Scene::LoggedSequence),
];

fn play(scene: Scene, seed: u64, pace: Pace) -> Result<Outcome, String> {
    let (mib, load) = match scene {
        Scene::Roomy { duplicates_percent } => {
            (1024, Load::Random(Random::new(seed, RANGE, FLUSH_EVERY, duplicates_percent, End::Writes(WRITES))))
        }
        Scene::Logged { flush_every, duplicates_percent } => {
            (1024, Load::Random(Random::new(seed, RANGE, flush_every, duplicates_percent, End::Writes(WRITES))))
        }
        Scene::Tight => (80, Load::Random(Random::new(seed, RANGE, FLUSH_EVERY, 0, End::Overwritten(4)))),
        Scene::Sequence | Scene::LoggedSequence => (1280, Load::Sequential(Sequential::new(1024 * MIB / 4096, 32))),
    };
    let in_log = matches!(scene, Scene::Logged { .. } | Scene::LoggedSequence);
    let commit_mode = if in_log { CommitMode::Log } else { CommitMode::Ordered };
    run(&Plan { device_bytes: mib * MIB, settings: Settings { commit_mode, ..Settings::default() }, pace }, load)
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn figure(name: &'static str, o: &Outcome) -> Figure {
    let units = ratio(o.closed.units(), o.client_units);
    let flushes = ratio(o.served.flushes - o.opened.flushes, o.client_flushes);
    let all_flushes = ratio(o.closed.flushes, o.client_flushes);
    match name {
        "random-unique" => Figure::new(name, units, "units/unit", Relation::AtMost, 1.6),
        "random-flushes" => Figure::new(name, flushes, "flushes/flush", Relation::Exactly, 2.0),
        "log-single" => Figure::new(name, units, "units/unit", Relation::AtMost, 2.02),
        "log-single-flushes" => Figure::new(name, all_flushes, "flushes/flush", Relation::AtMost, 1.01),
        "log-batch" => Figure::new(name, units, "units/unit", Relation::AtMost, 1.05),
        "log-batch-flushes" => Figure::new(name, all_flushes, "flushes/flush", Relation::AtMost, 1.05),
        "random-tight" => Figure::new(name, units, "units/unit", Relation::AtMost, 1.65),
        "half-duplicates" | "log-half-duplicates" => {
            let (data, duplicates) = (o.closed.units_of(Class::Data), o.load.duplicates());
            let saved = ratio(o.client_units, 1) - ratio(data, 1);
            Figure::new(name, saved - ratio(duplicates, 1), "units", Relation::Exactly, 0.0)
        }
        "sequential" | "log-sequential" => Figure::new(name, units, "units/unit", Relation::AtMost, 1.01),
        _ => unreachable!("every name of the table has a figure"),
    }
}

/// Measures a figure.
///
/// # Errors
/// When the two accounts differ, or the medium is not as it should be in the end.
pub fn measure(name: &str, seed: u64, pace: Pace) -> Result<(Figure, Outcome), String> {
    let known = || FIGURES.map(|(n, _)| n).join(", ");
    let &(name, scene) =
        FIGURES.iter().find(|(n, _)| *n == name).ok_or_else(|| format!("no figure is called {name}; there are {}", known()))?;
    let outcome = play(scene, seed, pace)?;
    if let Some(finding) = outcome.findings.first() {
        return Err(format!("{name}: check found {} things after a clean close, the first: {finding:?}", outcome.findings.len()));
    }
    let mut figure = figure(name, &outcome);
    figure.seed = seed;
    figure.command = format!("cargo run --release -p onefold-sim -- counts {name} --seed {seed} --pace {}", pace.model.name);
    figure.detail = detail(&outcome, pace);
    Ok((figure, outcome))
}

fn detail(o: &Outcome, pace: Pace) -> serde_json::Value {
    let class = |c: Class| {
        let (w, r) = (o.closed.written[c as usize], o.closed.read[c as usize]);
        let name = format!("{c:?}").to_lowercase();
        serde_json::json!({ "class": name, "written_units": w.units, "write_commands": w.commands, "read_units": r.units, "read_commands": r.commands })
    };
    serde_json::json!({
        "client_units": o.client_units,
        "client_flushes": o.client_flushes,
        "duplicates_drawn": o.load.duplicates(),
        "duplicates_found": o.ledger.duplicates + o.ledger.unchanged,
        "device_units": o.closed.units(),
        "device_flushes": { "opening": o.opened.flushes, "service": o.served.flushes - o.opened.flushes, "closing": o.closed.flushes - o.served.flushes },
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
    let all = |f: fn(&crate::counts::device::Count) -> u64| o.closed.written.iter().map(f).sum();
    line("all", o.closed.units(), all(|c| c.commands), o.closed.read.iter().map(|c| c.units).sum());
    let (open, serve, close) = (o.opened.flushes, o.served.flushes - o.opened.flushes, o.closed.flushes - o.served.flushes);
    let l = &o.ledger;
    format!(
        "  {:<14} {:>9} {:>10} {:>12} {:>9}\n{text}  {} client units, {} client flushes, {:.1} s of virtual time; device flushes: {open} to open, {serve} \
         in service, {close} to close\n  epochs: {} by flushes, {} by the timer, {} by pressure; {} duplicates drawn, {} found; {} blocks reclaimed; {} \
         discards\n",
        "class",
        "units",
        "commands",
        "per unit",
        "read",
        o.client_units,
        o.client_flushes,
        ratio(o.served_ns / 1_000_000, 1000),
        l.epochs_wanted(),
        l.epochs_timer,
        l.epochs_pressure,
        o.load.duplicates(),
        l.duplicates + l.unchanged,
        l.reclaimed_blocks,
        o.closed.discards,
    )
}

/// `counts [NAME ...] [--json] [--seed N] [--pace NAME]`.
///
/// # Errors
/// What was typed wrong, or what the run found.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let (mut names, mut json, mut seed, mut pace) = (Vec::new(), false, 1, Pace::all()[0]);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        match word.as_str() {
            "--json" => json = true,
            "--seed" => seed = value()?.parse().map_err(|_| "--seed wants a number".to_owned())?,
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
        names = FIGURES.map(|(name, _)| name).to_vec();
    }
    let mut all_hold = true;
    for name in names {
        let (figure, outcome) = measure(name, seed, pace)?;
        all_hold &= figure.holds;
        if json {
            println!("{}", serde_json::to_string(&figure).map_err(|e| e.to_string())?);
        } else {
            println!("{figure}\n{}", table(&outcome));
        }
    }
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
