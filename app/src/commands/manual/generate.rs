//! Makes the manual pages and the completions of shells from the definition of the command line.

use super::guide::GUIDES;
use clap::Command;
use clap_complete::Shell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The shells, and the folder of their completions below `share`.
const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "bash-completion/completions"), (Shell::Zsh, "zsh/site-functions"), (Shell::Fish, "fish/vendor_completions.d")];

/// Writes `man/man1/onefold.1` and a page for each verb, the guides of section 7, and a file of completions for each shell, below this
/// folder. `docs` is the folder of the guides' texts.
///
/// # Errors
/// When a file cannot be read or written.
pub fn generate(command: &Command, docs: &Path, share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    std::fs::create_dir_all(&manual)?;
    clap_mangen::generate_to(command.clone(), &manual)?;
    let mut first = OpenOptions::new().append(true).open(manual.join("onefold.1"))?;
    writeln!(first, ".SH \"SEE ALSO\"\n{}", GUIDES.map(|guide| format!(".BR {} (7)", guide.name)).join(",\n"))?;
    let guides = share.join("man/man7");
    std::fs::create_dir_all(&guides)?;
    for guide in GUIDES {
        let text = std::fs::read_to_string(docs.join(guide.file))?;
        std::fs::write(guides.join(format!("{}.7", guide.name)), guide.page(&text))?;
    }
    for (shell, folder) in SHELLS {
        let folder = share.join(folder);
        std::fs::create_dir_all(&folder)?;
        let name = command.get_name().to_owned();
        let made = clap_complete::generate_to(shell, &mut command.clone(), &name, &folder)?;
        if shell == Shell::Bash {
            // bash-completion looks for a file of the command's name.
            std::fs::rename(made, folder.join(name))?;
        }
    }
    Ok(())
}
