//! A name on which nothing half-written is ever seen.

use crate::error::TraceError;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A name that will be there when all is written, and another one beside it until then. Dropped before [`Place::keep`], it leaves nothing.
pub struct Place {
    name: PathBuf,
    /// Where to write.
    pub partial: PathBuf,
    is_kept: bool,
}

impl Place {
    /// Makes sure of a name that is free, or with `replace` that of a file. Nothing is made yet.
    ///
    /// # Errors
    /// Where it is taken.
    pub fn new(name: &Path, replace: bool) -> Result<Self, TraceError> {
        let exists = name.symlink_metadata().is_ok();
        if exists && !(replace && name.is_file()) {
            return Err(TraceError::Exists { path: name.to_path_buf() });
        }
        let file = name.file_name().ok_or_else(|| TraceError::Exists { path: name.to_path_buf() })?.to_string_lossy();
        let partial = name.with_file_name(format!(".{file}.partial-{}", std::process::id()));
        Ok(Self { name: name.to_path_buf(), partial, is_kept: false })
    }

    /// Gives what was written, and synced, its name.
    ///
    /// # Errors
    /// Where it cannot be renamed, or its directory cannot be synced.
    pub fn keep(mut self) -> Result<(), TraceError> {
        std::fs::rename(&self.partial, &self.name).map_err(TraceError::io(&self.name))?;
        self.is_kept = true;
        let parent = self.name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(TraceError::io(parent))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.partial).or_else(|_| std::fs::remove_file(&self.partial));
        }
    }
}
