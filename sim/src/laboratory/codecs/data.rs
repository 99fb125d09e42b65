//! The data that are compressed: blocks of real files, or of recorded syncs.
//!
//! Blocks of zeros, and contents that occurred before, are left out: the engine never compresses them.

use super::codec::Block;
use onefold_engine::units::BLOCK_SIZE;
use rustc_hash::FxHashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// The blocks of one path.
#[derive(Default)]
pub struct Data {
    pub name: String,
    pub blocks: Vec<Box<Block>>,
    /// The number of new blocks of each recorded sync, in order; empty for files.
    pub epochs: Vec<usize>,
    /// The number of blocks that were left out.
    pub left_out: usize,
    seen: FxHashSet<u64>,
}

impl Data {
    /// Reads a file, all files below a folder in the order of their names, or syncs (`*.epochs`, made by `tools/workloads/epochs.py`), up
    /// to `most` blocks.
    ///
    /// Fails if something cannot be read, or a recording ends within a sync.
    /// Fails if something cannot be read, or a recording ends within a sync.
    pub fn read(path: &Path, most: usize) -> io::Result<Self> {
        let mut data = Self { name: path.display().to_string(), ..Self::default() };
        if path.extension().is_some_and(|extension| extension == "epochs") {
            data.read_epochs(&mut BufReader::new(File::open(path)?), most)?;
        } else {
            for file in files(path)? {
                data.read_file(&file, most)?;
            }
        }
        Ok(data)
    }

    fn push(&mut self, block: &Block) {
        if *block == [0; BLOCK_SIZE] || !self.seen.insert(XxHash3_64::oneshot(block)) {
            self.left_out += 1;
        } else {
            self.blocks.push(Box::new(*block));
        }
    }

    /// Reads a file whose last block is filled with zeros, as file systems do.
    fn read_file(&mut self, path: &Path, most: usize) -> io::Result<()> {
        let mut file = File::open(path)?;
        loop {
            let mut bytes = Vec::with_capacity(BLOCK_SIZE);
            let read = file.by_ref().take(BLOCK_SIZE as u64).read_to_end(&mut bytes)?;
            if read == 0 || self.blocks.len() >= most {
                return Ok(());
            }
            bytes.resize(BLOCK_SIZE, 0);
            self.push(bytes.first_chunk().expect("a block"));
        }
    }

    fn read_epochs(&mut self, input: &mut impl Read, most: usize) -> io::Result<()> {
        let mut count = [0; 4];
        while self.blocks.len() < most && input.read(&mut count[..1])? == 1 {
            input.read_exact(&mut count[1..])?;
            let before = self.blocks.len();
            for _ in 0..u32::from_le_bytes(count) {
                let (mut number, mut block) = ([0; 8], [0; BLOCK_SIZE]);
                input.read_exact(&mut number)?;
                input.read_exact(&mut block)?;
                self.push(&block);
            }
            if self.blocks.len() > before {
                self.epochs.push(self.blocks.len() - before);
            }
        }
        Ok(())
    }
}

/// Lists the regular files at and below a path.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if !kind.is_dir() {
        return Ok(if kind.is_file() { vec![path.to_owned()] } else { Vec::new() });
    }
    let mut inside = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    inside.sort_unstable();
    let below = inside.iter().map(|path| files(path)).collect::<io::Result<Vec<_>>>()?;
    Ok(below.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cut_into_blocks_and_each_content_counts_once() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("b")).expect("a folder");
        fs::write(folder.path().join("b/deep"), [3; 5000]).expect("a file");
        fs::write(folder.path().join("a"), [[0; BLOCK_SIZE], [3; BLOCK_SIZE]].concat()).expect("a file");
        let data = Data::read(folder.path(), 99).expect("it can be read");
        assert_eq!((data.blocks.len(), data.left_out, data.epochs.len()), (2, 2, 0));
        assert_eq!((data.blocks[0][4095], data.blocks[1][903], data.blocks[1][904]), (3, 3, 0));
        assert_eq!(Data::read(folder.path(), 1).expect("it can be read").blocks.len(), 1);
    }

    #[test]
    fn syncs_keep_what_is_new_in_each() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("some.epochs");
        let mut bytes = Vec::new();
        for epoch in [&[1, 2][..], &[2], &[0, 3]] {
            bytes.extend(u32::try_from(epoch.len()).expect("few").to_le_bytes());
            for &content in epoch {
                bytes.extend(7u64.to_le_bytes());
                bytes.extend([content; BLOCK_SIZE]);
            }
        }
        fs::write(&path, &bytes).expect("a file");
        let data = Data::read(&path, 99).expect("it can be read");
        assert_eq!((data.blocks.len(), data.left_out, data.epochs), (3, 2, vec![2, 1]));
        fs::write(&path, &bytes[..bytes.len() - 1]).expect("a file");
        assert!(Data::read(&path, 99).is_err(), "it ends within a sync");
    }
}
