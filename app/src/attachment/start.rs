//! The options of an opening that a volume has defaults for.

use crate::output::size::Size;
use onefold_engine::format::superblock::{FULL_WAIT_S_DEFAULT, FULL_WAIT_S_MAX, MEMORY_BYTES_MAX};
use onefold_engine::format::{CommitMode, DELAY_MS_MAX, StartSettings};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::{Compression, Persistence};
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Memory for everything: index, caches, records and requests. 64M for a new volume.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<Size>,
    /// The new blocks that are compressed, in mode log: all, as in a new volume; carriers, those of small commits, into the log that
    /// records them; off, none.
    #[arg(long, value_enum, value_name = "WHICH")]
    pub compress: Option<CompressName>,
    /// The fate of writes when the volume is full: wait, they wait for room, a minute or the given number of seconds, and then fail; error,
    /// they fail at once (ENOSPC). wait for a new volume.
    #[arg(long, value_name = "wait[=SECONDS]|error", value_parser = WhenFull::parse)]
    pub when_full: Option<WhenFull>,
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
            memory_bytes: self.memory.map_or(start.memory_bytes, |Size(bytes)| bytes),
            compression: self.compress.map_or(start.compression, Compression::from),
            full_wait_s: self.when_full.map_or(start.full_wait_s, |when| when.wait_ms / 1000),
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

/// Parses the memory of a server.
fn parse_memory(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse()?;
    if size.0 < Accountant::BYTES_MIN {
        return Err(format!("at least {} are needed", Size(Accountant::BYTES_MIN)));
    }
    if size.0 > MEMORY_BYTES_MAX { Err(format!("give at most {}", Size(MEMORY_BYTES_MAX))) } else { Ok(size) }
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

/// The time that writes wait for room in a full volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhenFull {
    pub wait_ms: u64,
}

impl WhenFull {
    /// Returns what has writes wait for this long; they fail at once where that is 0.
    #[must_use]
    pub const fn of_seconds(seconds: u64) -> Self {
        Self { wait_ms: seconds * 1000 }
    }

    fn parse(typed: &str) -> Result<Self, String> {
        match typed.split_once('=') {
            None if typed == "wait" => Ok(Self::of_seconds(FULL_WAIT_S_DEFAULT)),
            None if typed == "error" => Ok(Self::of_seconds(0)),
            Some(("wait", seconds)) => match seconds.parse::<u64>() {
                Ok(seconds @ 1..=FULL_WAIT_S_MAX) => Ok(Self::of_seconds(seconds)),
                _ => Err(format!("give from 1 to {FULL_WAIT_S_MAX} seconds, as in wait=300")),
            },
            _ => Err("give wait, wait=SECONDS or error".to_owned()),
        }
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wait_ms == 0 { f.write_str("error") } else { write!(f, "wait={}", self.wait_ms / 1000) }
    }
}

/// [`Compression`] as users type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CompressName {
    All,
    Carriers,
    Off,
}

impl From<Compression> for CompressName {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Off => Self::Off,
            Compression::Carriers => Self::Carriers,
            Compression::All => Self::All,
        }
    }
}

impl From<CompressName> for Compression {
    fn from(name: CompressName) -> Self {
        match name {
            CompressName::Off => Self::Off,
            CompressName::Carriers => Self::Carriers,
            CompressName::All => Self::All,
        }
    }
}
