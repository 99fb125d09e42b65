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

/// The largest number of gaps of one file: they are stored in its metadata, which is built in memory.
const GAPS_MAX: usize = 4096;
/// The number of records that are converted to rows at once.
const BATCH_RECORDS: usize = 4096;
/// The number of fingerprints from which records are converted to rows.
const BATCH_BLOCKS: usize = 65_536;
/// The largest number of rows of a row group.
const GROUP_RECORDS: usize = 131_072;
/// The largest number of encoded bytes of a row group.
const GROUP_BYTES: usize = 8 << 20;
/// The number of records after which a file is closed.
pub const FILE_RECORDS: u64 = 1_000_000;

/// Writes a trace. A writer that is dropped before it is finished leaves its closed files, but not the open one.
pub struct Writer {
    folder: PathBuf,
    header: Header,
    file_records: u64,
    number: u64,
    open: Option<OpenFile>,
    /// The records that are not yet converted to rows.
    pending: Vec<Record>,
    pending_blocks: usize,
}

struct OpenFile {
    path: PathBuf,
    rows: ArrowWriter<File>,
    records: u64,
}

impl Writer {
    /// Begins a trace in a folder, which it creates. A file is closed after `file_records`.
    ///
    /// # Errors
    /// Fails if the folder already contains a trace or cannot be created.
    pub fn create(folder: &Path, header: Header, file_records: u64) -> Result<Self, FolderError> {
        std::fs::create_dir_all(folder).map_err(FolderError::io(folder))?;
        if !numbers(folder)?.is_empty() {
            return Err(FolderError::Exists { path: folder.to_path_buf() });
        }
        let folder = folder.to_path_buf();
        Ok(Self { folder, header, file_records, number: 0, open: None, pending: Vec::new(), pending_blocks: 0 })
    }

    /// Returns the header that the next closed file will get.
    pub const fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Fails if the system refuses to write or to sync.
    pub fn push(&mut self, record: Record) -> Result<(), FolderError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(OpenFile::new(&self.folder, self.number)?),
        };
        open.records += 1;
        let is_full = open.records >= self.file_records || self.header.gaps.len() >= GAPS_MAX;
        self.pending_blocks += record.blocks.len();
        self.pending.push(record);
        if is_full {
            self.close()
        } else if self.pending.len() >= BATCH_RECORDS || self.pending_blocks >= BATCH_BLOCKS {
            self.encode()
        } else {
            Ok(())
        }
    }

    /// Closes the trace. A trace without records has one file, for its header.
    ///
    /// # Errors
    /// Fails if the system refuses to write or to sync.
    pub fn finish(mut self) -> Result<(), FolderError> {
        if self.open.is_none() && (self.number == 0 || !self.header.gaps.is_empty()) {
            self.open = Some(OpenFile::new(&self.folder, self.number)?);
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
        let name = closed(&self.folder, self.number);
        self.number += 1;
        seal(&file, &open.path, &name, &self.folder)
    }
}

/// Gives a completely written file its name.
fn seal(file: &File, path: &Path, name: &Path, folder: &Path) -> Result<(), FolderError> {
    // The content has to be durable before the name, and the name before anybody relies on the file.
    file.sync_all().map_err(FolderError::io(path))?;
    std::fs::rename(path, name).map_err(FolderError::io(path))?;
    sync_directory(folder)
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let _ = std::fs::remove_file(open.path);
        }
    }
}

impl OpenFile {
    fn new(folder: &Path, number: u64) -> Result<Self, FolderError> {
        let path = opened(folder, number);
        let file = File::create(&path).map_err(FolderError::io(&path))?;
        let rows = ArrowWriter::try_new(file, schema(), Some(properties())).map_err(FolderError::parquet(&path))?;
        Ok(Self { path, rows, records: 0 })
    }
}

/// Fingerprints are practically random, so they get no dictionary and no statistics, and their lengths are stored apart from their bytes.
fn properties() -> WriterProperties {
    let fingerprints = ColumnPath::from(vec![FINGERPRINTS.to_owned(), "list".to_owned(), "element".to_owned()]);
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // The values are all different.
        .set_column_dictionary_enabled(ColumnPath::from(vec!["time_ns".to_owned()]), false)
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
