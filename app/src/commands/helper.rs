//! `helper`: the work of a front-end, of a server's observer, or of its search for names, that needs a process of its own. Supervisors,
//! servers and `detach` start it.

use super::damaged_names::DamagedNames;
use crate::attachment::find::find;
use crate::exit::{Exit, Failed, Outcome};
use crate::frontend;
use crate::hints::sight::LOADER;
use crate::server::naming::{NAMER, PATIENCE};

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
    if arguments.frontend == NAMER {
        return name(&arguments.words);
    }
    frontend::named(&arguments.frontend)?.help(&arguments.words)
}

/// Prints the names of what is damaged in blocks of a volume, as JSON: the words are the volume, and the numbers of the blocks.
fn name(words: &[String]) -> Outcome<Exit> {
    let wrong = || Failed::new(Exit::Usage, "a server starts this command, with a volume and with numbers of blocks".to_owned());
    let (volume, blocks) = words.split_first().ok_or_else(wrong)?;
    let blocks = blocks.iter().map(|block| block.parse().map_err(|_| wrong())).collect::<Outcome<_>>()?;
    let record = find(volume)?.attached.ok_or_else(|| Failed::new(Exit::NotFound, format!("{volume} is not attached")))?;
    let names = DamagedNames::of_blocks(&record, &blocks, PATIENCE);
    println!("{}", serde_json::to_string(&names.names).map_err(|e| Failed::system("cannot print names", e))?);
    Ok(Exit::Done)
}
