//! Writing a folder.

use super::schema::{FINGERPRINTS, encode, schema};
use super::{FolderError, closed, numbers, opened};
use crate::header::Header;
use crate::record::Record;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Records that are turned into rows at once.
const BATCH_RECORDS: usize = 4096;
/// Fingerprints that are turned into rows at once.
const BATCH_BLOCKS: usize = 65_536;
/// Rows of a row group.
const GROUP_RECORDS: usize = 131_072;
/// Encoded bytes of a row group.
const GROUP_BYTES: usize = 8 << 20;

/// When a file is closed and the next one opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub records: u64,
    /// Since its first record, by the clock of the machine that writes it.
    pub age: Option<Duration>,
}

impl Default for Rotation {
    /// 1,000,000 records or 60 s: what a crash may cost.
    fn default() -> Self {
        Self { records: 1_000_000, age: Some(Duration::from_secs(60)) }
    }
}

/// Writes a trace. What is not finished leaves its closed files behind, and not the open one.
pub struct Writer {
    folder: PathBuf,
    header: Header,
    rotation: Rotation,
    number: u64,
    open: Option<Open>,
    /// Not rows yet.
    pending: Vec<Record>,
    pending_blocks: usize,
}

struct Open {
    path: PathBuf,
    rows: ArrowWriter<File>,
    records: u64,
    since: Instant,
}

impl Writer {
    /// Begins a trace in a folder, which it makes.
    ///
    /// # Errors
    /// Where the folder has a trace in it or cannot be made.
    pub fn create(folder: &Path, header: Header, rotation: Rotation) -> Result<Self, FolderError> {
        std::fs::create_dir_all(folder).map_err(FolderError::io(folder))?;
        if !numbers(folder)?.is_empty() {
            return Err(FolderError::Exists { path: folder.to_path_buf() });
        }
        let folder = folder.to_path_buf();
        Ok(Self { folder, header, rotation, number: 0, open: None, pending: Vec::new(), pending_blocks: 0 })
    }

    /// What the next file that is closed will say of the trace.
    pub const fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Where the system refuses to write or to sync.
    pub fn push(&mut self, record: &Record) -> Result<(), FolderError> {
        if self.open.is_none() {
            self.open = Some(Open::new(&self.folder, self.number)?);
        }
        self.pending_blocks += record.blocks.len();
        self.pending.push(record.clone());
        if self.pending.len() >= BATCH_RECORDS || self.pending_blocks >= BATCH_BLOCKS {
            self.encode()?;
        }
        if let Some(open) = &mut self.open {
            open.records += 1;
        }
        self.close_if_due()
    }

    /// Closes the open file when it is old or full. A recorder calls it when nothing happens, too.
    ///
    /// # Errors
    /// Where the system refuses to write or to sync.
    pub fn close_if_due(&mut self) -> Result<(), FolderError> {
        let Some(open) = &self.open else { return Ok(()) };
        let is_old = self.rotation.age.is_some_and(|age| open.since.elapsed() >= age);
        if open.records >= self.rotation.records || is_old { self.close() } else { Ok(()) }
    }

    /// Closes the trace. One without records has one file, for its header.
    ///
    /// # Errors
    /// Where the system refuses to write or to sync.
    pub fn finish(mut self) -> Result<(), FolderError> {
        if self.open.is_none() && (self.number == 0 || !self.header.gaps.is_empty()) {
            self.open = Some(Open::new(&self.folder, self.number)?);
        }
        self.close()
    }

    fn encode(&mut self) -> Result<(), FolderError> {
        if let Some(open) = &mut self.open {
            let batch = encode(&self.pending, self.header.width);
            open.rows.write(&batch).map_err(FolderError::parquet(&open.path))?;
        }
        self.pending.clear();
        self.pending_blocks = 0;
        Ok(())
    }

    fn close(&mut self) -> Result<(), FolderError> {
        self.encode()?;
        let Some(mut open) = self.open.take() else { return Ok(()) };
        for (key, value) in self.header.to_pairs() {
            open.rows.append_key_value_metadata(KeyValue::new(key, value));
        }
        self.header.gaps.clear();
        let file = open.rows.into_inner().map_err(FolderError::parquet(&open.path))?;
        // The content before the name, and the name before anybody counts on the file.
        file.sync_all().map_err(FolderError::io(&open.path))?;
        std::fs::rename(&open.path, closed(&self.folder, self.number)).map_err(FolderError::io(&open.path))?;
        self.number += 1;
        sync_directory(&self.folder)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let _ = std::fs::remove_file(open.path);
        }
    }
}

impl Open {
    fn new(folder: &Path, number: u64) -> Result<Self, FolderError> {
        let path = opened(folder, number);
        let file = File::create(&path).map_err(FolderError::io(&path))?;
        let rows = ArrowWriter::try_new(file, schema(), Some(properties())).map_err(FolderError::parquet(&path))?;
        Ok(Self { path, rows, records: 0, since: Instant::now() })
    }
}

/// Fingerprints are as good as random: no dictionary and no statistics, only their lengths apart from their bytes.
fn properties() -> WriterProperties {
    let fingerprints = ColumnPath::from(vec![FINGERPRINTS.to_owned(), "list".to_owned(), "element".to_owned()]);
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_RECORDS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(fingerprints.clone(), false)
        .set_column_encoding(fingerprints.clone(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
        .set_column_statistics_enabled(fingerprints, EnabledStatistics::None)
        .set_created_by(format!("onefold {}", env!("CARGO_PKG_VERSION")))
        .build()
}

pub(crate) fn sync_directory(path: &Path) -> Result<(), FolderError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(FolderError::io(path))
}
