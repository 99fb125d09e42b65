//! The cases of the figures: loads, moments of a flush, and hints.

use crate::laboratory::replay::streams::Hinting;
use onefold_engine::interface::Policy;
use onefold_engine::settings::Persistence;
use serde::{Deserialize, Serialize};

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Figure 3: a unique file is written in sequence.
    Dd,
    /// Figure 4: a file is copied again and again; each of its contents occurs this number of times in it.
    Copy(u64),
    /// Figure 5: files are written, replaced and appended to; each content of data occurs this number of times.
    FileServer(u64),
}

impl Load {
    /// All loads.
    pub const ALL: [Self; 5] = [Self::Dd, Self::Copy(1), Self::Copy(8), Self::FileServer(1), Self::FileServer(4)];

    /// Returns the number of the paper's figure.
    #[must_use]
    pub const fn figure(self) -> u8 {
        match self {
            Self::Dd => 3,
            Self::Copy(_) => 4,
            Self::FileServer(_) => 5,
        }
    }

    /// Returns the duplicates, as the paper writes them.
    #[must_use]
    pub fn duplicates(self) -> String {
        match self {
            Self::Dd | Self::Copy(1) | Self::FileServer(1) => "unique".to_owned(),
            Self::Copy(times) | Self::FileServer(times) => format!("{times}:1"),
        }
    }
}

/// The moment when metadata are flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Commit {
    #[serde(rename = "every write")]
    Each,
    #[serde(rename = "every 1,000 writes")]
    Thousand,
}

impl Commit {
    /// Returns the name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Each => "every write",
            Self::Thousand => "every 1,000 writes",
        }
    }

    /// Returns the persistence for the replay.
    #[must_use]
    pub const fn persistence(self) -> Persistence {
        match self {
            Self::Each => Persistence::Strong,
            Self::Thousand => Persistence::Weak,
        }
    }
}

/// The requests that bring the hint: NODEDUP for writes; PREFETCH for the reads of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    Off,
    Metadata,
    All,
}

impl Hint {
    /// Returns the name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Metadata => "metadata",
            Self::All => "all",
        }
    }

    /// Returns the policies that the requests of a load bring.
    #[must_use]
    pub fn of(self, load: Load) -> Hinting {
        let (apart, none) = (Policy::DEFAULT.apart(), Policy::DEFAULT);
        match (self, load) {
            (Self::Off, _) => Hinting::default(),
            (_, Load::Copy(_)) => Hinting { reads: Policy::DEFAULT.prefetched(), ..Hinting::default() },
            (Self::Metadata, _) => Hinting { metadata: apart, data: none, reads: none },
            (Self::All, _) => Hinting { metadata: apart, data: apart, reads: none },
        }
    }
}
