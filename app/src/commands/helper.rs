//! `helper`: the work of a front-end that needs a process of its own. Supervisors, servers and `detach` start it.

use crate::exit::{Exit, Outcome};
use crate::frontend;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    frontend: String,
    /// The arguments of the front-end's own code.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Does the work.
///
/// # Errors
/// When the work fails.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    frontend::named(&arguments.frontend)?.help(&arguments.words)
}
