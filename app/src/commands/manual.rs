//! `manual`: writes manual pages and completions, for `./dev install` and packages. The program makes its own, which are of its version.

mod generate;
mod guide;

pub use generate::generate;

use crate::exit::{Exit, Failed, Outcome};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The source's folder of the pages that are manual pages, too.
    docs: PathBuf,
    /// The folder below which they come to lie, such as /usr/share.
    folder: PathBuf,
}

/// Writes the pages and completions of `command`.
///
/// # Errors
/// When a file cannot be read or written.
pub fn run(arguments: &Arguments, command: &clap::Command) -> Outcome<Exit> {
    let Arguments { docs, folder } = arguments;
    generate(command, docs, folder)
        .map(|()| Exit::Done)
        .map_err(|error| Failed::system(format!("cannot make manual pages of {} below {}", docs.display(), folder.display()), error))
}
