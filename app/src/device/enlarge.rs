//! The length of a backing store that may be in use, and a file that is made longer.

use super::backing::Kind;
use super::measure::room_of;
use onefold_engine::units::SECTOR_BYTES;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Returns the kind of the store at `path`, and its length in bytes.
///
/// # Errors
/// When it cannot be opened.
pub fn length_of(path: &Path) -> io::Result<(Kind, u64)> {
    let mut file = File::open(path)?;
    let kind = if file.metadata()?.file_type().is_block_device() { Kind::Block } else { Kind::File };
    Ok((kind, file.seek(SeekFrom::End(0))?))
}

/// Makes a file longer. One that has all its space already gets the new space at once, too; otherwise it comes when it is written. What
/// the file holds stays as it is, so its volume may be in use, and another process may make it longer still.
///
/// # Errors
/// When the file system refuses, as where it has no room. The file is no shorter than before.
pub fn enlarge(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let stat = file.metadata()?;
    if stat.len() >= length {
        return Ok(());
    }
    let is_whole = stat.blocks() * SECTOR_BYTES >= stat.len();
    let room = room_of(&rustix::fs::fstatvfs(&file)?);
    if is_whole && room.is_some_and(|room| length - stat.len() > room) {
        // The kernel would take all the room that there is before it fails, and the file would keep it.
        return Err(Errno::NOSPC.into());
    }
    let from = if is_whole { stat.len() } else { length - 1 };
    // A truncation would cut off what another process has added meanwhile; this call never makes a file shorter.
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), from, length - from) {
        Err(Errno::OPNOTSUPP) if file.metadata()?.len() < length => rustix::fs::ftruncate(&file, length)?,
        Err(Errno::OPNOTSUPP) | Ok(()) => {}
        Err(other) => return Err(other.into()),
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_way_of_getting_space() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("store");
        for is_whole in [false, true] {
            let file = File::create(&path).unwrap();
            file.set_len(1 << 20).unwrap();
            if is_whole {
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
            }
            enlarge(&path, 2 << 20).unwrap();
            enlarge(&path, 1 << 20).unwrap();
            assert!(matches!(length_of(&path), Ok((Kind::File, length)) if length == 2 << 20), "it never becomes shorter");
            assert_eq!(path.metadata().unwrap().blocks() * 512 >= 2 << 20, is_whole);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
