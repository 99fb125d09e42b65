//! The number of times that each application wrote each content, in bounded memory.
//!
//! 1. Occurrences are gathered in a buffer. When it is full, it is sorted, and those of one content in one application are joined.
//! 2. If it is still more than half full, it goes to a temporary file without a name, as a sorted run. All runs are in one file.
//! 3. At the end the runs are merged, so that each content comes once, with all its applications.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The smallest memory that counting needs.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// The bytes of an occurrence, in memory and in a run.
const OCCURRENCE_BYTES: usize = 16;
/// The most bytes of a run that are read at once.
const READ_BYTES_MAX: usize = 1 << 16;
const _: () = assert!(size_of::<Occurrence>() == OCCURRENCE_BYTES);

/// A content that an application wrote, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Occurrence {
    content: u64,
    application: u32,
    times: u32,
}

/// An application that wrote a content, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    pub application: u32,
    pub times: u64,
}

/// A sorted run: its place in the file, in bytes.
#[derive(Clone, Copy, Debug)]
struct Run {
    begin: u64,
    end: u64,
}

/// Gathers occurrences.
pub struct Occurrences {
    buffer: Vec<Occurrence>,
    buffer_max: usize,
    temporary: PathBuf,
    file: Option<File>,
    runs: Vec<Run>,
}

impl Occurrences {
    /// Gathers in this much memory, at least 1 MiB, and beyond that in a file in the directory `temporary`.
    ///
    /// # Errors
    /// Fails if the system does not have that much memory.
    pub fn new(memory_bytes: u64, temporary: &Path) -> io::Result<Self> {
        let memory_bytes = usize::try_from(memory_bytes.max(MEMORY_BYTES_MIN)).unwrap_or(usize::MAX);
        Self::of(memory_bytes / OCCURRENCE_BYTES, temporary)
    }

    fn of(buffer_max: usize, temporary: &Path) -> io::Result<Self> {
        // Reserved at once: a vector that grows by copying takes three times its size for a moment.
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(buffer_max).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { buffer, buffer_max, temporary: temporary.to_path_buf(), file: None, runs: Vec::new() })
    }

    /// Returns the number of bytes that went to the temporary file.
    pub fn bytes_aside(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Notes that an application wrote a content.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written.
    pub fn add(&mut self, content: u64, application: u32) -> io::Result<()> {
        self.buffer.push(Occurrence { content, application, times: 1 });
        if self.buffer.len() < self.buffer_max {
            return Ok(());
        }
        self.join();
        if self.buffer.len() > self.buffer_max / 2 { self.write_run() } else { Ok(()) }
    }

    /// Sorts the buffer, and joins what belongs together.
    fn join(&mut self) {
        self.buffer.sort_unstable();
        self.buffer.dedup_by(|next, kept| {
            let is_same = (next.content, next.application) == (kept.content, kept.application);
            let Some(times) = kept.times.checked_add(next.times).filter(|_| is_same) else { return false };
            kept.times = times;
            true
        });
    }

    fn write_run(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.temporary)?,
        };
        let begin = self.bytes_aside();
        let mut out = BufWriter::with_capacity(READ_BYTES_MAX, &file);
        for occurrence in &self.buffer {
            out.write_all(&occurrence.content.to_le_bytes())?;
            out.write_all(&occurrence.application.to_le_bytes())?;
            out.write_all(&occurrence.times.to_le_bytes())?;
        }
        out.flush()?;
        drop(out);
        let bytes = (self.buffer.len() * OCCURRENCE_BYTES) as u64;
        self.file = Some(file);
        self.runs.push(Run { begin, end: begin + bytes });
        self.buffer.clear();
        Ok(())
    }

    /// Passes each content to `take`: the applications that wrote it, in order, and how often each did.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written or read.
    pub fn each(mut self, take: &mut dyn FnMut(&[Writer])) -> io::Result<()> {
        self.join();
        if self.runs.is_empty() {
            let mut contents = Contents::new(take);
            self.buffer.iter().for_each(|occurrence| contents.add(*occurrence));
            contents.end();
            return Ok(());
        }
        self.write_run()?;
        // The merge has the memory of the buffer.
        self.buffer = Vec::new();
        let file = self.file.expect("runs are in a file");
        merge(&file, &self.runs, self.buffer_max * OCCURRENCE_BYTES, take)
    }
}

/// Joins a sorted sequence of occurrences by content.
struct Contents<'a> {
    content: u64,
    writers: Vec<Writer>,
    take: &'a mut dyn FnMut(&[Writer]),
}

