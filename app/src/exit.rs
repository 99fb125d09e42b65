//! The end of the program: one exit code for each kind of reason, and the message to its user.

use crate::device::backing;
use crate::error::Error;
use onefold_engine::format;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::ExitCode;

/// Exit codes. The numbers are part of the program's interface: `--help` and `docs/operating.md` list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The system or the device refused something.
    System = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// There is no such volume or file.
    NotFound = 3,
    /// The volume, or its backing store, is in use.
    InUse = 4,
    /// It would destroy something; `--force` insists.
    Refused = 5,
    /// The volume, or the trace, is damaged.
    Damaged = 6,
    /// The user may not do that.
    NotPermitted = 7,
    /// The device failed while the volume was attached: read-only until detached; what was synced before is safe.
    DeviceFailed = 8,
    /// The volume was made by another version of the program.
    OtherFormat = 9,
    /// The front-end is not available on this machine.
    NoFrontend = 10,
    /// The command line makes sense, but not for this volume as it is now.
    State = 11,
}

impl Exit {
    /// All codes, in order.
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::System,
        Self::Usage,
        Self::NotFound,
        Self::InUse,
        Self::Refused,
        Self::Damaged,
        Self::NotPermitted,
        Self::DeviceFailed,
        Self::OtherFormat,
        Self::NoFrontend,
        Self::State,
    ];

    /// Returns the code that a process of this program ended with; none where it was killed.
    #[must_use]
    pub fn of_code(code: Option<i32>) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| code == Some(*exit as i32))
    }

    /// Returns its meaning, for `--help`.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::System => "the system or the device refused something",
            Self::Usage => "the command line makes no sense",
            Self::NotFound => "there is no such volume or file",
            Self::InUse => "the volume or its backing store is in use",
            Self::Refused => "it would destroy something; --force insists",
            Self::Damaged => "the volume or trace is damaged",
            Self::NotPermitted => "you may not do that",
            Self::DeviceFailed => "the device failed while attached; what was synced before is safe",
            Self::OtherFormat => "the volume was made by another version of onefold",
            Self::NoFrontend => "the front-end cannot be had on this machine",
            Self::State => "the size or state of the volume does not allow it",
        }
    }

    /// Returns the table of all codes, for `--help`.
    #[must_use]
    pub fn help() -> String {
        let lines: Vec<String> = Self::ALL.iter().map(|e| format!("\n  {:>2}  {}", *e as u8, e.meaning())).collect();
        format!("Exit codes:{}", lines.concat())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command's failure: its kind, what happened, what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub exit: Exit,
    pub message: String,
    /// The next step, as a sentence or a command line.
    pub next: Option<String>,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failed>;

impl Failed {
    /// Returns a failure of this kind.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), next: None }
    }

    /// Adds advice to the failure.
    #[must_use]
    pub fn next(self, advice: impl Into<String>) -> Self {
        Self { next: Some(advice.into()), ..self }
    }

    /// Returns the failure where the system refused `what`.
    #[must_use]
    pub fn system(what: impl fmt::Display, error: impl std::error::Error) -> Self {
        Self::new(Exit::System, format!("{what}: {}", chain(&error)))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.next.as_ref().map_or(Ok(()), |next| write!(f, "\n  {next}"))
    }
}

/// Joins an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

impl From<backing::OpenError> for Failed {
    fn from(error: backing::OpenError) -> Self {
        use backing::OpenError as E;
        let message = chain(&error);
        match error {
            E::Missing { .. } => Self::new(Exit::NotFound, message),
            E::Permission { .. } => Self::new(Exit::NotPermitted, message).next("Use an account that may read and write it."),
            E::ReadOnly { path } => Self::new(Exit::NotPermitted, message)
                .next(format!("`onefold attach --read-only {}` serves what is there.", path.display())),
            E::InUse { .. } => Self::new(Exit::InUse, message).next("`onefold list` shows what is attached; `onefold detach` releases it."),
            E::NotAStore { .. } => Self::new(Exit::Usage, message).next("Name a file or a block device."),
            E::NotDirect { .. } => Self::new(Exit::System, message).next("--buffered uses it all the same, through the page cache."),
            E::System { .. } => Self::new(Exit::System, message),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Setting(message) => Self::new(Exit::NoFrontend, message),
            Error::System { what, source } => Self::new(Exit::NoFrontend, format!("{what}: {source}")),
        }
    }
}

impl From<format::OpenError> for Failed {
    fn from(error: format::OpenError) -> Self {
        use format::OpenError as E;
        let message = error.to_string();
        match error {
            E::NotOnefold => Self::new(Exit::NotFound, message)
                .next("If there should be one, write nothing there, and look whether that is the right file or device."),
            E::OtherVersion { .. } | E::UnknownFeatures { .. } => Self::new(Exit::OtherFormat, message),
            E::Unreadable => Self::new(Exit::System, message).next("Nothing was changed. When the device works again, so does the volume."),
            E::Damaged { .. } | E::DeviceTooSmall { .. } => Self::new(Exit::Damaged, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_through() {
        let numbers: Vec<u8> = Exit::ALL.iter().map(|e| *e as u8).collect();
        assert_eq!(numbers, (0..12).collect::<Vec<u8>>());
    }
}
