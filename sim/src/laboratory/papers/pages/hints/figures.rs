//! The tables of Figures 3, 4 and 5: each load with the hint and without it.

use crate::laboratory::papers::drawing::html::{Table, number};
use crate::laboratory::papers::studies::hints::cases::{Commit, Hint, Load};
use crate::laboratory::papers::studies::hints::published::{CACHE_PERCENT, speed_up};
use crate::laboratory::papers::studies::hints::runs::{HintRun, SCHEMES, find};
use crate::laboratory::replay::scheme::Scheme;

/// A load with the hint and without it, all else equal.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub load: Load,
    pub model: &'static str,
    pub scheme: Scheme,
    pub commit: Commit,
    pub hint: Hint,
    pub percent: u64,
    pub off: &'a HintRun,
    pub on: &'a HintRun,
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

impl Pair<'_> {
    /// Returns how many times faster it is with the hint.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        self.off.virtual_seconds / self.on.virtual_seconds
    }

    /// Returns units written with the hint over those without.
    #[must_use]
    pub fn units(&self) -> Option<f64> {
        ratio(self.on.device_units, self.off.device_units)
    }

    /// Returns the look-ups on the medium for each block that the client writes.
    #[must_use]
    pub fn look_ups(run: &HintRun) -> Option<f64> {
        ratio(run.look_ups, run.client_units)
    }
}

/// Lists the pairs of a load on a model.
///
/// # Errors
/// Fails if one half of a pair was not replayed, or took no time.
pub fn pairs<'a>(runs: &'a [HintRun], load: Load, model: &'static str) -> Result<Vec<Pair<'a>>, String> {
    let mut pairs = Vec::new();
    for commit in [Commit::Thousand, Commit::Each].into_iter().filter(|&commit| load.figure() != 5 || commit == Commit::Thousand) {
        for hint in [Hint::Metadata, Hint::All].into_iter().filter(|&hint| load.figure() == 5 || hint == Hint::All) {
            for scheme in SCHEMES {
                for percent in CACHE_PERCENT {
                    let of = |hint| {
                        let run = find(runs, (load, model), scheme, commit, hint, percent).filter(|run| run.virtual_seconds > 0.0);
                        run.ok_or_else(|| {
                            format!(
                                "Figure {} has no subject: {}, {}, {model}, {}, hint {}, cache {percent} % was not replayed",
                                load.figure(),
                                load.duplicates(),
                                scheme.name(),
                                commit.name(),
                                hint.name()
                            )
                        })
                    };
                    pairs.push(Pair { load, model, scheme, commit, hint, percent, off: of(Hint::Off)?, on: of(hint)? });
                }
            }
        }
    }
    Ok(pairs)
}

/// Formats the table of a load on a model.
///
/// # Errors
/// Fails like [`pairs`].
pub fn table(runs: &[HintRun], load: Load, model: &'static str) -> Result<String, String> {
    let heads = [
        "scheme, flush of metadata, hint, cache",
        "seconds without",
        "seconds with",
        "times faster",
        "published, Ext4 and Nilfs2",
        "units written, with ÷ without",
        "written for a client unit, without",
        "with",
        "units read, with ÷ without",
        "look-ups on the medium for a client unit, without",
        "with",
        "with ÷ without",
    ];
    let pairs = pairs(runs, load, model)?;
    let Some(first) = pairs.first() else { return Err(format!("Figure {} has no runs", load.figure())) };
    let caption = format!(
        "Figure {}, {}: {} block writes (a dd of {}), model {model}",
        load.figure(),
        load.duplicates(),
        first.off.client_units,
        first.off.writes
    );
    let mut table = Table::new(caption, heads);
    for pair in &pairs {
        let Pair { off, on, .. } = pair;
        let published = speed_up(load, pair.commit, pair.hint);
        table.row([
            format!("{}, {}, {}, {} %", pair.scheme.name(), pair.commit.name(), pair.hint.name(), pair.percent),
            number(Some(off.virtual_seconds), 3),
            number(Some(on.virtual_seconds), 3),
            number(Some(pair.speed_up()), 2),
            published.map_or_else(|| "–".to_owned(), |(least, most, _)| format!("{least} to {most}")),
            number(pair.units(), 3),
            number(ratio(off.device_units, off.client_units), 3),
            number(ratio(on.device_units, on.client_units), 3),
            number(ratio(on.read_units, off.read_units), 3),
            number(Pair::look_ups(off), 3),
            number(Pair::look_ups(on), 3),
            number(ratio(on.look_ups, off.look_ups), 3),
        ]);
    }
    Ok(table.html())
}
