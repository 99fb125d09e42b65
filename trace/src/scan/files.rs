//! Reading files, block devices and trees.
//!
//! 1. The next files are opened, and the kernel begins to read them, while one is read: of a tree of small files, most of the time is spent
//!    waiting for one of them after the other.
//! 2. What cannot be read inside a tree is reported and counted; what the user names has to be readable.

use super::ScanError;
use super::search::{Found, Search};
use onefold_engine::units::BLOCK_SIZE;
use rustix::fs::{Advice, fadvise};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of bytes that are read at once: the length of a buffer.
pub const READ_BYTES: usize = 256 * BLOCK_SIZE;
/// The files that are open while the one before them is read. The kernel reads up to [`READ_BYTES`] of each ahead.
const FILES_AHEAD: usize = 32;

/// Takes what is read.
pub trait Visitor {
    /// Takes note of a file or device, whose blocks follow.
    fn begins(&mut self, path: &Path);

    /// Takes the next blocks of that file or device, the first `bytes` of the buffer. Returns a buffer for those that come after them,
    /// whatever is in it.
    ///
    /// # Errors
    /// When it cannot go on, which ends the reading.
    fn blocks(&mut self, buffer: Vec<u8>, bytes: usize) -> Result<Vec<u8>, ScanError>;

    /// Takes note of something inside a tree that could not be read.
    fn unread(&mut self, error: &ScanError);
}

/// The numbers of what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// The number of files and devices that were read.
    pub files: u64,
    /// The number of things inside trees that could not be read.
    pub unread: u64,
    /// The number of things inside trees, themselves included, and the blocks that their directories take.
    pub things: u64,
    pub directory_blocks: u64,
}

/// The reason why a file was not read to its end.
enum FileFailure {
    /// The file cannot be read.
    Unread(ScanError),
    /// The visitor cannot go on, or the user has ended it.
    Final(ScanError),
}

/// The next thing to read.
enum Ahead {
    File { path: PathBuf, file: File, is_named: bool },
    Unread(ScanError),
}

struct Reading<'a, V> {
    visitor: &'a mut V,
    stop: Option<&'a AtomicBool>,
    search: Search,
    ahead: VecDeque<Ahead>,
    files: u64,
    unread: u64,
    buffer: Vec<u8>,
}

/// Reads files, block devices and trees (`search.rs` has the order). The last block of a file is filled up with zeros, as a file system
/// stores it. `stop`, which another thread sets, ends it early.
///
/// # Errors
/// Fails if something that was named cannot be read, the visitor cannot go on, or it was interrupted.
pub fn read_files<V: Visitor>(paths: &[PathBuf], stop: Option<&AtomicBool>, visitor: &mut V) -> Result<FileCounts, ScanError> {
    let (search, ahead, buffer) = (Search::new(paths)?, VecDeque::new(), Vec::new());
    Reading { visitor, stop, search, ahead, files: 0, unread: 0, buffer }.run()
}

impl<V: Visitor> Reading<'_, V> {
    fn run(mut self) -> Result<FileCounts, ScanError> {
        loop {
            self.look_ahead()?;
            match self.ahead.pop_front() {
                Some(Ahead::File { path, file, is_named }) => match self.file(&path, file) {
                    Ok(()) => {}
                    Err(FileFailure::Unread(error)) if !is_named => self.pass_over(&error),
                    Err(FileFailure::Unread(error) | FileFailure::Final(error)) => return Err(error),
                },
                Some(Ahead::Unread(error)) => self.pass_over(&error),
                None => return Ok(FileCounts { files: self.files, unread: self.unread, ..self.search.counts() }),
            }
        }
    }

    fn look_ahead(&mut self) -> Result<(), ScanError> {
        while self.ahead.len() < FILES_AHEAD {
            let ahead = match self.search.next()? {
                Some(Found::File { path, is_named }) => match File::open(&path) {
                    Ok(file) => {
                        // Advice: where the kernel takes none, reading is slower.
                        let _ = fadvise(&file, 0, NonZeroU64::new(READ_BYTES as u64), Advice::WillNeed);
                        Ahead::File { path, file, is_named }
                    }
                    Err(error) if is_named => return Err(ScanError::io(&path)(error)),
                    Err(error) => Ahead::Unread(ScanError::io(&path)(error)),
                },
                Some(Found::Unread(error)) => Ahead::Unread(error),
                None => return Ok(()),
            };
            self.ahead.push_back(ahead);
        }
        Ok(())
    }

    fn pass_over(&mut self, error: &ScanError) {
        self.unread += 1;
        self.visitor.unread(error);
    }

    fn file(&mut self, path: &Path, mut file: File) -> Result<(), FileFailure> {
        self.files += 1;
        self.visitor.begins(path);
        loop {
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(FileFailure::Final(ScanError::Interrupted));
            }
            self.buffer.resize(READ_BYTES, 0);
            let mut filled = 0;
            while filled < self.buffer.len() {
                match file.read(&mut self.buffer[filled..]) {
                    Ok(0) => break,
                    Ok(bytes) => filled += bytes,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(FileFailure::Unread(ScanError::io(path)(error))),
                }
            }
            let is_last = filled < self.buffer.len();
            if filled > 0 {
                let end = filled.next_multiple_of(BLOCK_SIZE);
                self.buffer[filled..end].fill(0);
                self.buffer = self.visitor.blocks(std::mem::take(&mut self.buffer), end).map_err(FileFailure::Final)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and lengths of the files that were read.
    #[derive(Default)]
    struct Noted(Vec<(String, usize)>);

    impl Visitor for Noted {
        fn begins(&mut self, path: &Path) {
            self.0.push((path.file_name().expect("a name").to_string_lossy().into_owned(), 0));
        }

        fn blocks(&mut self, buffer: Vec<u8>, bytes: usize) -> Result<Vec<u8>, ScanError> {
            let (name, length) = self.0.last_mut().expect("a file has begun");
            assert!(buffer[..bytes].starts_with(name.as_bytes()) || *length > 0, "{name} has its own content");
            *length += bytes;
            Ok(buffer)
        }

        fn unread(&mut self, error: &ScanError) {
            panic!("{error}");
        }
    }

    #[test]
    fn files_beyond_those_that_are_ahead_are_read_in_their_order() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let names: Vec<String> = (0..3 * FILES_AHEAD).map(|n| format!("{n:03}")).collect();
        for (n, name) in names.iter().enumerate() {
            // The first file takes several reads, while others are ahead.
            let length = if n == 0 { 2 * READ_BYTES + 1 } else { BLOCK_SIZE };
            std::fs::write(place.path().join(name), name.bytes().cycle().take(length).collect::<Vec<u8>>()).expect("it can be written");
        }
        let mut noted = Noted::default();
        let counts = read_files(&[place.path().to_path_buf(), place.path().join("007")], None, &mut noted).expect("it can be read");
        assert_eq!(noted.0[0].1, 2 * READ_BYTES + BLOCK_SIZE);
        let read: Vec<&str> = noted.0.iter().map(|(name, _)| name.as_str()).collect();
        let expected: Vec<&str> = names.iter().map(String::as_str).chain(["007"]).collect();
        assert_eq!(read, expected);
        assert_eq!((counts.files, counts.unread), (expected.len() as u64, 0));
    }
}
