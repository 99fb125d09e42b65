//! The control groups of the kernel.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folders of control groups: of version 2, and of the controller of block devices of version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/blkio"];
/// The most control groups below one.
const BELOW_MAX: usize = 4096;

/// Calls `each` with the path of a control group below its root, without a slash at its beginning, and its number; and with those below
/// it. There may be none.
pub fn each_below(path: &str, mut each: impl FnMut(&str, u64)) {
    for root in ROOTS.map(Path::new) {
        let mut left: Vec<PathBuf> = vec![root.join(path.trim_start_matches('/'))];
        let mut found = 0;
        while let Some(folder) = left.pop() {
            let Ok(meta) = std::fs::symlink_metadata(&folder) else { continue };
            if !meta.is_dir() || found >= BELOW_MAX {
                continue;
            }
            found += 1;
            let within = folder.strip_prefix(root).unwrap_or(&folder);
            each(&within.to_string_lossy(), meta.ino());
            let below = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            left.extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
        }
    }
}
