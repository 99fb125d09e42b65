//! `run`: runs a command whose files are marked, by the library of hints.

use crate::exit::{Exit, Failed, Outcome};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's file, and the variables that it reads (docs/hints-library.md).
const LIBRARY: &str = "libonefold_hint.so";
const ACTS: &str = "ONEFOLD_HINT";
const FILES: &str = "ONEFOLD_HINT_FILES";
/// The variable that names the library's file.
const PLACE: &str = "ONEFOLD_HINT_LIBRARY";
/// The folder in which packages have it, from that of the program.
const PACKAGED: &str = "../lib/onefold";

/// Run a command, and mark the files that it opens on volumes
///
/// onefold run --nodedup -- tar -xf backup.tar -C /mnt
///
/// The files stay marked as long as the server of their volume lives. Programs that are linked statically are not marked. The server's
/// socket is for the user who attached the volume, and so is this.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files that it opens for writing have no duplicates, or are meant to be stored apart: their blocks are not looked up.
    #[arg(long)]
    nodedup: bool,
    /// The content that it reads is likely to be written again soon.
    #[arg(long)]
    prefetch: bool,
    /// Only files with such names; with a slash in it, such absolute paths. Several with colons between them.
    #[arg(long, value_name = "GLOB[:GLOB...]")]
    files: Option<String>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Replaces this process by the command.
///
/// # Errors
/// When nothing is to be marked, there is no such library, or no such command.
pub fn run(arguments: &Arguments) -> Outcome<Exit> {
    let acts: Vec<&str> = [("nodedup", arguments.nodedup), ("prefetch", arguments.prefetch)]
        .into_iter()
        .filter_map(|(name, is_wanted)| is_wanted.then_some(name))
        .collect();
    if acts.is_empty() {
        return Err(Failed::new(Exit::Usage, "nothing is to be marked".to_owned()).next("Give --nodedup, --prefetch, or both."));
    }
    let library = library()?;
    let mut preload = library.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let (program, words) = arguments.command.split_first().expect("clap asks for one word at least");
    let mut command = Command::new(program);
    command.args(words).env("LD_PRELOAD", preload).env(ACTS, acts.join(","));
    if let Some(files) = &arguments.files {
        command.env(FILES, files);
    }
    let error = command.exec();
    let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::System };
    Err(Failed::new(exit, format!("cannot run {}: {error}", program.to_string_lossy())))
}

/// Returns the file of the library: the one that is named, or one beside the program or where packages put it.
fn library() -> Outcome<PathBuf> {
    if let Some(named) = env::var_os(PLACE).filter(|named| !named.is_empty()).map(PathBuf::from) {
        let missing = || Failed::new(Exit::NotFound, format!("{PLACE}={}: there is no such file", named.display()));
        return if named.is_file() { Ok(named) } else { Err(missing()) };
    }
    let program = env::current_exe().map_err(|error| Failed::system("cannot find this program's own file", error))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let found = [folder.join(LIBRARY), folder.join(PACKAGED).join(LIBRARY)].into_iter().find(|file| file.is_file());
    found.ok_or_else(|| {
        Failed::new(Exit::NotFound, format!("{LIBRARY} is neither in {0} nor in {0}/{PACKAGED}", folder.display()))
            .next(format!("`cargo build --release -p onefold-hint` makes it; {PLACE} names another place."))
    })
}
