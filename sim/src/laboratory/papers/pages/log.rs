//! The limits of the log's flushes and units by the size of its epochs, and of their distance from the bound (issue 6, "Done when" 2 and
//! 3).

use crate::laboratory::papers::pages::target::{COUNTED_ON, Source, Target};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::workloads::{MODELS, of_trace};
use crate::laboratory::replay::figures::Figures;
use crate::laboratory::replay::scheme::Scheme;
use crate::machine::account::LogEpochs;

/// The largest number of device flushes for each epoch of up to 64 new blocks, and for each larger one.
const FLUSHES_MAX: (f64, f64) = (1.05, 2.0);
/// The largest share of the client's units that metadata may take beside the units of epochs.
const METADATA_MAX: f64 = 0.01;
/// The largest excess of `packed` over the bound if the trace has true sizes.
const ABOVE_BOUND: f64 = 0.03;
/// The modes that the targets are judged in.
pub const MODES: [Mode; 2] = [Mode::Weak, Mode::Strong];

/// A replay of a scheme with a log.
pub struct LogReplay<'a> {
    pub trace: String,
    pub scheme: Scheme,
    pub figures: &'a Figures,
    pub epochs: LogEpochs,
}

/// Converts a count to a float.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
pub const fn float(n: u64) -> f64 {
    n as f64
}

impl LogReplay<'_> {
    /// Returns the number of device flushes that the epochs allow for.
    #[must_use]
    pub fn flushes_max(&self) -> f64 {
        let (small, large) = self.epochs.small_and_large();
        float(small) * FLUSHES_MAX.0 + float(large) * FLUSHES_MAX.1
    }

    /// Returns the units of metadata that the epochs and the client's units allow for; none if this scheme has no such target.
    #[must_use]
    pub fn metadata_max(&self) -> Option<f64> {
        let (small, large) = self.epochs.small_and_large();
        let epochs = match self.scheme {
            Scheme::Log => small + large,
            Scheme::Carried => self.epochs.bare.epochs + large,
            _ => return None,
        };
        Some(float(epochs) + METADATA_MAX * float(self.figures.client_units))
    }

    /// Returns the trace and the scheme.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}, {}", self.trace, self.scheme.name())
    }
}

/// Lists all replays on a model, in the order of the traces.
#[must_use]
pub fn runs<'a>(results: &'a Results, mode: Mode, model: &str) -> Vec<LogReplay<'a>> {
    let of = |trace: &str, scheme| {
        let figures = &results.of(trace, scheme, mode, model)?.report.measured;
        Some(LogReplay { trace: trace.to_owned(), scheme, figures, epochs: figures.log_epochs? })
    };
    let traces = results.traces();
    traces.iter().flat_map(|trace| Scheme::LOGS.into_iter().filter_map(move |scheme| of(trace, scheme))).collect()
}

/// Compares measured values with allowed ones: reports the run that is closest to its limit or exceeds it most, and all that exceed it.
fn judge_all(name: String, target: String, runs: &[(String, f64, f64)]) -> Option<Target> {
    let share = |&(_, measured, allowed): &(String, f64, f64)| measured / allowed.max(1.0);
    let worst = runs.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let beyond: Vec<String> = runs
        .iter()
        .filter(|run| share(run) > 1.0)
        .map(|(run, measured, allowed)| format!("{run}: {measured:.0} of {allowed:.0}"))
        .collect();
    let because = if beyond.is_empty() {
        format!("closest of {}: {}, {:.0} of {:.0}", runs.len(), worst.0, worst.1, worst.2)
    } else {
        format!("{} of {}: {}", beyond.len(), runs.len(), beyond.join("; "))
    };
    let (source, unit) = (Source::Ours, "of the allowed amount");
    Some(Target { name, source, value: share(worst), unit, target, holds: beyond.is_empty(), because })
}

