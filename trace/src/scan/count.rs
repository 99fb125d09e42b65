//! Counting contents in bounded memory. When the table of contents is full, it is written to a file as a sorted run; at the end all runs
//! are merged.

use crate::size::{STEP_BYTES, size_of};
use crate::synth::Distribution;
use onefold_engine::units::BLOCK_SIZE;
use rustc_hash::FxBuildHasher;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// The memory that a content of the table costs at most: its entry, counted twice because the table grows by copying, and its place in the
/// sorted run.
const CONTENT_BYTES: usize = 64;
/// The smallest memory that counting needs.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// The bytes of a content in a run.
const RECORD_BYTES: usize = 17;

/// The increment of an entry for one occurrence.
const ONCE: u64 = 1 << 8;

/// A content of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CountedContent {
    hash: u64,
    times: u64,
    /// The compressed size, in steps of [`STEP_BYTES`].
    steps: u8,
}

impl CountedContent {
    fn new(hash: u64, known: u64) -> Self {
        Self { hash, times: known / ONCE, steps: u8::try_from(known % ONCE).expect("a byte") }
    }
}

/// Counts block by block.
pub struct Counting {
    /// By hash: the number of occurrences and, in the lowest byte, the compressed size in steps.
    known: HashMap<u64, u64, FxBuildHasher>,
    known_max: usize,
    runs: Vec<File>,
    temporary: PathBuf,
    zero_blocks: u64,
}

impl Counting {
    /// Counts in this much memory, at least 1 MiB, and beyond that in files in the directory `temporary`.
    #[must_use]
    pub fn new(memory_bytes: u64, temporary: &Path) -> Self {
        let memory_bytes = usize::try_from(memory_bytes.max(MEMORY_BYTES_MIN)).unwrap_or(usize::MAX);
        Self {
            known: HashMap::default(),
            known_max: memory_bytes / CONTENT_BYTES,
            runs: Vec::new(),
            temporary: temporary.to_path_buf(),
            zero_blocks: 0,
        }
    }

    /// Returns the number of temporary files that were needed.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Counts a block.
    ///
    /// # Errors
    /// Fails if a temporary file cannot be written.
    pub fn block(&mut self, block: &[u8; BLOCK_SIZE]) -> io::Result<()> {
        if block.iter().all(|byte| *byte == 0) {
            self.zero_blocks += 1;
            return Ok(());
        }
        let hash = XxHash3_64::oneshot(block);
        if let Some(known) = self.known.get_mut(&hash) {
            *known += ONCE;
            return Ok(());
        }
        let steps = size_of(block) / STEP_BYTES;
        self.known.insert(hash, ONCE | u64::from(steps));
        if self.known.len() >= self.known_max { self.write_run() } else { Ok(()) }
    }

    fn write_run(&mut self) -> io::Result<()> {
        let mut sorted: Vec<CountedContent> = self.known.drain().map(|(hash, known)| CountedContent::new(hash, known)).collect();
        sorted.sort_unstable();
        let mut run = BufWriter::new(tempfile::tempfile_in(&self.temporary)?);
        for content in sorted {
            run.write_all(&content.hash.to_le_bytes())?;
            run.write_all(&content.times.to_le_bytes())?;
            run.write_all(&[content.steps])?;
        }
        let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?;
        run.rewind()?;
        self.runs.push(run);
        Ok(())
    }

    /// Returns the counted distribution.
    ///
    /// # Errors
    /// Fails if a temporary file cannot be written or read.
    pub fn finish(mut self) -> io::Result<Distribution> {
        let (mut occurrences, mut compressed) = (BTreeMap::new(), BTreeMap::new());
        let mut count = |times: u64, steps: u8| {
            *occurrences.entry(times).or_insert(0) += 1;
            *compressed.entry(u16::from(steps) * STEP_BYTES).or_insert(0) += 1;
        };
        if self.runs.is_empty() {
            self.known
                .iter()
                .map(|(hash, known)| CountedContent::new(*hash, *known))
                .for_each(|content| count(content.times, content.steps));
        } else {
            self.write_run()?;
            merge(std::mem::take(&mut self.runs), &mut count)?;
        }
        Ok(Distribution::new(self.zero_blocks, &occurrences, &compressed))
    }
}

/// Passes each content of all runs to `count`, with its total number of occurrences.
fn merge(runs: Vec<File>, count: &mut dyn FnMut(u64, u8)) -> io::Result<()> {
    let mut runs: Vec<BufReader<File>> = runs.into_iter().map(BufReader::new).collect();
    let mut heads = BinaryHeap::new();
    for (index, run) in runs.iter_mut().enumerate() {
        heads.extend(read(run)?.map(|head| Reverse((head, index))));
    }
    let mut content: Option<CountedContent> = None;
    while let Some(Reverse((head, index))) = heads.pop() {
        heads.extend(read(&mut runs[index])?.map(|head| Reverse((head, index))));
        match &mut content {
            Some(content) if content.hash == head.hash => content.times += head.times,
            _ => {
                if let Some(whole) = content.replace(head) {
                    count(whole.times, whole.steps);
                }
            }
        }
    }
    if let Some(whole) = content {
        count(whole.times, whole.steps);
    }
    Ok(())
}

fn read(run: &mut BufReader<File>) -> io::Result<Option<CountedContent>> {
    let mut record = [0; RECORD_BYTES];
    match run.read_exact(&mut record) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    Ok(Some(CountedContent { hash: number(0), times: number(8), steps: record[16] }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Occurring;

    fn block(number: u64) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        block[..8].copy_from_slice(&number.to_le_bytes());
        block[8] = 1;
        block
    }

    #[test]
    fn contents_beyond_memory_are_counted() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let distribution = |known_max| {
            let mut counting = Counting { known_max, ..Counting::new(0, place.path()) };
            // Content n occurs n % 4 + 1 times, far apart.
            for round in 0..4 {
                for number in (0..1000).filter(|number| number % 4 >= round) {
                    counting.block(&block(number)).expect("it counts");
                }
                counting.block(&[0; BLOCK_SIZE]).expect("it counts");
            }
            (counting.runs(), counting.finish().expect("it counts"))
        };
        let (none, in_memory) = distribution(2000);
        let (many, in_files) = distribution(100);
        assert!(none == 0 && many > 20, "{none} {many}");
        assert_eq!(in_memory, in_files);
        assert_eq!(in_memory.occurring(), [1, 2, 3, 4].map(|times| Occurring { times, contents: 250 }));
        assert_eq!((in_memory.zero_blocks, in_memory.blocks(), in_memory.contents()), (4, 2504, 1000));
        assert_eq!(std::fs::read_dir(place.path()).expect("it is there").count(), 0, "nothing is left behind");
    }
}
