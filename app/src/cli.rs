//! The command line: each flag is defined once, here or with its verb.

use crate::commands;
use crate::device::slowing::{NoSlowing, Slowing};
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::runtime::warnings;
use crate::supervision::start::inherit_no_further;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The environment variable that replaces the default of what is logged.
pub const LOG_VARIABLE: &str = "ONEFOLD_LOG";

/// From a tree to a volume that has it.
const BEGINNING: &str = "\
To begin:
  onefold estimate /srv/photos             what a volume would save of them
  onefold create --size 64G /srv/volume    a volume in a file; or on a disk: /dev/sdb
  onefold attach /srv/volume               prints its block device, such as /dev/loop0
  mkfs.ext4 -E nodiscard /dev/loop0 && mount /dev/loop0 /mnt
  onefold stats /srv/volume                what it has saved
  umount /mnt && onefold detach /srv/volume";

#[derive(Debug, Parser)]
#[command(name = "onefold", version = commands::version::VERSION_NAME, about, max_term_width = 100)]
#[command(after_help = format!("{BEGINNING}\n\n{}", Exit::help()))]
#[command(about = "A deduplicating block device for flash.\n\nA volume is named by its path, its label, its UUID, its name in \
             /etc/onefold, or where it is attached or mounted.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Common(Common),
    Trace(commands::trace::Arguments),
    Version(commands::version::Arguments),
    /// Writes manual pages and completions below a folder, for packages.
    #[command(hide = true)]
    Manual(commands::manual::Arguments),
}

/// The verbs that `onefold-lab` has as well: it serves volumes by the same code, on devices that it slows down.
#[derive(Debug, Subcommand)]
pub enum Common {
    Estimate(commands::estimate::Arguments),
    Watch(commands::watch::Arguments),
    Create(commands::create::Arguments),
    Set(commands::set::Arguments),
    Grow(commands::grow::Arguments),
    Attach(commands::attach::Arguments),
    Detach(commands::detach::Arguments),
    List(commands::list::Arguments),
    Status(commands::status::Arguments),
    Stats(commands::stats::Arguments),
    Top(commands::top::Arguments),
    Dedup(commands::dedup::Arguments),
    Hint(commands::hint::Arguments),
    Run(commands::run::Arguments),
    Scrub(commands::scrub::Arguments),
    Check(commands::check::Arguments),
    Dump(commands::dump::Arguments),
    Probe(commands::probe::Arguments),
    Upgrade(commands::upgrade::Arguments),
    /// Serves a volume for `attach`.
    #[command(hide = true)]
    Serve(commands::serve::Arguments),
    /// Keeps what clients hold while servers are replaced, for `attach`.
    #[command(hide = true)]
    Supervise(commands::supervise::Arguments),
    /// Does for a front-end the work that neither supervisor nor server may do.
    #[command(hide = true)]
    Helper(commands::helper::Arguments),
    /// Reads superblocks of stores that may never answer, for whoever looks for a volume.
    #[command(hide = true)]
    Glance(commands::glance::Arguments),
}

/// Returns the definition of the command line, from which manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    begin();
    let cli = Cli::parse();
    log_to_stderr(matches!(&cli.verb, Verb::Common(verb) if verb.is_server()));
    output::end("onefold", run(cli.verb))
}

/// Prepares this process for every verb. It comes first: no other thread may run yet.
pub fn begin() {
    // A server is started through /proc/self/exe, which would otherwise be its name.
    let _ = rustix::thread::set_name(c"onefold");
    inherit_no_further();
    // Past the limit on the size of files (`ulimit -f`) a write fails, which is reported; the signal would end a server.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

fn run(verb: Verb) -> Outcome<Exit> {
    match verb {
        Verb::Common(verb) => verb.run(&NoSlowing),
        Verb::Trace(arguments) => commands::trace::run(&arguments).map(|()| Exit::Done),
        Verb::Version(arguments) => {
            commands::version::run(&arguments);
            Ok(Exit::Done)
        }
        Verb::Manual(arguments) => commands::manual::run(&arguments, &command()),
    }
}

impl Common {
    /// Whether the process serves, or keeps what clients hold.
    #[must_use]
    pub const fn is_server(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Supervise(_) | Self::Helper(_) => true,
            Self::Attach(arguments) => arguments.foreground,
            _ => false,
        }
    }

    /// Runs the verb. `slowing` is what the program can do for `attach --device-model`.
    ///
    /// # Errors
    /// The error of the verb.
    pub fn run(self, slowing: &dyn Slowing) -> Outcome<Exit> {
        let done = |()| Exit::Done;
        match self {
            Self::Estimate(arguments) => commands::estimate::run(&arguments).map(done),
            Self::Watch(arguments) => commands::watch::run(&arguments).map(done),
            Self::Create(arguments) => commands::create::run(&arguments).map(done),
            Self::Set(arguments) => commands::set::run(&arguments).map(done),
            Self::Grow(arguments) => commands::grow::run(&arguments).map(done),
            Self::Attach(arguments) => commands::attach::run(&arguments, std::env::args_os().skip(2), slowing),
            Self::Detach(arguments) => commands::detach::run(&arguments),
            Self::List(arguments) => commands::list::run(&arguments).map(done),
            Self::Status(arguments) => commands::status::run(&arguments).map(done),
            Self::Stats(arguments) => commands::stats::run(&arguments).map(done),
            Self::Top(arguments) => commands::top::run(&arguments).map(done),
            Self::Dedup(arguments) => commands::dedup::run(&arguments).map(done),
            Self::Hint(arguments) => commands::hint::run(&arguments).map(done),
            Self::Run(arguments) => commands::run::run(&arguments),
            Self::Scrub(arguments) => commands::scrub::run(&arguments).map(done),
            Self::Check(arguments) => commands::check::run(&arguments),
            Self::Dump(arguments) => commands::dump::run(&arguments).map(done),
            Self::Probe(arguments) => commands::probe::run(&arguments).map(done),
            Self::Upgrade(arguments) => commands::upgrade::run(&arguments).map(done),
            Self::Serve(arguments) => commands::serve::run(&arguments, slowing),
            Self::Supervise(arguments) => commands::supervise::run(&arguments),
            Self::Helper(arguments) => commands::helper::run(&arguments),
            Self::Glance(arguments) => commands::glance::run(&arguments).map(done),
        }
    }
}

/// Logs to standard error. A server's log has times and more detail; a command reports to its user in sentences.
pub fn log_to_stderr(is_server: bool) {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(if is_server { "info" } else { "warn" }));
    if is_server {
        let lines = tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr);
        let lines = lines.with_ansi(std::io::stderr().is_terminal());
        tracing_subscriber::registry().with(lines.with_filter(filter)).with(warnings::Keep).init();
    } else {
        tracing_subscriber::registry().with(warnings::Show.with_filter(filter)).init();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_explains_every_argument() {
        fn unexplained(command: &clap::Command, found: &mut Vec<String>) {
            let silent = command.get_arguments().filter(|argument| !argument.is_hide_set() && argument.get_help().is_none());
            found.extend(silent.map(|argument| format!("{} {}", command.get_name(), argument.get_id())));
            command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(|command| unexplained(command, found));
        }
        let mut found = Vec::new();
        unexplained(&Cli::command(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
