//! The paths of volumes seen before, by which a label or UUID finds one that is not attached. They are advice: each path is examined again.

use super::glance::{self, Glance};
use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The environment variable that names another directory.
pub const VARIABLE: &str = "ONEFOLD_STATE_DIR";

fn place() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = variable(VARIABLE).or_else(|| {
        if rustix::process::geteuid().is_root() {
            return Some("/var/lib/onefold".into());
        }
        variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state"))).map(|path| path.join("onefold"))
    })?;
    Some(directory.join("volumes"))
}

/// Returns the paths of volumes seen before, oldest first.
#[must_use]
pub fn paths() -> Vec<PathBuf> {
    let text = place().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    text.lines().map(PathBuf::from).collect()
}

/// Remembers `path`, which is absolute, and forgets paths that are gone. A failure does no harm.
pub fn remember(path: &Path) {
    let before = paths();
    let Some(text) = path.to_str().filter(|text| !text.contains('\n')) else { return };
    let Some(place) = place().filter(|_| !before.iter().any(|p| p == path)) else { return };
    let _ = place.parent().map(|directory| fs::DirBuilder::new().recursive(true).mode(0o700).create(directory));
    let seen = glance::look(&before, |_| false);
    let kept = std::iter::zip(&before, &seen).filter(|(_, seen)| **seen != Glance::Missing).filter_map(|(p, _)| p.to_str()).chain([text]);
    let all: String = kept.flat_map(|line| [line, "\n"]).collect();
    let fresh = place.with_extension("new");
    let written = fs::File::create(&fresh).and_then(|mut file| file.write_all(all.as_bytes())).and_then(|()| fs::rename(&fresh, &place));
    if let Err(error) = written {
        tracing::debug!(%error, place = %place.display(), "cannot remember where the volume is");
    }
}
