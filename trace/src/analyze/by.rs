//! The division of requests into applications.

use crate::record::Record;
use serde::Serialize;
use std::str::FromStr;
use std::sync::Arc;

/// The division of requests into applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Each trace is an application.
    #[default]
    Trace,
    Process,
    Stream,
    File,
    Cgroup,
    /// From one mark to the next.
    Phase,
}

impl By {
    /// Lists all divisions.
    pub const ALL: [Self; 6] = [Self::Trace, Self::Process, Self::Stream, Self::File, Self::Cgroup, Self::Phase];

    /// Returns the name of the division.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Process => "process",
            Self::Stream => "stream",
            Self::File => "file",
            Self::Cgroup => "cgroup",
            Self::Phase => "phase",
        }
    }

    /// Returns whether all requests of a trace, or of a phase of it, belong to one application.
    pub(super) const fn is_of_whole(self) -> bool {
        matches!(self, Self::Trace | Self::Phase)
    }

    /// Returns the field of a request that names its application; none if it is empty, or if requests do not name it.
    #[must_use]
    pub fn field(self, record: &Record) -> Option<&Arc<str>> {
        match self {
            Self::Process => record.process.as_ref(),
            Self::Stream => record.stream.as_ref(),
            Self::File => record.file.as_ref(),
            Self::Cgroup => record.cgroup.as_ref(),
            Self::Trace | Self::Phase => None,
        }
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let known = || format!("'{typed}' is no division; give {}", Self::ALL.map(Self::name).join(", "));
        Self::ALL.into_iter().find(|by| by.name() == typed).ok_or_else(known)
    }
}
