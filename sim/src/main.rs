//! The test kit's own command: `crash`, `counts`, `steps`, `mutants`.

use onefold_sim::explore::Explorer;
use onefold_sim::record;
use onefold_sim::states::Coverage;
use onefold_sim::violation::Violation;
use onefold_sim::watchdog;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Args {
    seed: u64,
    only: Option<u64>,
    minutes: f64,
    threads: usize,
    lines: usize,
    all: bool,
}

fn arguments() -> Args {
    let mut args = Args { seed: 1, only: None, minutes: 1.0, threads: 2, lines: 80, all: false };
    let mut words = std::env::args().skip(2);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|v| v.parse::<f64>().ok()).unwrap_or_else(|| panic!("{word} wants a number"));
        match word.as_str() {
            "--seed" => args.seed = value() as u64,
            "--only" => args.only = Some(value() as u64),
            "--minutes" => args.minutes = value(),
            "--threads" => args.threads = value() as usize,
            "--lines" => args.lines = value() as usize,
            "--all" => args.all = true,
            _ => panic!("unknown option {word}"),
        }
    }
    args
}

fn seed_of(seed: u64, run: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ run.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 29
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let figures = match std::env::args().nth(1).as_deref() {
        Some("counts") => onefold_sim::counts::figures::command(&words),
        Some("steps") => onefold_sim::steps::command(&words),
        _ => return crash(),
    };
    figures.unwrap_or_else(|error| {
        eprintln!("onefold-sim: {error}");
        ExitCode::from(2)
    })
}

fn crash() -> ExitCode {
    let args = arguments();
    if let Some(run) = args.only {
        return replay(&args, run);
    }
    let seed = args.seed;
    watchdog::watch(move |run| {
        println!("VIOLATION: a step never ends, in run {run} of seed {seed}");
        println!("again: cargo run --release -p onefold-sim -- crash --seed {seed} --only {run}");
        std::process::exit(1);
    });
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let found: Mutex<Vec<(u64, Violation)>> = Mutex::new(Vec::new());
    let coverage = Mutex::new(Coverage::default());
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    std::thread::scope(|scope| {
        for number in 0..args.threads {
            let (args, stop, next, found, coverage) = (&args, &stop, &next, &found, &coverage);
            scope.spawn(move || {
                let mut explorer = Explorer::new().expect("the volumes can be prepared");
                while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    let began = Instant::now();
                    watchdog::begin(number, run);
                    if let Err(violation) = explorer.run(seed_of(args.seed, run)) {
                        found.lock().expect("no panic").push((run, violation));
                        if !args.all {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    watchdog::end();
                    if began.elapsed() > Duration::from_secs(20) {
                        eprintln!("run {run} took {:?}", began.elapsed());
                    }
                }
                coverage.lock().expect("no panic").add(explorer.coverage);
            });
        }
    });
    let coverage = coverage.into_inner().expect("no panic");
    println!("{}", coverage.table());
    println!(
        "seed {}: {} runs, {} states opened, {} distinct, {} device events, {} of them under the set checker",
        args.seed,
        coverage.runs,
        coverage.opened,
        coverage.distinct(),
        coverage.device_events,
        coverage.checked_events
    );
    let mut found = found.into_inner().expect("no panic");
    found.sort_by_key(|(run, _)| *run);
    let mut kinds: Vec<(String, Vec<u64>)> = Vec::new();
    for (run, violation) in &found {
        let kind: String = violation.0.chars().filter(|c| !c.is_ascii_digit()).take(50).collect();
        match kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, runs)) => runs.push(*run),
            None => {
                println!("VIOLATION in run {run}: {violation}");
                kinds.push((kind, vec![*run]));
            }
        }
    }
    for (kind, runs) in &kinds {
        println!("{:6} × {kind}: runs {:?}", runs.len(), &runs[..runs.len().min(6)]);
    }
    match found.first() {
        None => ExitCode::SUCCESS,
        Some((run, _)) if !args.all => replay(&args, *run),
        Some(_) => ExitCode::FAILURE,
    }
}

fn replay(args: &Args, run: u64) -> ExitCode {
    let mut explorer = Explorer::new().expect("the volumes can be prepared");
    record::begin();
    let shown = args.lines;
    watchdog::watch(move |run| {
        let lines = record::end();
        lines.iter().skip(lines.len().saturating_sub(shown)).for_each(|line| println!("{line}"));
        println!("VIOLATION: a step never ends, in run {run}");
        std::process::exit(1);
    });
    watchdog::begin(0, run);
    let result = explorer.run(seed_of(args.seed, run));
    let lines = record::end();
    if let Some(options) = lines.first() {
        println!("{options}");
    }
    let from = lines.len().saturating_sub(args.lines).max(1);
    if from > 1 {
        println!("... {} lines before", from - 1);
    }
    lines.iter().skip(from).for_each(|line| println!("{line}"));
    match result {
        Ok(()) => {
            println!("run {run} of seed {} found nothing", args.seed);
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("VIOLATION: {violation}");
            println!("again: cargo run --release -p onefold-sim -- crash --seed {} --only {run}", args.seed);
            ExitCode::FAILURE
        }
    }
}
