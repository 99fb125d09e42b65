//! The write amplification of uniform random writes: the value of the analysis, the model's, and the figure `flash-model` that compares
//! them.
//!
//! 1. The formula is Desnoyers' for LRU cleaning, the block that was filled first (*Analytic modeling of SSD write performance*, SYSTOR
//!    2012), and that of Xiang and Kurkoski (*An improved analytic expression for write amplification in NAND flash*, ICNC 2012), for many
//!    blocks.
//! 2. Of blocks with many pages all lose their pages alike, so that greedy cleaning takes the one that was filled first, too. Of blocks
//!    with few pages it finds emptier ones, and writes less than the formula says.

use super::aging::{Past, aged, amplification_of_random_overwrites};
use super::shape::{Cleaning, Shape};
use crate::ground::figure::{Figure, Relation, say};
use crate::ground::words::number;
use std::process::ExitCode;

/// The spare shares to compare, and the largest deviation, in per cent.
const SPARE: [f64; 3] = [0.10, 0.15, 0.30];
const DEVIATION_MAX: f64 = 2.0;
/// The policies and pages of a block to compare, and whether the formula is theirs.
const CASES: [(Cleaning, u32, bool); 4] =
    [(Cleaning::Fifo, 64, true), (Cleaning::Greedy, 1024, true), (Cleaning::Greedy, 256, false), (Cleaning::Greedy, 64, false)];
/// The logical pages: 4 GiB.
const PAGES: u64 = 1 << 20;

/// Returns α ÷ (α + W(−α e^−α)) with α = 1 + spare.
#[must_use]
pub fn amplification(spare: f64) -> f64 {
    let alpha = 1.0 + spare;
    let target = -alpha * (-alpha).exp();
    // The principal branch of Lambert's W is between -1 and 0 here, where w e^w rises with w.
    let (mut low, mut high) = (-1.0_f64, 0.0_f64);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if middle * middle.exp() < target { low = middle } else { high = middle }
    }
    alpha / (alpha + low)
}

/// Returns the model's write amplification of uniform random writes in the steady state, over twice the pages of the flash.
fn simulated(spare: f64, cleaning: Cleaning, block_pages: u32, pages: u64, seed: u64) -> Result<f64, String> {
    let shape = Shape { spare, cleaning, block_pages, planes: 1, ..Shape::new(pages * 4096) };
    let mut flash = aged(shape, &Past { seed, ..Past::default() })?;
    amplification_of_random_overwrites(&mut flash, 2 * pages, seed + 1)
}

/// Runs `flash flash-model [--json] [--seed N]`.
///
/// # Errors
/// Returns what was typed wrong.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let (mut json, mut seed) = (false, 1);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--seed" => seed = number(word, words.next())?,
            "flash-model" => {}
            other => return Err(format!("flash has no option {other}; it has --json, --seed N")),
        }
    }
    let (mut rows, mut worst) = (Vec::new(), 0.0_f64);
    for spare in SPARE {
        for (cleaning, block_pages, is_judged) in CASES {
            let (analytic, model) = (amplification(spare), simulated(spare, cleaning, block_pages, PAGES, seed)?);
            let deviation = 100.0 * (model / analytic - 1.0);
            worst = worst.max(if is_judged { deviation.abs() } else { 0.0 });
            rows.push((spare, cleaning.name(), block_pages, analytic, model, deviation, is_judged));
        }
    }
    let mut figure = Figure::new("flash-model", (worst * 1e4).round() / 1e4, "%", Relation::AtMost, DEVIATION_MAX);
    figure.seed = seed;
    figure.command = format!("cargo run --release -p onefold-sim -- flash flash-model --seed {seed}");
    let one = |&(spare, cleaning, block_pages, analytic, model, deviation, is_judged): &(f64, _, u32, f64, f64, f64, bool)| {
        serde_json::json!({ "spare": spare, "cleaning": cleaning, "block_pages": block_pages, "analytic": analytic, "model": model,
            "deviation_percent": deviation, "judged": is_judged })
    };
    figure.detail = serde_json::json!({ "pages": PAGES, "cases": rows.iter().map(one).collect::<Vec<_>>() });
    if json {
        let _ = say(serde_json::to_string(&figure).map_err(|e| e.to_string())?);
    } else {
        let heads =
            format!("  {:>6} {:<8} {:>12} {:>9} {:>9} {:>10}", "spare", "cleaning", "block pages", "analytic", "model", "deviation");
        let row = |&(spare, cleaning, block_pages, analytic, model, deviation, is_judged): &(f64, &str, u32, f64, f64, f64, bool)| {
            let judged = if is_judged { "" } else { "  (not judged)" };
            format!("  {spare:>6.2} {cleaning:<8} {block_pages:>12} {analytic:>9.4} {model:>9.4} {deviation:>8.2} %{judged}")
        };
        let lines = [figure.to_string(), heads].into_iter().chain(rows.iter().map(row));
        let _ = say(lines.collect::<Vec<_>>().join("\n"));
    }
    Ok(if figure.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_has_its_published_values() {
        for (spare, published) in [(0.10, 5.68), (0.15, 4.02), (0.30, 2.36)] {
            assert!((amplification(spare) - published).abs() < 0.005, "{spare}: {}", amplification(spare));
        }
    }

    #[test]
    fn the_model_agrees_with_the_formula() {
        for spare in SPARE {
            for (cleaning, block_pages) in [(Cleaning::Fifo, 64), (Cleaning::Greedy, 256)] {
                let (model, analytic) = (simulated(spare, cleaning, block_pages, 1 << 17, 1).expect("it can be"), amplification(spare));
                assert!((model / analytic - 1.0).abs() < 0.02, "{spare}, {cleaning:?}: {model} instead of {analytic}");
            }
        }
    }
}
