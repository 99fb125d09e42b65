//! `manual`: writes manual pages and completions, for `./dev install` and packages. The program makes its own, so that they are of its version.

mod generate;
mod guide;

pub use generate::generate;

use crate::exit::{Exit, Failed, Outcome};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder below which they lie, such as /usr/share.
    folder: PathBuf,
}

/// Writes the pages and completions of `command`.
///
/// # Errors
/// When a file cannot be written.
pub fn run(arguments: &Arguments, command: &clap::Command) -> Outcome<Exit> {
    let folder = &arguments.folder;
    generate(command, folder)
        .map(|()| Exit::Done)
        .map_err(|error| Failed::system(format!("cannot write below {}", folder.display()), error))
}
