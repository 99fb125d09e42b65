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
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The largest number of gaps of one file: they are stored in its metadata, which is built in memory.
const GAPS_MAX: usize = 4096;
/// The largest amount of memory that a writer with [`Gather::LITTLE`] needs; `tests/little.rs` checks it.
pub const LITTLE_BYTES: usize = 3 << 20;
/// The stack size of a thread that only syncs and renames.
const SEALER_STACK_BYTES: usize = 64 << 10;

/// The amounts that are gathered in memory before they are converted to rows, and before rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The number of records that are converted to rows at once.
    pub records: usize,
    /// The number of fingerprints that are converted to rows at once.
    pub blocks: usize,
    /// The number of rows of a row group.
    pub group_records: usize,
    /// The encoded bytes of a row group.
    pub group_bytes: usize,
    /// The bytes of a page of one column, before compression, and of its dictionary.
    pub page_bytes: usize,
    /// Whether to compress every column, and not only times and places, which gain most: each column has its own compressor, which takes
    /// some 200 KiB.
    pub compresses_all: bool,
}

impl Default for Gather {
    /// Suits a process that can use some tens of MiB.
    fn default() -> Self {
        Self { records: 4096, blocks: 65_536, group_records: 131_072, group_bytes: 8 << 20, page_bytes: 1 << 20, compresses_all: true }
    }
}

impl Gather {
    /// Suits a recorder, which shares its memory with the server that it records.
    pub const LITTLE: Self =
        Self { records: 256, blocks: 2048, group_records: 32_768, group_bytes: 256 << 10, page_bytes: 16 << 10, compresses_all: false };
}

/// The limits at which a file is closed and the next one is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    pub records: u64,
    /// The time since the file's first record, by the clock of the machine that writes it.
    pub age: Option<Duration>,
}

impl Default for Rotation {
    /// Closes a file after 1,000,000 records or 60 s: a crash costs at most that much.
    fn default() -> Self {
        Self { records: 1_000_000, age: Some(Duration::from_secs(60)) }
    }
}

/// Writes a trace. A writer that is dropped before it is finished leaves its closed files, but not the open one.
pub struct Writer {
    folder: PathBuf,
    header: Header,
    rotation: Rotation,
    gather: Gather,
    number: u64,
    open: Option<OpenFile>,
    /// The records that are not yet converted to rows.
    pending: Vec<Record>,
    pending_blocks: usize,
    /// The last file that was passed to a thread to be synced; none if files are synced in place.
    sealing: Option<Sealing>,
}

/// A file that a thread is syncing.
#[derive(Default)]
struct Sealing(Option<JoinHandle<Result<(), FolderError>>>);

