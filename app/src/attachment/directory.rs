//! The directory of running attachments: /run/onefold for root, $XDG_RUNTIME_DIR/onefold for others.

use crate::exit::{Exit, Failed, Outcome};
use rustix::process::geteuid;
use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The environment variable that names another directory.
pub const VARIABLE: &str = "ONEFOLD_RUN_DIR";

/// Returns the directory for records and sockets of this user. Makes it where it is missing, with access for this user alone.
///
/// # Errors
/// When the directory cannot be made, or belongs to another user.
pub fn run_directory() -> Outcome<PathBuf> {
    let path = place();
    make_private(&path)?;
    Ok(path)
}

/// Makes a directory with access for this user alone, where it is missing.
///
/// # Errors
/// When it cannot be made, or belongs to another user.
pub fn make_private(path: &Path) -> Outcome {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| Failed::system(format!("cannot make {}", path.display()), e))?;
    check_private(path)
}

fn place() -> PathBuf {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable(VARIABLE) {
        return path;
    }
    if geteuid().is_root() {
        return "/run/onefold".into();
    }
    let user = geteuid().as_raw();
    variable("XDG_RUNTIME_DIR").map_or_else(|| env::temp_dir().join(format!("onefold-{user}")), |path| path.join("onefold"))
}

fn check_private(path: &Path) -> Outcome {
    let meta = std::fs::symlink_metadata(path).map_err(|e| Failed::system(format!("cannot look at {}", path.display()), e))?;
    let is_ours = meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o077 == 0;
    if is_ours {
        return Ok(());
    }
    Err(Failed::new(Exit::NotPermitted, format!("{} is not a directory that only you may enter", path.display()))
        .next(format!("Remove it, `chmod 700` it, or name another by {VARIABLE}.")))
}
