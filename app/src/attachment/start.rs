//! The options of an opening that a volume has defaults for.

use onefold_engine::format::{CommitMode, DELAY_MS_MAX, StartSettings};
use onefold_engine::settings::Persistence;
use serde::{Deserialize, Serialize};

/// The options that a volume has defaults for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Start {
    /// The commit mode, which makes writes durable: ordered, pages in OrderMergeDedup's order; log, records that ride along with the data.
    #[arg(long, value_enum, value_name = "MODE")]
    pub commit_mode: Option<CommitModeName>,
    /// The moment when a write is acknowledged: weak, on admission (durable at the next flush); strong, when it is durable.
    #[arg(long, value_enum, value_name = "MODE")]
    pub persistence: Option<PersistenceName>,
    /// The time that decrements and fingerprints may wait for a page write to join.
    #[arg(long, value_name = "MS", value_parser = parse_delay())]
    pub noncritical_delay: Option<u64>,
    /// The time that a write may wait for its commit when nobody asks for one.
    #[arg(long, value_name = "MS", value_parser = parse_delay())]
    pub commit_period: Option<u64>,
    /// The time that a commit may wait for further writes; 0 for none.
    #[arg(long, value_name = "MS", value_parser = parse_delay())]
    pub anticipation: Option<u64>,
    /// Compare data read with its fingerprint.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    pub verify_reads: Option<bool>,
    /// Compare duplicates byte by byte before linking to them.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    pub verify_duplicates: Option<bool>,
}

impl Start {
    /// Returns the settings of a volume with what was given in their place.
    #[must_use]
    pub fn over(&self, start: &StartSettings) -> StartSettings {
        StartSettings {
            commit_mode: self.commit_mode.map_or(start.commit_mode, CommitMode::from),
            persistence: self.persistence.map_or(start.persistence, Persistence::from),
            noncritical_delay_ms: self.noncritical_delay.unwrap_or(start.noncritical_delay_ms),
            commit_period_ms: self.commit_period.unwrap_or(start.commit_period_ms),
            anticipation_ms: self.anticipation.unwrap_or(start.anticipation_ms),
            verify_reads: self.verify_reads.unwrap_or(start.verify_reads),
            verify_duplicates: self.verify_duplicates.unwrap_or(start.verify_duplicates),
            discard_freed: start.discard_freed,
        }
    }
}

/// Parses `on` or `off`.
///
/// # Errors
/// When it is neither.
pub fn parse_switch(typed: &str) -> Result<bool, String> {
    match typed {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off".to_owned()),
    }
}

/// Parses a delay that a volume can store.
fn parse_delay() -> impl clap::builder::TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=DELAY_MS_MAX)
}

/// [`Persistence`] as users type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PersistenceName {
    Weak,
    Strong,
}

impl From<PersistenceName> for Persistence {
    fn from(name: PersistenceName) -> Self {
        match name {
            PersistenceName::Weak => Self::Weak,
            PersistenceName::Strong => Self::Strong,
        }
    }
}

impl From<Persistence> for PersistenceName {
    fn from(persistence: Persistence) -> Self {
        match persistence {
            Persistence::Weak => Self::Weak,
            Persistence::Strong => Self::Strong,
        }
    }
}

/// [`CommitMode`] as users type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CommitModeName {
    Ordered,
    Log,
}

impl From<CommitModeName> for CommitMode {
    fn from(name: CommitModeName) -> Self {
        match name {
            CommitModeName::Ordered => Self::Ordered,
            CommitModeName::Log => Self::Log,
        }
    }
}

impl From<CommitMode> for CommitModeName {
    fn from(mode: CommitMode) -> Self {
        match mode {
            CommitMode::Ordered => Self::Ordered,
            CommitMode::Log => Self::Log,
        }
    }
}