impl<'a> Contents<'a> {
    fn new(take: &'a mut dyn FnMut(&[Writer])) -> Self {
        Self { content: 0, writers: Vec::new(), take }
    }

    fn add(&mut self, next: Occurrence) {
        if self.content != next.content {
            self.end();
            self.content = next.content;
        }
        let times = u64::from(next.times);
        match self.writers.last_mut() {
            Some(writer) if writer.application == next.application => writer.times += times,
            _ => self.writers.push(Writer { application: next.application, times }),
        }
    }

    fn end(&mut self) {
        if !self.writers.is_empty() {
            (self.take)(&self.writers);
            self.writers.clear();
        }
    }
}

/// Merges runs, with at most about `memory_bytes` of buffers.
fn merge(file: &File, runs: &[Run], memory_bytes: usize, take: &mut dyn FnMut(&[Writer])) -> io::Result<()> {
    let read_bytes = (memory_bytes / runs.len()).clamp(OCCURRENCE_BYTES, READ_BYTES_MAX) / OCCURRENCE_BYTES * OCCURRENCE_BYTES;
    let mut readers: Vec<RunReader<'_>> =
        runs.iter().map(|run| RunReader { file, rest: *run, read_bytes, read: Vec::new(), at: 0 }).collect();
    let mut heads = BinaryHeap::with_capacity(runs.len());
    for (number, reader) in readers.iter_mut().enumerate() {
        heads.extend(reader.next()?.map(|head| Reverse((head, number))));
    }
    let mut contents = Contents::new(take);
    while let Some(Reverse((head, number))) = heads.pop() {
        heads.extend(readers[number].next()?.map(|head| Reverse((head, number))));
        contents.add(head);
    }
    contents.end();
    Ok(())
}

/// Reads a run from its beginning.
struct RunReader<'a> {
    file: &'a File,
    rest: Run,
    read_bytes: usize,
    read: Vec<u8>,
    at: usize,
}

impl RunReader<'_> {
    fn next(&mut self) -> io::Result<Option<Occurrence>> {
        if self.at == self.read.len() {
            let rest = usize::try_from(self.rest.end - self.rest.begin).unwrap_or(usize::MAX);
            self.read.resize(self.read_bytes.min(rest), 0);
            self.file.read_exact_at(&mut self.read, self.rest.begin)?;
            self.rest.begin += self.read.len() as u64;
            self.at = 0;
        }
        let Some(bytes) = self.read.get(self.at..self.at + OCCURRENCE_BYTES) else { return Ok(None) };
        self.at += OCCURRENCE_BYTES;
        let content = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Ok(Some(Occurrence { content, application: number(8), times: number(12) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Counted = Vec<Vec<(u32, u64)>>;

    /// Counts 6000 occurrences of 500 contents in 7 applications; returns them by content, and the bytes that went to a file.
    fn counted(buffer_max: usize, place: &Path) -> (Counted, u64) {
        let mut occurrences = Occurrences::of(buffer_max, place).expect("there is memory");
        for number in 0..6000u64 {
            occurrences.add(number * number % 500, u32::try_from(number % 7).expect("small")).expect("it counts");
        }
        let aside = occurrences.bytes_aside();
        let mut counted = Vec::new();
        occurrences
            .each(&mut |writers| counted.push(writers.iter().map(|writer| (writer.application, writer.times)).collect()))
            .expect("it counts");
        (counted, aside)
    }

    #[test]
    fn occurrences_beyond_memory_are_counted() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let mut simple: BTreeMap<u64, BTreeMap<u32, u64>> = BTreeMap::new();
        for number in 0..6000u64 {
            *simple.entry(number * number % 500).or_default().entry(u32::try_from(number % 7).expect("small")).or_default() += 1;
        }
        let simple: Counted = simple.into_values().map(|writers| writers.into_iter().collect()).collect();
        for (buffer_max, goes_aside) in [(10_000, false), (3000, false), (64, true), (2, true)] {
            let (counted, aside) = counted(buffer_max, place.path());
            assert_eq!((counted == simple, aside > 0), (true, goes_aside), "{buffer_max}");
        }
        assert_eq!(std::fs::read_dir(place.path()).expect("it is there").count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_count_beyond_32_bits_is_kept() {
        let mut occurrences = Occurrences::of(4, Path::new("/")).expect("there is memory");
        occurrences.buffer.extend([Occurrence { content: 0, application: 0, times: u32::MAX }; 3]);
        let mut times = 0;
        occurrences.each(&mut |writers| times = writers[0].times).expect("it counts");
        assert_eq!(times, 3 * u64::from(u32::MAX));
    }
}
