//! The medium under redb: bytes in memory, and a record of what was written to them between two syncs.

use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What redb did to its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Wrote { at: u64, bytes: usize },
    Synced,
}

/// A file of redb's, in memory.
#[derive(Debug, Default)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub deeds: Vec<Deed>,
}

/// One image, held by redb and by whoever carries its deeds to a device.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Image>>);

impl Recorder {
    /// A file with this content.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Image { bytes, deeds: Vec::new() })))
    }

    /// The image.
    ///
    /// # Panics
    /// After a panic within redb.
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
        self.image().deeds.push(Deed::Synced);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut image = self.image();
        let range = range(&image, offset, data.len())?;
        image.bytes[range].copy_from_slice(data);
        image.deeds.push(Deed::Wrote { at: offset, bytes: data.len() });
        Ok(())
    }
}