impl Sealing {
    /// Waits until the file is synced.
    fn join(&mut self) -> Result<(), FolderError> {
        self.0.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

struct OpenFile {
    path: PathBuf,
    rows: ArrowWriter<File>,
    records: u64,
    since: Instant,
}

impl Writer {
    /// Begins a trace in a folder, which it creates.
    ///
    /// # Errors
    /// Fails if the folder already contains a trace or cannot be created.
    pub fn create(folder: &Path, header: Header, rotation: Rotation) -> Result<Self, FolderError> {
        std::fs::create_dir_all(folder).map_err(FolderError::io(folder))?;
        if !numbers(folder)?.is_empty() {
            return Err(FolderError::Exists { path: folder.to_path_buf() });
        }
        let (folder, gather) = (folder.to_path_buf(), Gather::default());
        Ok(Self { folder, header, rotation, gather, number: 0, open: None, pending: Vec::new(), pending_blocks: 0, sealing: None })
    }

    /// Sets the amounts that are gathered in memory.
    #[must_use]
    pub const fn gathering(mut self, gather: Gather) -> Self {
        self.gather = gather;
        self
    }

    /// Makes a thread sync and name each full file, one at a time, so that a push does not wait for it. Until then the file counts as open.
    #[must_use]
    pub fn sealing_aside(mut self) -> Self {
        self.sealing = Some(Sealing::default());
        self
    }

    /// Returns the header that the next closed file will get.
    pub const fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Appends a record.
    ///
    /// Fails if the system refuses to write or to sync.
    /// Fails if the system refuses to write or to sync.
    pub fn push(&mut self, record: Record) -> Result<(), FolderError> {
        if self.open.is_none() {
            self.open = Some(OpenFile::new(&self.folder, self.number, &self.gather)?);
        }
        self.pending_blocks += record.blocks.len();
        self.pending.push(record);
        if self.pending.len() >= self.gather.records || self.pending_blocks >= self.gather.blocks {
            self.encode()?;
        }
        if let Some(open) = &mut self.open {
            open.records += 1;
        }
        self.close_if_due()
    }

    /// Closes the open file if it is old or full. A recorder also calls it when no requests arrive.
    ///
    /// # Errors
    /// Fails if the system refuses to write or to sync.
    pub fn close_if_due(&mut self) -> Result<(), FolderError> {
        let Some(open) = &self.open else { return Ok(()) };
        let is_old = self.rotation.age.is_some_and(|age| open.since.elapsed() >= age);
        let is_full = open.records >= self.rotation.records || self.header.gaps.len() >= GAPS_MAX;
        if is_full || is_old { self.close() } else { Ok(()) }
    }

    /// Closes the trace. A trace without records has one file, for its header.
    ///
    /// # Errors
    /// Fails if the system refuses to write or to sync.
    pub fn finish(mut self) -> Result<(), FolderError> {
        if self.open.is_none() && (self.number == 0 || !self.header.gaps.is_empty()) {
            self.open = Some(OpenFile::new(&self.folder, self.number, &self.gather)?);
        }
        self.close()?;
        self.sealing.as_mut().map_or(Ok(()), Sealing::join)
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
        let (path, name, folder) = (open.path, closed(&self.folder, self.number), self.folder.clone());
        self.number += 1;
        let Some(sealing) = &mut self.sealing else { return seal(&file, &path, &name, &folder) };
        // Files are named in order: first wait until the file before has its name.
        sealing.join()?;
        let thread = std::thread::Builder::new().name("sealer".to_owned()).stack_size(SEALER_STACK_BYTES);
        let spawned = thread.spawn(move || seal(&file, &path, &name, &folder));
        sealing.0 = Some(spawned.map_err(FolderError::io(&self.folder))?);
        Ok(())
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
        // A complete file keeps its name; one that could not be synced stays without one.
        let _ = self.sealing.as_mut().map(Sealing::join);
        if let Some(open) = self.open.take() {
            let _ = std::fs::remove_file(open.path);
        }
    }
}

impl OpenFile {
    fn new(folder: &Path, number: u64, gather: &Gather) -> Result<Self, FolderError> {
        let path = opened(folder, number);
        let file = File::create(&path).map_err(FolderError::io(&path))?;
        let rows = ArrowWriter::try_new(file, schema(), Some(properties(gather))).map_err(FolderError::parquet(&path))?;
        Ok(Self { path, rows, records: 0, since: Instant::now() })
    }
}

/// Fingerprints are practically random, so they get no dictionary and no statistics, and their lengths are stored apart from their bytes.
fn properties(gather: &Gather) -> WriterProperties {
    let fingerprints = ColumnPath::from(vec![FINGERPRINTS.to_owned(), "list".to_owned(), "element".to_owned()]);
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let [time, place] = ["time_ns", "offset"].map(|name| ColumnPath::from(vec![name.to_owned()]));
    WriterProperties::builder()
        .set_compression(if gather.compresses_all { zstd } else { Compression::UNCOMPRESSED })
        .set_column_compression(time.clone(), zstd)
        .set_column_compression(place, zstd)
        // The values are all different.
        .set_column_dictionary_enabled(time, false)
        .set_max_row_group_row_count(Some(gather.group_records))
        .set_max_row_group_bytes(Some(gather.group_bytes))
        .set_data_page_size_limit(gather.page_bytes)
        .set_dictionary_page_size_limit(gather.page_bytes)
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
