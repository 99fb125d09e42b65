//! The rules of a volume as people see them.

use crate::attachment::find::{Found, find};
use crate::attachment::questions;
use crate::device::backing::{Access, Backing};
use crate::exit::{Failed, Outcome};
use crate::hints::kept::{Kept, Place};
use crate::hints::report::{HintCounts, ObserverCounts, RuleCounts};
use crate::output::Report;
use crate::output::table::Table;
use crate::volume;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The rules of a volume, and what they have done.
#[derive(Debug, Serialize)]
pub(super) struct Rules {
    path: PathBuf,
    /// Whether it is attached, so that rules are in force.
    attached: bool,
    /// The numbers of rules that this command has added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added: Vec<u32>,
    #[serde(flatten)]
    counts: HintCounts,
}

impl Report for Rules {
    const NAME: &'static str = "hint";

    fn table(&self) -> Table {
        let acts = |rule: &RuleCounts| {
            let stream = rule.stream.as_ref().map(|name| format!("stream {name}"));
            rule.acts.iter().map(|act| act.name().to_owned()).chain(stream).collect::<Vec<_>>().join(",")
        };
        let number = |rule: &RuleCounts| rule.number.map_or_else(|| "configured".to_owned(), |number| number.to_string());
        let matched = |blocks: u64| if self.attached { format!("{blocks} blocks") } else { "-".to_owned() };
        let mut rows: Vec<Vec<String>> = self
            .counts
            .rules
            .iter()
            .map(|rule| vec![number(rule), acts(rule), rule.conditions.clone(), matched(rule.matched_blocks), saved(rule, self.attached)])
            .collect();
        if let Some(blocks) = self.counts.spared_blocks {
            let spared = if self.attached { format!("{blocks} compressions") } else { "-".to_owned() };
            rows.push(["default", "nocompress", "files whose names say that they are compressed"].map(str::to_owned).into());
            rows.last_mut().expect("it was added").extend([matched(blocks), spared]);
        }
        let mut table = Table::new().row("backing store", self.path.display());
        if self.attached {
            table = table.row("observed", observed(&self.counts.observer)).row("marked files", self.counts.marked_files);
        } else {
            table = table.row("observed", "not attached");
        }
        table.line("").grid(&["rule", "act", "condition", "matched", "spared"], rows)
    }
}

/// Returns the work that the acts of a rule have spared.
fn saved(rule: &RuleCounts, attached: bool) -> String {
    use crate::hints::rule::Act;
    if !attached {
        return "-".to_owned();
    }
    let what = |act: &Act| match act {
        Act::Nodedup | Act::NeverShare => "fingerprints",
        Act::Nocompress => "compressions",
        Act::Noindex => "index entries",
        Act::Prefetch => "look-ups, as far as it is written again",
    };
    let spared = rule.acts.iter().map(|act| format!("{} {}", rule.matched_blocks, what(act))).collect::<Vec<_>>().join(", ");
    if spared.is_empty() { "-".to_owned() } else { spared }
}

/// Says in a line how much is seen.
pub(in crate::commands) fn observed(observer: &ObserverCounts) -> String {
    match (observer.means.as_str(), &observer.reason) {
        ("none", Some(reason)) => format!("nothing: {reason}"),
        ("none", None) => "nothing yet".to_owned(),
        (means, _) => {
            let all = observer.joined_blocks + observer.unknown_blocks;
            let lost = if observer.lost > 0 { format!(", {} bios lost", observer.lost) } else { String::new() };
            format!("{} of {all} blocks, by {means}{lost}", observer.joined_blocks)
        }
    }
}

/// Returns the rules of a volume.
///
/// # Errors
/// When there is none, it cannot be read, or its server does not answer.
pub(super) fn rules(volume: &str) -> Outcome<Rules> {
    let Found { path, attached } = find(volume)?;
    let Some(record) = attached else { return Ok(Rules::detached(&path, &load(&path)?, Vec::new())) };
    let counts = questions::counts(&record)?.hints.ok_or_else(|| no_hints(&path))?;
    Ok(Rules { path, attached: true, added: Vec::new(), counts })
}

/// Returns the error where an attachment has no engine, or its server is of an earlier program.
pub(super) fn no_hints(path: &Path) -> Failed {
    Failed::new(crate::exit::Exit::State, format!("the server of {} knows no rules", path.display()))
        .next("`onefold upgrade` replaces a server of an earlier program; with --passthrough there are none.")
}

/// Reads the rules of a volume that may be in use.
fn load(path: &Path) -> Outcome<Kept> {
    let chosen = volume::peek(path)?;
    let backing = Backing::open(path, Access::of(true, true))?;
    Place::of(&backing, &chosen.superblock).map_or_else(|| Ok(Kept::default()), |place| place.load())
}

impl Rules {
    /// Those of a volume that is not attached.
    pub(super) fn detached(path: &Path, kept: &Kept, added: Vec<u32>) -> Self {
        let rules = kept.rules.iter().map(|rule| RuleCounts::of(Some(rule.number), &rule.rule, 0)).collect();
        let streams = kept.streams.clone();
        let counts = HintCounts { rules, streams, spared_blocks: kept.spares_compressed.then_some(0), ..HintCounts::default() };
        Self { path: path.to_path_buf(), attached: false, added, counts }
    }

    pub(super) fn with_added(self, added: Vec<u32>) -> Self {
        Self { added, ..self }
    }
}
