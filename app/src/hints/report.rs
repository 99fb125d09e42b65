//! The counts of hints, for reports.

use super::live::{Live, Matched};
use super::rule::{Act, Rule};
use onefold_observer::{Means, Observer};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// The counts of the hints of a volume since its server began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintCounts {
    pub rules: Vec<RuleCounts>,
    /// The names of streams, from number 1 on.
    #[serde(default)]
    pub streams: Vec<String>,
    /// Blocks of files that are compressed already, and were not compressed again; none if that is off.
    pub spared_blocks: Option<u64>,
    /// The files that programs have marked themselves.
    pub marked_files: u64,
    pub observer: ObserverCounts,
}

/// A rule, and what it has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// None for a rule of the configuration.
    pub number: Option<u32>,
    pub acts: Vec<Act>,
    /// The stream that its blocks belong to.
    #[serde(default)]
    pub stream: Option<String>,
    /// The conditions as they are typed.
    pub conditions: String,
    /// The blocks of requests that have matched.
    pub matched_blocks: u64,
}

/// The counts of an observer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserverCounts {
    /// `bpf`, `tracepoint` or `none`.
    pub means: String,
    /// Why there is none.
    pub reason: Option<String>,
    pub bios: u64,
    /// Bios for which the ring had no room.
    pub lost: u64,
    /// Blocks of requests of which something was known.
    pub joined_blocks: u64,
    pub unknown_blocks: u64,
    pub ambiguous_blocks: u64,
    /// Observations that no request came for, or that were forgotten.
    pub expired: u64,
    pub forgotten: u64,
    pub memory_bytes: u64,
}

impl HintCounts {
    pub(super) fn of(live: &Live, observer: Option<&Observer>, blind: Option<String>, marked: usize) -> Self {
        let rules = live.matched().map(|Matched { number, rule, blocks }| RuleCounts::of(number, &rule, blocks));
        Self {
            rules: rules.collect(),
            streams: live.streams().to_vec(),
            spared_blocks: live.spares_compressed.then(|| live.compressed.load(Ordering::Relaxed)),
            marked_files: marked as u64,
            observer: ObserverCounts::of(observer, blind),
        }
    }
}

impl RuleCounts {
    /// The counts of a rule.
    #[must_use]
    pub fn of(number: Option<u32>, rule: &Rule, matched_blocks: u64) -> Self {
        Self { number, acts: rule.act.clone(), stream: rule.stream.clone(), conditions: rule.to_string(), matched_blocks }
    }
}

impl ObserverCounts {
    fn of(observer: Option<&Observer>, blind: Option<String>) -> Self {
        let Some(observer) = observer else { return Self { means: "none".to_owned(), reason: blind, ..Self::default() } };
        let counts = observer.counts();
        let means = match observer.means() {
            Means::Bpf => "bpf",
            Means::Tracepoint => "tracepoint",
        };
        Self {
            means: means.to_owned(),
            reason: blind,
            bios: counts.bios,
            lost: counts.lost,
            joined_blocks: counts.joined_blocks,
            unknown_blocks: counts.unknown_blocks,
            ambiguous_blocks: counts.ambiguous_blocks,
            expired: counts.expired,
            forgotten: counts.forgotten,
            memory_bytes: counts.memory_bytes,
        }
    }
}
