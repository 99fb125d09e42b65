//! `hands`: what a front-end can do in a process of its own alone. Started by supervisors, servers and `detach`.

use crate::exit::{Exit, Outcome};
use crate::frontend;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    frontend: String,
    /// For the front-end's own code.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Does it.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    frontend::named(&arguments.frontend)?.hands(&arguments.words)
}
