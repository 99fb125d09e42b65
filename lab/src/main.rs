//! `onefold-lab`: the tools of an evaluation, which an installation does not need. The binary `onefold` holds no simulator and no rival.

mod flash;
mod index;
mod replay;
mod report;
mod scan;
mod synth;

use clap::{Parser, Subcommand};
use onefold::exit::{Exit, Outcome};
use onefold::output;
use std::process::ExitCode;

const ABOUT: &str = "\
The laboratory of Onefold: traces that are replayed in virtual time, on the engine and on its rivals, and traces that are made.

`onefold trace` records, imports, exports, counts and cuts traces, and replays them on devices.";

#[derive(Debug, Parser)]
#[command(name = "onefold-lab", version, about = ABOUT, after_help = Exit::help(), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Flash(Box<flash::Arguments>),
    Index(index::Arguments),
    Replay(replay::Arguments),
    Report(report::Arguments),
    Scan(scan::Arguments),
    Synth(Box<synth::Arguments>),
}

fn run(verb: &Verb) -> Outcome {
    match verb {
        Verb::Flash(arguments) => flash::run(arguments),
        Verb::Index(arguments) => index::run(arguments),
        Verb::Replay(arguments) => replay::run(arguments),
        Verb::Report(arguments) => report::run(arguments),
        Verb::Scan(arguments) => scan::run(arguments),
        Verb::Synth(arguments) => synth::run(arguments),
    }
}

fn main() -> ExitCode {
    output::end("onefold-lab", run(&Cli::parse().verb).map(|()| Exit::Done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_explains_every_argument() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        for verb in command.get_subcommands() {
            let silent: Vec<_> = verb.get_arguments().filter(|argument| argument.get_help().is_none()).map(|a| a.get_id()).collect();
            assert!(silent.is_empty(), "{}: {silent:?}", verb.get_name());
        }
    }
}
