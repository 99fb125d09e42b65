//! The verbs of `trace` that are `onefold-lab`'s now: each names its new place.

use crate::exit::{Exit, Failed};
use std::ffi::OsString;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Moved: `onefold-lab trace import`.
    #[command(hide = true)]
    Import(Words),
    /// Moved: `onefold-lab trace export`.
    #[command(hide = true)]
    Export(Words),
    /// Moved: `onefold-lab trace info`.
    #[command(hide = true)]
    Info(Words),
    /// Moved: `onefold-lab trace analyze`.
    #[command(hide = true)]
    Analyze(Words),
    /// Moved: `onefold-lab trace cut`.
    #[command(hide = true)]
    Cut(Words),
    /// Moved: `onefold-lab trace replay`.
    #[command(hide = true)]
    Replay(Words),
}

/// The arguments, whatever they were.
#[derive(Debug, clap::Args)]
pub(super) struct Words {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

impl Verb {
    /// Returns the failure that names the verb's place.
    pub fn refusal(&self) -> Failed {
        let name = match self {
            Self::Import(_) => "import",
            Self::Export(_) => "export",
            Self::Info(_) => "info",
            Self::Analyze(_) => "analyze",
            Self::Cut(_) => "cut",
            Self::Replay(_) => "replay",
        };
        Failed::new(Exit::Usage, format!("`onefold trace {name}` is `onefold-lab trace {name}` now, with the same options"))
            .next("`cargo build --release -p onefold-lab` builds it.")
    }
}
