//! The figures that are counts, on seeds that the benchmarks do not use, and on devices of every pace.

use onefold_sim::laboratory::counts::figures::measure;
use onefold_sim::laboratory::counts::pace::Pace;

/// Measures a figure on every pace; each must hold.
fn holds(name: &str) {
    for (seed, pace) in (100..).zip(Pace::all()) {
        let (figure, _) = measure(name, seed, pace).unwrap_or_else(|error| panic!("{error}"));
        assert!(figure.holds, "{figure}, on {}", pace.model.name);
    }
}

#[test]
fn random_unique_writes_cost_what_they_may_and_two_flushes_a_flush() {
    holds("random-unique");
    holds("random-flushes");
}

#[test]
fn on_a_full_volume_they_cost_little_more() {
    let (figure, outcome) = measure("random-tight", 100, Pace::all()[0]).unwrap_or_else(|error| panic!("{error}"));
    assert!(figure.holds, "{figure}");
    assert!(outcome.ledger.reclaimed_blocks > 0, "the volume has to be full at some time, or this shows nothing");
}

#[test]
fn duplicates_are_not_written() {
    holds("half-duplicates");
    let (_, outcome) = measure("half-duplicates", 100, Pace::all()[0]).unwrap_or_else(|error| panic!("{error}"));
    let percent = outcome.load.duplicates() * 100 / outcome.client_units;
    assert!((48..=52).contains(&percent), "{percent} % duplicates were drawn");
}

#[test]
fn a_sequence_costs_next_to_nothing_beside_its_data() {
    holds("sequential");
}

#[test]
fn a_figure_that_nobody_knows_is_an_error() {
    assert!(measure("no-such-figure", 1, Pace::all()[0]).is_err_and(|e| e.contains("random-unique")));
}

#[test]
fn a_reader_that_goes_ends_the_command_quietly() {
    use std::process::{Command, Stdio};
    let mut command = Command::new(env!("CARGO_BIN_EXE_onefold-sim"));
    command.args(["counts", "half-duplicates", "half-duplicates"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the kit starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
