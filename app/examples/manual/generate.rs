//! Makes the manual pages and the completions of shells from the definition of the command line.

#[path = "guide.rs"]
mod guide;

use clap::Command;
use clap_complete::Shell;
use guide::GUIDES;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The shells, and the folder of their completions below `share`.
const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "bash-completion/completions"), (Shell::Zsh, "zsh/site-functions"), (Shell::Fish, "fish/vendor_completions.d")];

/// Writes `man/man1/onefold.1` and a page for each verb, the guides of section 7, and a file of completions for each shell, below this
/// folder.
///
/// # Errors
/// When a file cannot be written.
pub fn generate(command: &Command, share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    std::fs::create_dir_all(&manual)?;
    clap_mangen::generate_to(command.clone(), &manual)?;
    let mut first = OpenOptions::new().append(true).open(manual.join("onefold.1"))?;
    writeln!(first, ".SH \"SEE ALSO\"\n{}", GUIDES.map(|guide| format!(".BR {} (7)", guide.name)).join(",\n"))?;
    let guides = share.join("man/man7");
    std::fs::create_dir_all(&guides)?;
    for guide in GUIDES {
        std::fs::write(guides.join(format!("{}.7", guide.name)), guide.page())?;
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
