//! Reading a folder.

use super::schema::Rows;
use super::{FolderError, closed, numbers};
use crate::header::Header;
use crate::record::Record;
use crate::text::names::Names;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The number of rows that are decoded at once.
const BATCH_ROWS: usize = 1024;

/// The records of a trace, in the order of its files.
pub struct Reader {
    header: Header,
    /// The files that are not opened yet.
    files: VecDeque<PathBuf>,
    current: Option<(PathBuf, ParquetRecordBatchReader)>,
    ready: VecDeque<Record>,
    names: Names,
}

impl Reader {
    /// Opens a folder and reads the headers of all its files: the gaps of each file, and everything else from the first.
    ///
    /// # Errors
    /// Fails if it is not a trace or cannot be read.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let files: VecDeque<PathBuf> = numbers(folder)?.into_iter().map(|number| closed(folder, number)).collect();
        let mut header: Option<Header> = None;
        for path in &files {
            let of_file = header_of(path)?;
            match &mut header {
                None => header = Some(of_file),
                Some(header) => header.gaps.extend(of_file.gaps),
            }
        }
        let header = header.ok_or_else(|| FolderError::not_a_trace(folder, "it has no file named like 000000.parquet"))?;
        Ok(Self { header, files, current: None, ready: VecDeque::new(), names: Names::default() })
    }

    /// Returns the facts about the whole trace.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Decodes the next rows; returns false after the last.
    fn advance(&mut self) -> Result<bool, FolderError> {
        loop {
            let Some((path, rows)) = &mut self.current else {
                let Some(path) = self.files.pop_front() else { return Ok(false) };
                let rows = builder(&path)?.with_batch_size(BATCH_ROWS).build().map_err(FolderError::parquet(&path))?;
                self.current = Some((path, rows));
                continue;
            };
            let Some(batch) = rows.next() else {
                self.current = None;
                continue;
            };
            let batch = batch.map_err(|error| FolderError::not_a_trace(path, error.to_string()))?;
            let rows = Rows::of(&batch).map_err(|reason| FolderError::not_a_trace(path, reason))?;
            for row in 0..batch.num_rows() {
                let record = rows.record(row, &mut self.names).map_err(|reason| FolderError::not_a_trace(path, reason))?;
                self.ready.push_back(record);
            }
            return Ok(true);
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, FolderError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.current = None;
                    self.files.clear();
                    return Some(Err(error));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

fn builder(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, FolderError> {
    let file = File::open(path).map_err(FolderError::io(path))?;
    ParquetRecordBatchReaderBuilder::try_new(file).map_err(FolderError::parquet(path))
}

fn header_of(path: &Path) -> Result<Header, FolderError> {
    let builder = builder(path)?;
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let pairs = pairs.into_iter().flatten().filter_map(|pair| Some((pair.key.as_str(), pair.value.as_deref()?)));
    Header::from_pairs(pairs).map_err(|reason| FolderError::not_a_trace(path, reason))
}
