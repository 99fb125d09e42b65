//! `trace`: content traces, imported, exported, counted, analyzed, cut and replayed on a device; and recorded, as `onefold` does.

mod analyze;
mod cut;
mod export;
mod import;
mod info;
mod replay;

use onefold::commands::trace::Recording;
use onefold::exit::Outcome;

/// Content traces: what was asked of a device, when, by whom, and fingerprints of what was written
#[derive(Debug, clap::Args)]
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
    Replay(replay::Arguments),
    #[command(flatten)]
    Recording(Recording),
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
        Verb::Replay(arguments) => replay::run(arguments),
        Verb::Recording(verb) => verb.run(),
    }
}
