//! The content of what a trace writes: zeros, duplicates, and what part of both is file data, metadata and journal.
//!
//! A share of duplicates alone hides where they come from: blocks of zeros, or a file system's metadata that are written home after they
//! were written to its journal.

use crate::laboratory::papers::drawing::html::Table;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use onefold_trace::beside::name_of;
use onefold_trace::info::{Counter, Info, Part};
use onefold_trace::source::{ReadOptions, Source};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The phase that is measured.
const MEASURED: &str = "run";

/// The blocks that are written of one kind of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// The recorder's name of the kind: D file data, M metadata, J journal.
    pub name: String,
    pub blocks: u64,
    /// The blocks, zeros excluded, whose content some block held.
    pub duplicates: u64,
    pub zeros: u64,
}

/// The blocks that are written in the measured phase of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub trace: String,
    pub kinds: Vec<Kind>,
}

/// Returns the word for a kind of data.
fn word(name: &str) -> &str {
    match name {
        "D" => "data",
        "M" => "metadata",
        "J" => "journal",
        other => other,
    }
}

impl Contents {
    /// Takes the counts of the measured phase; of the whole trace if it has no such phase.
    #[must_use]
    pub fn of(trace: &str, info: &Info) -> Self {
        let phase = info.phases.iter().find(|phase| &*phase.part.name == MEASURED);
        let kind = |part: &Part| Kind {
            name: part.name.to_string(),
            blocks: part.counts.blocks_written,
            duplicates: part.counts.duplicates_live,
            zeros: part.counts.zeros,
        };
        let parts = phase.map_or(&info.streams, |phase| &phase.streams);
        let mut kinds: Vec<Kind> = parts.iter().map(kind).filter(|kind| kind.blocks > 0).collect();
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        Self { trace: trace.to_owned(), kinds }
    }

    /// Counts a trace.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let mut source = Source::open(path, &ReadOptions::default()).map_err(|error| error.to_string())?;
        let (unit, mut counter) = (source.unit(), Counter::new());
        for record in source.by_ref() {
            counter.count(&record.map_err(|error| error.to_string())?, unit);
        }
        Ok(Self::of(&name_of(path), &counter.info(&source.header())))
    }

    #[allow(clippy::cast_precision_loss)] // counts of one trace are far below 2^52
    fn percent(&self, part: u64) -> f64 {
        100.0 * part as f64 / self.kinds.iter().map(|kind| kind.blocks).sum::<u64>().max(1) as f64
    }

    fn sum(&self, of: fn(&Kind) -> u64) -> u64 {
        self.kinds.iter().map(of).sum()
    }

    /// Returns the duplicates, zeros excluded, and the zeros, in per cent of the blocks written.
    #[must_use]
    pub fn duplicates_and_zeros(&self) -> (f64, f64) {
        (self.percent(self.sum(|kind| kind.duplicates)), self.percent(self.sum(|kind| kind.zeros)))
    }

    fn by_kind(&self, of: fn(&Kind) -> u64) -> String {
        let part = |kind: &Kind| format!("{} {:.1}", word(&kind.name), self.percent(of(kind)));
        self.kinds.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Returns what stands beside a figure of duplication: the duplicates by kind, and the zeros, in per cent of the blocks written.
    #[must_use]
    pub fn parts(&self) -> String {
        let (duplicates, zeros) = self.duplicates_and_zeros();
        format!("{duplicates:.1} % duplicates ({}), {zeros:.1} % zeros", self.by_kind(|kind| kind.duplicates))
    }

    /// Returns the share of a kind in the duplicates, zeros excluded.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts of one trace are far below 2^52
    pub fn share_of_duplicates(&self, kind: &str) -> f64 {
        let of = self.kinds.iter().find(|other| other.name == kind).map_or(0, |kind| kind.duplicates);
        of as f64 / self.sum(|kind| kind.duplicates).max(1) as f64
    }
}

/// Counts the traces on this number of threads.
#[must_use]
pub fn contents(traces: &[PathBuf], threads: usize) -> (Vec<Contents>, Vec<Failure>) {
    let cost = |path: &PathBuf| path.metadata().map_or(0, |data| data.len());
    let counted = on_threads(traces, cost, threads, |path| {
        Contents::read(path).map_err(|error| Failure { replay: format!("{}, contents", name_of(path)), error })
    });
    parted(counted)
}

/// Formats the contents of all traces.
#[must_use]
pub fn table(all: &[Contents]) -> Table {
    let heads = ["trace", "written", "duplicates, zeros excluded", "of them", "zeros", "of them", "metadata among the duplicates"];
    let caption =
        "What is written in the phase \"run\", in per cent of its blocks; duplicates are those whose content some block held (live)";
    let mut table = Table::new(caption, heads);
    for of in all {
        let (duplicates, zeros) = of.duplicates_and_zeros();
        table.row([
            of.trace.clone(),
            of.by_kind(|kind| kind.blocks),
            format!("{duplicates:.1} %"),
            of.by_kind(|kind| kind.duplicates),
            format!("{zeros:.1} %"),
            of.by_kind(|kind| kind.zeros),
            format!("{:.0} %", 100.0 * of.share_of_duplicates("M")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(name: &str) -> Contents {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "data", "traces", &format!("{name}.tsv.zst")].iter().collect();
        Contents::read(&path).expect("the traces come along")
    }

    /// A share that looks like 43 % of duplicates is zeros for the most part, and one that looks like a program's is the file system's.
    #[test]
    fn zeros_and_metadata_are_told_from_a_programs_duplicates() {
        let browse = shipped("04_browse_firefox");
        let (duplicates, zeros) = browse.duplicates_and_zeros();
        assert!((duplicates - 7.6).abs() < 0.06 && (zeros - 35.3).abs() < 0.06, "{}", browse.parts());
        assert!(browse.parts().contains("7.6 % duplicates (data") && browse.parts().ends_with("35.3 % zeros"), "{}", browse.parts());
        let hadoop = shipped("06_hadoop_grep");
        assert!((hadoop.share_of_duplicates("M") - 0.69).abs() < 0.01, "{}", hadoop.parts());
        let html = table(&[browse, hadoop]).html();
        assert!(html.contains("metadata") && html.contains("69 %"), "{html}");
    }
}
