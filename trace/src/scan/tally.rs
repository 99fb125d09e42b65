//! Scanning: all blocks of files are counted by content.

use super::count::Counting;
use super::files::{Visitor, read_files};
use super::{FileCounts, ScanError};
use crate::synth::Distribution;
use onefold_engine::units::BLOCK_SIZE;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The result of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    pub distribution: Distribution,
    pub counts: FileCounts,
    /// The number of temporary files that counting needed.
    pub runs: usize,
}

/// A function that is called for each thing inside a tree that could not be read.
pub type ReportUnread<'a> = &'a mut dyn FnMut(&ScanError);

struct Tally<'a> {
    counting: Counting,
    temporary: &'a Path,
    report: ReportUnread<'a>,
}

impl Visitor for Tally<'_> {
    fn begins(&mut self, _path: &Path) {}

    fn blocks(&mut self, buffer: Vec<u8>, bytes: usize) -> Result<Vec<u8>, ScanError> {
        for block in buffer[..bytes].chunks_exact(BLOCK_SIZE) {
            self.counting.block(block.try_into().expect("a block")).map_err(ScanError::io(self.temporary))?;
        }
        Ok(buffer)
    }

    fn unread(&mut self, error: &ScanError) {
        (self.report)(error);
    }
}

/// Scans files, block devices and trees in at most `memory_bytes` of memory, and beyond that in files in the directory `temporary`.
///
/// # Errors
/// Fails if something that was named cannot be read, a temporary file cannot be written, or it was interrupted.
pub fn scan(
    paths: &[PathBuf],
    memory_bytes: u64,
    temporary: &Path,
    stop: Option<&AtomicBool>,
    report: ReportUnread,
) -> Result<Scanned, ScanError> {
    let mut tally = Tally { counting: Counting::new(memory_bytes, temporary), temporary, report };
    let counts = read_files(paths, stop, &mut tally)?;
    let runs = tally.counting.runs();
    let distribution = tally.counting.finish().map_err(ScanError::io(temporary))?;
    Ok(Scanned { distribution, counts, runs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Occurring;
    use std::os::unix::fs::symlink;

    fn occurring(scanned: &Scanned) -> Vec<(u64, u64)> {
        scanned.distribution.occurring().iter().map(|Occurring { times, contents }| (*times, *contents)).collect()
    }

    #[test]
    fn a_tree_is_scanned_once() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).expect("it can be written");
        std::fs::create_dir(at("sub")).expect("it can be made");
        write("a", &[[1; 4096], [2; 4096], [0; 4096], [1; 4096]].concat());
        // The last block is filled up with zeros, and so is that of `sub/c`.
        write("b", &[[2; 4096].as_slice(), b"tail"].concat());
        write("sub/c", b"tail");
        write("sub/empty", b"");
        std::fs::hard_link(at("a"), at("sub/same")).expect("it can be linked");
        symlink(at("a"), at("sub/link")).expect("it can be linked");
        let mut report = |error: &ScanError| panic!("{error}");
        let scanned = scan(&[place.path().to_path_buf()], 0, place.path(), None, &mut report).expect("it can be scanned");
        assert_eq!((occurring(&scanned), scanned.distribution.zero_blocks), (vec![(2, 3)], 1));
        assert_eq!((scanned.counts.files, scanned.counts.unread), (4, 0));
        // Two directories, five names of files, and a link.
        assert_eq!((scanned.counts.things, scanned.counts.directory_blocks), (8, 2));
        // A link that the user names is followed, and a file that is named twice counts twice.
        let scanned = scan(&[at("sub/link"), at("b"), at("b")], 0, place.path(), None, &mut report).expect("it can be scanned");
        assert_eq!((occurring(&scanned), scanned.counts.files), (vec![(2, 2), (3, 1)], 3));
    }

    #[test]
    fn things_that_cannot_be_scanned_are_named() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let scan = |path: &str| scan(&[path.into()], 0, place.path(), None, &mut |error| panic!("{error}")).expect_err("no").to_string();
        assert!(scan("/nowhere/at/all").starts_with("/nowhere/at/all: "));
        assert!(scan("/dev/null").starts_with("/dev/null is neither"));
        let stop = AtomicBool::new(true);
        std::fs::write(place.path().join("a"), "a").expect("it can be written");
        let stopped = super::scan(&[place.path().join("a")], 0, place.path(), Some(&stop), &mut |error| panic!("{error}"));
        assert!(matches!(stopped, Err(ScanError::Interrupted)));
    }
}
