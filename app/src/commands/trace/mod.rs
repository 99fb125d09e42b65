//! `trace`: records content traces. What is done with a trace is the laboratory's work.

mod mark;
mod moved;
mod record;

use crate::exit::Outcome;

/// The text that `--help` ends with: the other commands.
const ELSEWHERE: &str = "\
`onefold-lab trace` counts, analyzes, imports, exports, cuts and replays what was recorded.";

/// Record content traces: what was asked of a device, when, by whom, and fingerprints of what was written
#[derive(Debug, clap::Args)]
#[command(after_help = ELSEWHERE)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    #[command(flatten)]
    Recording(Recording),
    #[command(flatten)]
    Moved(moved::Verb),
}

/// The verbs that record, which `onefold-lab` has as well.
#[derive(Debug, clap::Subcommand)]
pub enum Recording {
    Record(record::Arguments),
    Mark(mark::Arguments),
}

/// Runs the verb.
///
/// # Errors
/// The error of the verb.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.verb {
        Verb::Recording(verb) => verb.run(),
        Verb::Moved(verb) => Err(verb.refusal()),
    }
}

impl Recording {
    /// Runs the verb.
    ///
    /// # Errors
    /// The error of the verb.
    pub fn run(&self) -> Outcome {
        match self {
            Self::Record(arguments) => record::run(arguments),
            Self::Mark(arguments) => mark::run(arguments),
        }
    }
}
