//! `helper`: the work of a front-end, or of a server's observer, that needs a process of its own. Supervisors, servers and `detach`
//! start it.

use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::hints::sight::LOADER;

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
    if arguments.frontend == LOADER {
        let loaded = onefold_observer::load_for_parent();
        return loaded.map(|()| Exit::Done).map_err(|e| Failed::system("a server starts this command, to load its observer", e));
    }
    frontend::named(&arguments.frontend)?.help(&arguments.words)
}
