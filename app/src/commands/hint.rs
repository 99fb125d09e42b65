//! `hint`: rules for what is written, by who writes it and where.

mod change;
mod shown;
mod words;

pub(super) use shown::observed;

use crate::exit::Outcome;
use crate::output::{Style, print};
use words::{Add, List, Remove};

/// Say what is to be done with what certain programs, files or places write
///
/// A block device does not know what it is given; the kernel does, and tells the server who writes: file, process, control group, whether
/// it is metadata of a file system. A rule has one condition or several, which all have to hold, and one act or several. Rules are advice:
/// where nothing is known of a request, it is served as without them. They are kept in the volume; tables named `hint` in
/// /etc/onefold/NAME.toml have rules of a host.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Add(Add),
    List(List),
    Remove(Remove),
}

/// Changes or shows the rules of a volume.
///
/// # Errors
/// When there is no such volume, a rule makes no sense for it, or it cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let (report, json) = match &arguments.verb {
        Verb::Add(add) => (change::add(add)?, add.json),
        Verb::Remove(remove) => (change::remove(remove)?, remove.json),
        Verb::List(list) => (shown::rules(&list.volume)?, list.json),
    };
    print(&report, Style::of(json));
    Ok(())
}
