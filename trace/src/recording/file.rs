//! The file of a recording that is being written.

use super::block::{CONTENT_BYTES_MAX, Head, Kind};
use super::{MAGIC, RecordingError};
use onefold_engine::units::count;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// The level of compression. The compressor of a higher one takes several times the memory.
const ZSTD_LEVEL: i32 = 1;
/// The stack size of a thread that only syncs.
const SYNCER_STACK_BYTES: usize = 64 << 10;

/// A file that gets one block after the other.
pub struct BlockFile {
    path: PathBuf,
    file: File,
    /// The place of the next block.
    at: u64,
    compressor: Compressor<'static>,
    compressed: Vec<u8>,
    sync_after: Duration,
    /// The time of the first write that no sync has begun after.
    unsynced_since: Option<Instant>,
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl BlockFile {
    /// Makes the file, with its magic number.
    pub fn create(path: &Path, sync_after: Duration) -> Result<Self, RecordingError> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordingError::Exists { path: path.to_path_buf() },
            _ => RecordingError::io(path)(error),
        })?;
        let compressor = Compressor::new(ZSTD_LEVEL).map_err(RecordingError::io(path))?;
        let (path, compressed) = (path.to_path_buf(), Vec::new());
        let mut made = Self { path, file, at: 0, compressor, compressed, sync_after, unsynced_since: None, syncing: None };
        made.append(&MAGIC)?;
        Ok(made)
    }

    /// Writes a block.
    pub fn write(&mut self, kind: Kind, content: &[u8]) -> Result<(), RecordingError> {
        let too_large = || RecordingError::io(&self.path)(io::Error::other("a request is too large for a recording"));
        let bytes = u32::try_from(content.len()).ok().filter(|_| content.len() <= CONTENT_BYTES_MAX).ok_or_else(too_large)?;
        let mut compressed = std::mem::take(&mut self.compressed);
        compressed.clear();
        compressed.reserve(compress_bound(content.len()));
        let stored = match self.compressor.compress_to_buffer(content, &mut compressed) {
            Ok(stored) if stored < content.len() => &compressed[..stored],
            _ => content,
        };
        self.append(&Head::encode(kind, self.at, stored, bytes))?;
        self.append(stored)?;
        self.compressed = compressed;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), RecordingError> {
        self.file.write_all(bytes).map_err(RecordingError::io(&self.path))?;
        self.at += count(bytes.len());
        self.unsynced_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Begins a sync if one is due and the one before is over.
    pub fn sync_if_due(&mut self) -> Result<(), RecordingError> {
        let is_due = self.unsynced_since.is_some_and(|since| since.elapsed() >= self.sync_after);
        if !is_due || self.syncing.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.join()?;
        self.unsynced_since = None;
        let thread = std::thread::Builder::new().name("syncer".to_owned()).stack_size(SYNCER_STACK_BYTES);
        let file = self.file.try_clone();
        let spawned = file.and_then(|file| thread.spawn(move || file.sync_data()));
        self.syncing = Some(spawned.map_err(RecordingError::io(&self.path))?);
        Ok(())
    }

    fn join(&mut self) -> Result<(), RecordingError> {
        let Some(thread) = self.syncing.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(RecordingError::io(&self.path))
    }

    /// Syncs the file and its name. Returns its size, in bytes.
    pub fn finish(mut self) -> Result<u64, RecordingError> {
        self.join()?;
        self.file.sync_all().map_err(RecordingError::io(&self.path))?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(RecordingError::io(directory))?;
        Ok(self.at)
    }
}
