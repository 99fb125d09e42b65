//! Writing a recording.

use super::RecordingError;
use super::block::Kind;
use super::fields::Encoder;
use super::file::BlockFile;
use crate::header::{Gap, Header};
use crate::record::Record;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The largest amount of memory that a writer needs; `trace/tests/little.rs` checks it.
pub const WRITER_BYTES: usize = 1 << 20;
/// The bytes of records from which a block is written.
const BLOCK_BYTES: usize = 64 << 10;
/// The age of a block's first record from which it is written: a recorder that is killed loses no more.
const BLOCK_AGE: Duration = Duration::from_secs(1);
/// The number of gaps from which they are written.
const GAPS_MAX: usize = 256;

/// Writes a recording. A writer that is dropped before it is finished leaves the blocks that it has written.
pub struct Writer {
    file: BlockFile,
    records: Encoder,
    gaps: Vec<Gap>,
    /// The time of the first record or gap that is not written yet.
    since: Option<Instant>,
}

impl Writer {
    /// Begins a recording in a new file. A block that was written `sync_after` ago is synced, by another thread.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be made.
    pub fn create(path: &Path, header: &Header, sync_after: Duration) -> Result<Self, RecordingError> {
        let mut file = BlockFile::create(path, sync_after)?;
        let facts: BTreeMap<String, String> = header.to_pairs().into_iter().collect();
        file.write(Kind::Facts, &serde_json::to_vec(&facts).expect("texts are JSON"))?;
        Ok(Self { file, records: Encoder::new(header), gaps: Vec::new(), since: None })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Fails if the system refuses to write.
    pub fn push(&mut self, record: &Record) -> Result<(), RecordingError> {
        self.records.push(record);
        self.since.get_or_insert_with(Instant::now);
        if self.records.bytes().len() >= BLOCK_BYTES { self.write() } else { Ok(()) }
    }

    /// Appends a gap.
    ///
    /// # Errors
    /// Fails if the system refuses to write.
    pub fn push_gap(&mut self, gap: Gap) -> Result<(), RecordingError> {
        self.gaps.push(gap);
        self.since.get_or_insert_with(Instant::now);
        if self.gaps.len() >= GAPS_MAX { self.write() } else { Ok(()) }
    }

    /// Writes what has waited long enough, and has it synced. A recorder calls it again and again, also when no requests arrive.
    ///
    /// # Errors
    /// Fails if the system refuses to write or to sync.
    pub fn write_if_due(&mut self) -> Result<(), RecordingError> {
        if self.since.is_some_and(|since| since.elapsed() >= BLOCK_AGE) {
            self.write()?;
        }
        self.file.sync_if_due()
    }

    /// Writes the rest and the end, and syncs all. Returns the size of the recording, in bytes.
    ///
    /// # Errors
    /// Fails if the system refuses to write or to sync.
    pub fn finish(mut self) -> Result<u64, RecordingError> {
        self.write()?;
        self.file.write(Kind::End, &[])?;
        self.file.finish()
    }

    pub(super) fn write(&mut self) -> Result<(), RecordingError> {
        self.since = None;
        if !self.records.bytes().is_empty() {
            self.file.write(Kind::Records, self.records.bytes())?;
            self.records.clear();
        }
        if !self.gaps.is_empty() {
            self.file.write(Kind::Gaps, &serde_json::to_vec(&self.gaps).expect("numbers are JSON"))?;
            self.gaps.clear();
        }
        Ok(())
    }
}