/// Returns the targets of the log.
#[must_use]
pub fn targets(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for mode in MODES {
        let runs: Vec<LogReplay> = runs(results, mode, COUNTED_ON).into_iter().filter(|run| of_trace(&run.trace).is_some()).collect();
        let flushes: Vec<_> = runs.iter().map(|run| (run.name(), float(run.figures.device_flushes), run.flushes_max())).collect();
        let wanted = format!("<= 1: {} for each epoch of up to 64 new blocks, {} for larger ones", FLUSHES_MAX.0, FLUSHES_MAX.1);
        targets.extend(judge_all(format!("log-flushes-{}", mode.id()), wanted, &flushes));
        let idle: u64 = runs.iter().map(|run| run.figures.idle_device_flushes).sum();
        if !runs.is_empty() {
            targets.push(Target {
                name: format!("log-idle-flushes-{}", mode.id()),
                source: Source::Ours,
                value: float(idle),
                unit: "device flushes",
                target: "== 0 for flushes with nothing to commit".to_owned(),
                holds: idle == 0,
                because: format!("{} such flushes in {} replays", runs.iter().map(|run| run.figures.idle_flushes).sum::<u64>(), runs.len()),
            });
        }
        for (scheme, of) in [(Scheme::Log, "epoch"), (Scheme::Carried, "epoch in which nothing could ride")] {
            let of_scheme = runs.iter().filter(|run| run.scheme == scheme);
            let metadata: Vec<_> =
                of_scheme.filter_map(|run| Some((run.trace.clone(), float(run.figures.metadata_units_all), run.metadata_max()?))).collect();
            let wanted = format!("<= 1: a unit for each {of}, and {} of the client's units", METADATA_MAX);
            targets.extend(judge_all(format!("log-metadata-{}-{}", scheme.name(), mode.id()), wanted, &metadata));
        }
    }
    // Under strong persistence the device decides how many writes share one epoch.
    let judged = [(Mode::Weak, &MODELS[..1]), (Mode::Strong, &MODELS[..])];
    for (mode, model) in judged.iter().flat_map(|(mode, models)| models.iter().map(|model| (*mode, *model))) {
        let recorded = runs(results, mode, model).into_iter().filter(|run| of_trace(&run.trace).is_none());
        targets.extend(recorded.filter(|run| run.scheme == Scheme::Packed).map(|run| near_bound(&run, mode, model)));
    }
    targets
}

/// Judges the distance of `packed` from the bound for a trace with true sizes.
fn near_bound(run: &LogReplay, mode: Mode, model: &str) -> Target {
    let f = run.figures;
    let most = f.bound + ABOVE_BOUND;
    let e = run.epochs;
    Target {
        name: format!("packed-{}-{}-{model}", mode.id(), run.trace),
        source: Source::Ours,
        value: f.write_ratio,
        unit: "units/unit",
        target: format!("<= {most:.4} (the bound, {:.4}, and {ABOVE_BOUND}), < 1", f.bound),
        holds: f.write_ratio <= most && f.write_ratio < 1.0,
        because: format!(
            "{} client units; bound: {} epochs; here {} with something that could ride, {} without, {} large; {} plain units, {} carriers \
             of {} blocks, {} packs of {} blocks, {} units of other metadata",
            f.client_units,
            f.bound_epochs,
            e.riding.epochs,
            e.bare.epochs,
            e.large.epochs,
            e.plain(),
            e.carriers(),
            e.riding.riders + e.bare.riders,
            e.packs,
            e.packed_blocks,
            f.metadata_units_all.saturating_sub(e.plain()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_exceeds_most_is_reported_with_all_that_exceed() {
        let run = |name: &str, measured, allowed| (name.to_owned(), measured, allowed);
        let some = [run("a", 90.0, 100.0), run("b", 21.0, 20.0), run("c", 150.0, 100.0)];
        let target = judge_all("t".to_owned(), "<= 1".to_owned(), &some).expect("there are runs");
        assert!(!target.holds && (target.value - 1.5).abs() < 1e-9);
        assert_eq!(target.because, "2 of 3: b: 21 of 20; c: 150 of 100");
        let held = judge_all("t".to_owned(), "<= 1".to_owned(), &some[..1]).expect("there is one");
        assert!(held.holds && held.because.contains("90 of 100"), "{}", held.because);
        assert_eq!(judge_all("t".to_owned(), String::new(), &[]), None);
    }
}
