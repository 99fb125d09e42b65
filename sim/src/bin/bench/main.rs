//! The counting benchmarks: the real engine over a device that counts, in simulated time. `./dev bench` calls it and judges the value.
//!
//! ```text
//! bench NAME [--seed N]      prints one line of JSON: {"value": ..., and what it was made of}
//! ```
//!
//! 1. What is counted is what the *device* was asked for, not what the engine's own ledger says; the two are compared at the end.
//! 2. A run ends when nothing is left to write: the non-critical delay has passed and the volume was closed. What that cost is counted too.
//! 3. A unit is an aligned 4 KiB of the device that a command touched, each time.

mod device;
mod jobs;
mod machine;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, seed) = match words[..] {
        [name] => (name, Some(1)),
        [name, "--seed", seed] => (name, seed.parse().ok()),
        _ => ("", None),
    };
    let Some(seed) = seed else {
        eprintln!("usage: bench NAME [--seed N]; the names: {}", jobs::NAMES.join(", "));
        return ExitCode::from(2);
    };
    match jobs::run(name, seed) {
        Some(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("bench: there is no '{name}' here; the names: {}", jobs::NAMES.join(", "));
            ExitCode::from(2)
        }
    }
}
