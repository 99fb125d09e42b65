//! A trace as a folder of Parquet files, with one row for each request.
//!
//! 1. A file gets its name only when it and the folder are complete and synced: a crash loses the open file and no other.
//! 2. The name of the open file begins with a dot, so that programs that read all Parquet files of a folder skip it.
//! 3. Files are numbered in the order of their records; a reader takes them in that order, whatever their times are.
//! 4. Each file repeats the facts about the whole trace ([`crate::header::Header`]), but lists only the gaps among its own records.
//! 5. Memory is bounded by a row group for writing and by a batch of rows for reading.

mod read;
mod schema;
mod write;

pub use read::Reader;
pub use write::{FILE_RECORDS, Writer};

use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// The ending of a closed file's name.
const SUFFIX: &str = ".parquet";

/// The reason why a folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    /// The folder holds something else, or is damaged.
    #[error("{} is not a readable trace: {reason}", path.display())]
    NotATrace { path: PathBuf, reason: String },
    #[error("{} already contains a trace", path.display())]
    Exists { path: PathBuf },
}

impl FolderError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }

    fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> Self + '_ {
        move |source| Self::Parquet { path: path.to_path_buf(), source }
    }

    fn not_a_trace(path: &Path, reason: impl Into<String>) -> Self {
        Self::NotATrace { path: path.to_path_buf(), reason: reason.into() }
    }
}

/// Lists the numbers of the closed files of a folder, in order.
fn numbers(folder: &Path) -> Result<Vec<u64>, FolderError> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(FolderError::io(folder))? {
        let name = entry.map_err(FolderError::io(folder))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn closed(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}{SUFFIX}"))
}

fn opened(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!(".{number:06}{SUFFIX}.open"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Gap, Header};
    use crate::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
    use onefold_engine::units::Bytes;

    fn records() -> Vec<Record> {
        let mut write = Record::new(5, Op::Write, Bytes(8192), Bytes(12288));
        write.fua = true;
        write.pid = Some(u32::MAX);
        write.process = Some("jbd2/loop0-8".into());
        write.stream = Some("J".into());
        write.flags = Some("WFS".into());
        write.device = Some("8 1".into());
        write.blocks = vec![
            Block { name: ContentName::Zero, compressed: Some(64) },
            Block { name: ContentName::Of([7; NAME_BYTES_MAX]), compressed: None },
            Block { name: ContentName::Unknown, compressed: Some(4096) },
        ];
        let mut mark = Record::new(u64::MAX, Op::Mark, Bytes(0), Bytes(0));
        mark.note = Some("run".into());
        let plain = Record::new(6, Op::Read, Bytes(u64::MAX - 511), Bytes(512));
        vec![write, Record::new(0, Op::Flush, Bytes(0), Bytes(0)), plain, mark]
    }

    fn header() -> Header {
        Header { width: NAME_BYTES_MAX, clock: "monotonic".to_owned(), ..Header::default() }
    }

    fn read_all(folder: &Path) -> (Header, Vec<Record>) {
        let reader = Reader::open(folder).expect("a trace");
        let header = reader.header().clone();
        (header, reader.map(|record| record.expect("sound")).collect())
    }

    #[test]
    fn records_come_back_in_order_from_many_files() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let folder = place.path().join("t");
        let all: Vec<Record> = (0..5).flat_map(|_| records()).collect();
        let mut writer = Writer::create(&folder, header(), 3).expect("it can be made");
        for record in &all {
            writer.push(record.clone()).expect("it can be written");
        }
        writer.header_mut().gaps.push(Gap { time_ns: 9, requests: 4 });
        writer.finish().expect("it can be closed");
        assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 7);
        assert_eq!(read_all(&folder), (Header { gaps: vec![Gap { time_ns: 9, requests: 4 }], ..header() }, all));
    }

    #[test]
    fn a_crash_loses_the_open_file_alone() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let folder = place.path().join("t");
        let mut writer = Writer::create(&folder, header(), 4).expect("it can be made");
        for record in records().iter().chain(&records()[..2]) {
            writer.push(record.clone()).expect("it can be written");
        }
        std::mem::forget(writer);
        assert_eq!(read_all(&folder).1, records());
        let names = std::fs::read_dir(&folder).expect("it is there").filter_map(Result::ok).map(|entry| entry.file_name());
        assert_eq!(names.filter(|name| name.to_string_lossy().starts_with('.')).count(), 1, "the open file is still there");
    }

    #[test]
    fn an_empty_trace_keeps_its_header_and_a_second_is_refused() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let folder = place.path().join("t");
        Writer::create(&folder, header(), FILE_RECORDS).expect("it can be made").finish().expect("it can be closed");
        assert_eq!(read_all(&folder), (header(), Vec::new()));
        assert!(matches!(Writer::create(&folder, header(), FILE_RECORDS), Err(FolderError::Exists { .. })));
    }

    #[test]
    fn a_folder_that_is_not_a_trace_is_refused() {
        let place = tempfile::tempdir().expect("a temporary directory");
        assert!(matches!(Reader::open(place.path()), Err(FolderError::NotATrace { .. })));
        std::fs::write(closed(place.path(), 0), "PAR1 and nothing else").expect("it can be written");
        assert!(Reader::open(place.path()).is_err());
    }
}
