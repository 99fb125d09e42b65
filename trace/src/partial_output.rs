//! An output file or folder that appears under its name only when it is complete.

use crate::error::TraceError;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The name of an output that is not complete yet, and the temporary name beside it. If it is dropped before [`PartialOutput::keep`], it
/// removes the output.
pub struct PartialOutput {
    name: PathBuf,
    /// The temporary name that the output is written under.
    pub partial: PathBuf,
    is_kept: bool,
}

impl PartialOutput {
    /// Reserves a name that is free or, with `replace`, that of an existing file. Creates nothing yet.
    ///
    /// # Errors
    /// Fails if it is taken.
    pub fn new(name: &Path, replace: bool) -> Result<Self, TraceError> {
        let exists = name.symlink_metadata().is_ok();
        if exists && !(replace && name.is_file()) {
            return Err(TraceError::Exists { path: name.to_path_buf() });
        }
        let file = name.file_name().ok_or_else(|| TraceError::Exists { path: name.to_path_buf() })?.to_string_lossy();
        let partial = name.with_file_name(format!(".{file}.partial-{}", std::process::id()));
        Ok(Self { name: name.to_path_buf(), partial, is_kept: false })
    }

    /// Renames the complete and synced output to its final name.
    ///
    /// # Errors
    /// Fails if it cannot be renamed, or its directory cannot be synced.
    pub fn keep(mut self) -> Result<(), TraceError> {
        std::fs::rename(&self.partial, &self.name).map_err(TraceError::io(&self.name))?;
        self.is_kept = true;
        let parent = self.name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(TraceError::io(parent))
    }
}

impl Drop for PartialOutput {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.partial).or_else(|_| std::fs::remove_file(&self.partial));
        }
    }
}
