//! `onefold-lab`: the tools of an evaluation, which an installation does not need. The binary `onefold` holds no simulator, no rival and
//! no Parquet.

mod flash;
mod index;
mod live;
mod paced;
#[cfg(test)]
mod paced_tests;
mod replay;
mod report;
mod scan;
mod synth;
mod trace;
mod traces;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use onefold::cli::{self, Common};
use onefold::exit::{Exit, Outcome};
use onefold::output;
use paced::ByModel;
use std::process::ExitCode;

const ABOUT: &str = "\
The laboratory of Onefold: traces that are counted, converted, analyzed and replayed, on the engine and on its rivals, and traces that are \
made.

The verbs of `onefold` are here, too, for volumes on devices that are slowed down: `onefold-lab attach --device-model`.";

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
    Trace(trace::Arguments),
    #[command(flatten)]
    Common(Common),
}

/// Returns the definition of the command line. Of the verbs of `onefold`, the help shows `attach` alone, with what only the laboratory
/// can do.
fn command() -> Command {
    let hide = |verb: Command| match verb.get_name() {
        "flash" | "index" | "replay" | "report" | "scan" | "synth" | "trace" => verb,
        "attach" => verb.mut_arg("device_model", |option| option.hide(false)),
        _ => verb.hide(true),
    };
    Cli::command().mut_subcommands(hide)
}

fn run(verb: Verb) -> Outcome<Exit> {
    let done = match verb {
        Verb::Flash(arguments) => flash::run(&arguments),
        Verb::Index(arguments) => index::run(&arguments),
        Verb::Replay(arguments) => replay::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Scan(arguments) => scan::run(&arguments),
        Verb::Synth(arguments) => synth::run(&arguments),
        Verb::Trace(arguments) => trace::run(&arguments),
        Verb::Common(verb) => return verb.run(&ByModel),
    };
    done.map(|()| Exit::Done)
}

fn main() -> ExitCode {
    cli::begin();
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    cli::log_to_stderr(matches!(&cli.verb, Verb::Common(verb) if verb.is_server()));
    output::end("onefold-lab", run(cli.verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_explains_every_argument() {
        let mut command = command();
        command.build();
        command.clone().debug_assert();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let silent: Vec<_> = verb
                .get_arguments()
                .filter(|argument| !argument.is_hide_set() && argument.get_help().is_none())
                .map(|a| a.get_id())
                .collect();
            assert!(silent.is_empty(), "{}: {silent:?}", verb.get_name());
        }
    }
}
