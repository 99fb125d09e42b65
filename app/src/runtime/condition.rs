//! What is told of a target while it is served.

use super::lived::Lived;
use super::notices::opening;
use super::tally::Count;
use super::volume_counts::VolumeCounts;
use crate::device::{Slowed, StorePlace};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::stats::Stats;
use serde::{Deserialize, Serialize};

/// How a target is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// The process that serves.
    pub pid: u32,
    /// `opening`, or that and how far it is, `serving`, `full` while writes find no room, or `read-only` after the device failed or by
    /// wish.
    pub state: String,
    /// Size as clients see it.
    pub bytes: u64,
    /// How I/O is done.
    pub io: String,
    /// The store is slowed to the pace of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed: Option<Slowed>,
    /// Of a guarded volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardUse>,
    pub memory: Vec<PartUse>,
    /// Bytes that the pool of blocks has from the system.
    pub pool_bytes: u64,
    /// What the volume had to say and is still true, and what its server has warned of, each with its date; newest last.
    pub notices: Vec<String>,
    /// Where the backing store is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StorePlace>,
}

/// How the guard block is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardUse {
    pub interval_ms: u32,
    /// Since the volume was attached.
    pub writes: u64,
}

/// Memory of one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartUse {
    pub part: String,
    pub used_bytes: u64,
    pub peak_bytes: u64,
    pub limit_bytes: u64,
}

/// How a volume is, in a line.
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

/// The accountant's books.
#[must_use]
pub fn memory(accountant: &Accountant) -> Vec<PartUse> {
    let of = |part: Part| PartUse {
        part: part.name().to_owned(),
        used_bytes: accountant.used(part),
        peak_bytes: accountant.peak(part),
        limit_bytes: accountant.limit(part),
    };
    // What a mode has no share for, it does not use, unless it empties what another left.
    let is_there = |part: &PartUse| part.limit_bytes + part.peak_bytes > 0;
    Part::ALL.into_iter().map(of).filter(is_there).collect()
}

/// What a target did since it was attached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests of clients.
    pub client: Vec<Count>,
    /// Commands to the device.
    pub device: Vec<Count>,
    /// Since the volume was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lived>,
    /// What only a volume has.
    #[serde(flatten)]
    pub volume: Option<VolumeCounts>,
}
