//! Using Hints' part of the tables that Onefold is judged by.

use super::figures::{Pair, pairs};
use crate::laboratory::papers::results::{Results, range};
use crate::laboratory::papers::studies::hints::cases::{Commit, Hint, Load};
use crate::laboratory::papers::studies::hints::published::{METADATA, TABLE_1, speed_up};
use crate::laboratory::papers::studies::hints::runs::{MODELS, find};
use crate::laboratory::papers::verdict::{Judged, Row, RowResult};
use crate::laboratory::replay::scheme::Scheme;
use std::collections::BTreeMap;

const PAPER: &str = "Using Hints (section 5)";
/// The goals: units over those of no deduplication, and look-ups on the medium for each block that is copied.
const UNITS_MAX: f64 = 1.007;
const LOOK_UPS_MAX: f64 = 0.125;
const OWN: [Scheme; 2] = [Scheme::OrderedAnticipate, Scheme::Packed];

/// Returns the rows.
#[must_use]
pub fn rows(results: &Results) -> Vec<Row> {
    let of = |published, goal, judged| Row::new(PAPER, published, goal, judged);
    vec![
        of(
            "the effect of each hint on Dmdedup's design: Figures 3, 4 and 5, flushed every 1,000 writes",
            "the rival is faster by as much as published: its model is sound",
            rival(results),
        ),
        of(
            "Figure 3: NODEDUP on a unique dd, 2.2 to 5.3 × faster; 1.3 to 1.6 × when flushed every write",
            "flushed every 1,000 writes: at most 1.007 × the units of no deduplication",
            units(results),
        ),
        of(
            "Figure 4: PREFETCH on a copy, 1.2 to 1.8 × faster; at 8:1 from 9 % slower to 55 % faster",
            "8:1, flushed every 1,000 writes: at most 1/8 look-up on the medium for each block",
            look_ups(results),
        ),
        of(
            "Figures 3, 4 and 5 with the hint: what is published for Dmdedup",
            "no slower than Dmdedup's design with the same hint, in each case",
            beside(results),
        ),
        of(
            "Table 1: metadata in 11.6 to 28.0 % of the writes, 57.6 to 98.5 % of them unique",
            "each of its file systems, each share between the paper's least and most",
            table_1(results),
        ),
    ]
}

fn not_replayed() -> Judged {
    ("the loads were not replayed".to_owned(), RowResult::NotMeasured)
}

/// All pairs of all loads on all models; none of those that lack something.
fn all(results: &Results) -> Vec<Pair<'_>> {
    let loads = Load::ALL.into_iter().flat_map(|load| MODELS.map(|model| (load, model)));
    loads.flat_map(|(load, model)| pairs(&results.hints, load, model).unwrap_or_default()).collect()
}

fn name(pair: &Pair<'_>) -> String {
    format!("Figure {}, {}, {}, hint {}", pair.load.figure(), pair.load.duplicates(), pair.commit.name(), pair.hint.name())
}

fn span((least, most): (f64, f64)) -> String {
    format!("{least:.2} to {most:.2}")
}

/// Judges whether the rival gains by the hints what the paper's Dmdedup gained.
fn rival(results: &Results) -> Judged {
    let mut pairs = all(results);
    pairs.retain(|pair| pair.scheme == Scheme::Shadow && pair.commit == Commit::Thousand && pair.model == MODELS[0]);
    let mut found = Vec::new();
    let mut holds = true;
    for (load, hint) in Load::ALL.into_iter().flat_map(|load| [Hint::Metadata, Hint::All].map(|hint| (load, hint))) {
        let Some((least, most, _)) = speed_up(load, Commit::Thousand, hint) else { continue };
        let of = pairs.iter().filter(|pair| pair.load == load && pair.hint == hint);
        let Some(here) = range(of.clone().map(Pair::speed_up)) else { continue };
        holds &= here.0 <= most && here.1 >= least;
        found.push(format!("{} {} (published {least} to {most})", of.clone().next().map_or_else(String::new, name), span(here)));
    }
    if found.is_empty() {
        return not_replayed();
    }
    (format!("times faster on the model {}, where the ranges have to meet: {}", MODELS[0], found.join("; ")), RowResult::StandIn(holds))
}

