//! `trace`: content traces, recorded, imported, exported, counted, analyzed, cut and replayed on a device.

mod analyze;
mod cut;
mod export;
mod import;
mod info;
mod mark;
mod record;
mod replay;

use crate::exit::Outcome;

/// The text that `--help` ends with: the other commands.
const ELSEWHERE: &str = "\
`onefold-lab` replays traces in virtual time, makes traces that nobody recorded, and scans data for how often contents occur.";

/// Content traces: what was asked of a device, when, by whom, and fingerprints of what was written
#[derive(Debug, clap::Args)]
#[command(after_help = ELSEWHERE)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Import(import::Arguments),
    Export(export::Arguments),
    Info(info::Arguments),
    Analyze(analyze::Arguments),
    Cut(cut::Arguments),
    Record(record::Arguments),
    Mark(mark::Arguments),
    Replay(replay::Arguments),
}

/// Runs the verb.
///
/// # Errors
/// The error of the verb.
pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.verb {
        Verb::Import(arguments) => import::run(arguments),
        Verb::Export(arguments) => export::run(arguments),
        Verb::Info(arguments) => info::run(arguments),
        Verb::Analyze(arguments) => analyze::run(arguments),
        Verb::Cut(arguments) => cut::run(arguments),
        Verb::Record(arguments) => record::run(arguments),
        Verb::Mark(arguments) => mark::run(arguments),
        Verb::Replay(arguments) => replay::run(arguments),
    }
}
