//! The medium under redb: bytes in memory, and a record of the writes between two syncs.

use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// An operation of redb on its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOperation {
    Wrote { at: u64, bytes: usize },
    Synced,
}

/// A redb file in memory.
#[derive(Debug, Default)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub operations: Vec<FileOperation>,
}

/// One image, shared by redb and the code that replays its operations on a device.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Image>>);

impl Recorder {
    /// Makes a file with this content.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Image { bytes, operations: Vec::new() })))
    }

    /// Locks the image.
    ///
    /// # Panics
    /// Panics if redb panicked before.
    pub fn image(&self) -> MutexGuard<'_, Image> {
        self.0.lock().expect("redb does not panic while it writes")
    }
}

fn range(image: &Image, at: u64, bytes: usize) -> Result<std::ops::Range<usize>, io::Error> {
    let first = usize::try_from(at).map_err(io::Error::other)?;
    let end = first.checked_add(bytes).filter(|&end| end <= image.bytes.len());
    end.map(|end| first..end).ok_or_else(|| io::Error::other(format!("{bytes} bytes at {at} are beyond the end")))
}

impl StorageBackend for Recorder {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.image().bytes.len() as u64)
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, io::Error> {
        let image = self.image();
        Ok(image.bytes[range(&image, offset, len)?].to_vec())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.image().bytes.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn sync_data(&self, _eventual: bool) -> Result<(), io::Error> {
        self.image().operations.push(FileOperation::Synced);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut image = self.image();
        let range = range(&image, offset, data.len())?;
        image.bytes[range].copy_from_slice(data);
        image.operations.push(FileOperation::Wrote { at: offset, bytes: data.len() });
        Ok(())
    }
}