fn units(results: &Results) -> Judged {
    let none = find(&results.hints, (Load::Dd, MODELS[0]), Scheme::None, Commit::Thousand, Hint::Off, 1);
    let Some(none) = none else { return not_replayed() };
    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    let over = |units: u64| units as f64 / none.device_units as f64;
    let mut found = Vec::new();
    let mut holds = true;
    for scheme in OWN {
        let of: Vec<Pair<'_>> = all(results)
            .into_iter()
            .filter(|pair| pair.load == Load::Dd && pair.scheme == scheme && pair.commit == Commit::Thousand)
            .collect();
        let on = range(of.iter().map(|pair| over(pair.on.device_units)));
        let off = range(of.iter().map(|pair| over(pair.off.device_units)));
        let (Some(on), Some(off), Some(faster)) = (on, off, range(of.iter().map(Pair::speed_up))) else { return not_replayed() };
        holds &= on.1 <= UNITS_MAX;
        found.push(format!("{}: {:.4} with the hint and {:.4} without at most, {} × faster", scheme.name(), on.1, off.1, span(faster)));
    }
    (found.join("; "), RowResult::StandIn(holds))
}

fn look_ups(results: &Results) -> Judged {
    let pairs: Vec<Pair<'_>> =
        all(results).into_iter().filter(|pair| pair.load == Load::Copy(8) && pair.commit == Commit::Thousand).collect();
    let mut found = Vec::new();
    let mut holds = true;
    for scheme in OWN.into_iter().chain([Scheme::Shadow]) {
        let of: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.scheme == scheme).collect();
        let on = range(of.iter().filter_map(|pair| Pair::look_ups(pair.on)));
        let off = range(of.iter().filter_map(|pair| Pair::look_ups(pair.off)));
        let (Some(on), Some(off)) = (on, off) else { return not_replayed() };
        holds &= scheme == Scheme::Shadow || on.1 <= LOOK_UPS_MAX;
        found.push(format!("{}: {:.3} with the hint and {:.3} without at most", scheme.name(), on.1, off.1));
    }
    (found.join("; "), RowResult::StandIn(holds))
}

/// Judges Onefold with a hint beside the rival with the same hint.
fn beside(results: &Results) -> Judged {
    let pairs = all(results);
    let rival = |own: &Pair<'_>| {
        pairs.iter().find(|pair| {
            let is_same = pair.load == own.load
                && pair.commit == own.commit
                && pair.hint == own.hint
                && pair.percent == own.percent
                && pair.model == own.model;
            is_same && pair.scheme == Scheme::Shadow
        })
    };
    let mut slower: BTreeMap<String, f64> = BTreeMap::new();
    let mut cases = Vec::new();
    for own in pairs.iter().filter(|pair| OWN.contains(&pair.scheme)) {
        let Some(rival) = rival(own) else { continue };
        let times = rival.on.virtual_seconds / own.on.virtual_seconds;
        cases.push(times);
        if times < 1.0 {
            let least = slower.entry(format!("{}, {}, {}", name(own), own.scheme.name(), own.model)).or_insert(times);
            *least = least.min(times);
        }
    }
    let Some(all) = range(cases.iter().copied()) else { return not_replayed() };
    let list = slower.iter().map(|(case, least)| format!("{case}: {least:.2} at the least")).collect::<Vec<_>>().join("; ");
    let list = if slower.is_empty() { "none".to_owned() } else { list };
    (format!("{} × as fast in {} cases; slower in: {list}", span(all), cases.len()), RowResult::StandIn(slower.is_empty()))
}

fn table_1(results: &Results) -> Judged {
    let live = &results.hints_live;
    if live.table_1.is_empty() {
        return ("not measured in this run".to_owned(), RowResult::NotMeasured);
    }
    let measured = live.measured();
    let lacking: Vec<&str> = TABLE_1.iter().map(|row| row.name).filter(|name| !measured.contains(name)).collect();
    let shares: Vec<(&str, f64)> = live.table_1.iter().filter_map(|row| Some((row.file_system.as_str(), row.metadata_share()?))).collect();
    let is_of_paper = |name: &str| TABLE_1.iter().any(|row| row.name == name);
    let are_there = shares.iter().all(|(name, share)| !is_of_paper(name) || (METADATA.0..=METADATA.1).contains(share));
    let text = format!(
        "metadata among the writes: {}; of the paper's file systems lacking: {}",
        shares.iter().map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect::<Vec<_>>().join(", "),
        if lacking.is_empty() { "none".to_owned() } else { lacking.join(", ") }
    );
    (text, RowResult::StandIn(lacking.is_empty() && are_there))
}
