//! The reports about a target while it is served.

use super::latency::Latency;
use super::layouts::Protection;
use super::lived::Lived;
use super::notices::opening;
use super::streams::StreamUnits;
use super::tally::Count;
use super::volume_counts::VolumeCounts;
use crate::device::{Slowed, StorePlace};
use crate::hints::report::HintCounts;
use crate::machine::Affordable;
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::stats::{AdaptationCounts, Stats};
use serde::{Deserialize, Serialize};

/// The condition of a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// The process that serves.
    pub pid: u32,
    /// `opening`, with its progress where that is known, `serving`, `full` while writes find no room, `read-only` after the device failed
    /// or on request, or `truncated` where the end of the store is gone.
    pub state: String,
    /// The reason of that state, where it is not the volume itself that is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The size as clients see it.
    pub bytes: u64,
    /// The method of I/O.
    pub io: String,
    /// The store is slowed to the pace of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed: Option<Slowed>,
    /// The state of the guard, of a guarded volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardUse>,
    /// The share of writes that get their fingerprint at once, where some may be deferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptation: Option<Adaptation>,
    pub memory: Vec<PartUse>,
    /// The memory that the pool of blocks has from the system, in bytes.
    pub pool_bytes: u64,
    /// The volume's notices that are still true, and its server's warnings, each with its date; newest last.
    pub notices: Vec<String>,
    /// The current place of the backing store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StorePlace>,
}

/// The share of writes that get their fingerprint at once, and of the rate of the work out of line, with the reasons, in per cent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Adaptation {
    pub in_line: u8,
    pub out_of_line: u8,
    /// By the recent duplicates; none if that is off.
    pub by_duplication: Option<u8>,
    /// By the machine; none where that is off, or not known.
    #[serde(flatten)]
    pub affordable: Affordable,
}

impl Adaptation {
    /// Returns it, where some writes may be deferred.
    #[must_use]
    pub fn of(counts: &AdaptationCounts, affordable: Affordable) -> Option<Self> {
        let AdaptationCounts { selectivity: in_line, by_duplication, allowance } = *counts;
        let is_on = by_duplication.is_some() || affordable != Affordable::default();
        is_on.then_some(Self { in_line, out_of_line: allowance.out_of_line, by_duplication, affordable })
    }

    /// Describes it in a line.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let reasons =
            [("duplication", self.by_duplication), ("pressure", self.affordable.by_pressure), ("battery", self.affordable.by_battery)];
        let reasons: Vec<String> = reasons.iter().filter_map(|(name, share)| Some(format!("{name} {} %", (*share)?))).collect();
        format!("{} % of writes at once, and {} % of the rate out of line: {}", self.in_line, self.out_of_line, reasons.join(", "))
    }
}

/// The state of the guard block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardUse {
    pub interval_ms: u32,
    /// The number of its writes since the volume was attached.
    pub writes: u64,
}

/// The memory of one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartUse {
    pub part: String,
    pub used_bytes: u64,
    pub peak_bytes: u64,
    pub limit_bytes: u64,
}

impl Condition {
    /// Whether writes find no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.state.starts_with("full")
    }
}

/// Returns the state of a target whose own state is this one, on a store at this place.
#[must_use]
pub fn state_on(store: Option<&StorePlace>, state: String) -> String {
    if store.is_some_and(|store| store.missing_bytes > 0) { "truncated".to_owned() } else { state }
}

/// Describes the condition in a line.
#[must_use]
pub fn state(stats: &Stats) -> String {
    match &stats.opening {
        Some(progress) => opening(progress),
        None if stats.phase == "opening" => "opening".to_owned(),
        None if stats.read_only => "read-only".to_owned(),
        None if stats.full => "full".to_owned(),
        None => "serving".to_owned(),
    }
}

/// Returns the reason of a state, where it is not the volume itself that is full.
#[must_use]
pub fn reason(stats: &Stats) -> Option<String> {
    (state(stats) == "full" && stats.full_on_host).then(|| "the host has no room for the store".to_owned())
}

/// Returns the accountant's books.
#[must_use]
pub fn memory(accountant: &Accountant) -> Vec<PartUse> {
    let of = |part: Part| PartUse {
        part: part.name().to_owned(),
        used_bytes: accountant.used(part),
        peak_bytes: accountant.peak(part),
        limit_bytes: accountant.limit(part),
    };
    // A mode does not use a part that it has no share for, unless it empties what another mode left.
    let is_there = |part: &PartUse| part.limit_bytes + part.peak_bytes > 0;
    Part::ALL.into_iter().map(of).filter(is_there).collect()
}

/// The counts of a target since it was attached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The requests of clients.
    pub client: Vec<Count>,
    /// The time that they have taken.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// The commands to the store.
    pub device: Vec<Count>,
    /// Those of them that have failed.
    #[serde(default)]
    pub failed: Vec<Count>,
    /// The number of reports of damage.
    #[serde(default)]
    pub damage: u64,
    /// The ledger since the volume was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lived>,
    /// The counts of hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<HintCounts>,
    /// The blocks of each stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamUnits>,
    /// The file systems that were found on the volume, and what of them is protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<Protection>,
    /// The counts that only a volume has.
    #[serde(flatten)]
    pub volume: Option<VolumeCounts>,
}
