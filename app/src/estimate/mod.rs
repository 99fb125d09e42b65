//! Estimates what a volume would save of files, trees, images and devices: nothing is written, and memory is bounded.
//!
//! 1. This thread reads, and another one looks at what was read, so that a cold tree takes little longer than reading it.
//! 2. Duplicates are counted of all contents, or, where there is no memory for these, of a sample (`contents.rs`). What packs save is
//!    found out on some runs of blocks (`packs.rs`).
//! 3. A tree needs a file system, and what that writes of its own counts, too (`file_system.rs`).

mod blocks;
pub mod contents;
mod file_system;
pub mod kinds;
mod packs;

pub use blocks::Blocks;
use contents::{Contents, Kind, Seen};
use kinds::Kinds;
use onefold_engine::units::BLOCK_SIZE;
use onefold_trace::scan::ScanError;
use onefold_trace::scan::files::{FileCounts, READ_BYTES, Visitor, read_files};
use packs::Packs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use twox_hash::XxHash3_64;

/// The buffers between the two threads.
const BUFFERS: usize = 8;
/// The memory of an estimate beside its table of contents.
const OVERHEAD_BYTES: u64 = (BUFFERS as u64 + 2) * READ_BYTES as u64;
/// The smallest memory that an estimate needs.
pub const MEMORY_BYTES_MIN: u64 = 2 * OVERHEAD_BYTES;

/// An estimate.
pub struct Estimate {
    pub files: FileCounts,
    pub all: Blocks,
    /// By name.
    pub kinds: Vec<(String, Blocks)>,
    /// One content in this many was looked at.
    pub sampled: u64,
    /// The standard error of the share that is saved.
    pub error: f64,
}

/// Bytes that were read of a kind of files.
struct Read {
    kind: Kind,
    buffer: Vec<u8>,
    bytes: usize,
}

/// The thread that reads.
struct Reader<'a> {
    to_look_at: SyncSender<Read>,
    looked_at: Receiver<Vec<u8>>,
    /// Buffers that were not used yet.
    unused: usize,
    kinds: Kinds,
    kind: Kind,
    bytes: u64,
    listener: &'a mut dyn Listener,
}

/// Hears how an estimate goes on.
pub trait Listener {
    /// This number of bytes has been read.
    fn progress(&mut self, bytes: u64);
    /// Something inside a tree could not be read.
    fn unread(&mut self, error: &ScanError);
}

impl Visitor for Reader<'_> {
    fn begins(&mut self, path: &Path) {
        self.kind = self.kinds.of(path);
    }

    fn blocks(&mut self, buffer: Vec<u8>, bytes: usize) -> Result<Vec<u8>, ScanError> {
        self.bytes += bytes as u64;
        self.listener.progress(self.bytes);
        // The other thread ends before this one only if it panics, which then ends this one, too.
        self.to_look_at.send(Read { kind: self.kind, buffer, bytes }).map_err(|_| ScanError::Interrupted)?;
        if self.unused > 0 {
            self.unused -= 1;
            return Ok(Vec::new());
        }
        self.looked_at.recv().map_err(|_| ScanError::Interrupted)
    }

    fn unread(&mut self, error: &ScanError) {
        self.listener.unread(error);
    }
}

/// The thread that looks at what was read.
struct Looker {
    contents: Contents,
    packs: Packs,
    /// Blocks of zeros and other blocks, by kind.
    blocks: Vec<(u64, u64)>,
}

impl Looker {
    fn run(mut self, reads: &Receiver<Read>, looked_at: &Sender<Vec<u8>>) -> Self {
        for Read { kind, buffer, bytes } in reads {
            for block in buffer[..bytes].chunks_exact(BLOCK_SIZE) {
                self.look_at(kind, block.try_into().expect("a block"));
            }
            // The reader may have ended.
            let _ = looked_at.send(buffer);
        }
        self.packs.end();
        self
    }

    fn look_at(&mut self, kind: Kind, block: &[u8; BLOCK_SIZE]) {
        let number = usize::from(kind);
        if self.blocks.len() <= number {
            self.blocks.resize(number + 1, (0, 0));
        }
        if *block == [0; BLOCK_SIZE] {
            self.blocks[number].0 += 1;
            return;
        }
        self.blocks[number].1 += 1;
        if self.contents.note(XxHash3_64::oneshot(block), kind) != Seen::Again {
            self.packs.add(kind, block);
        }
    }

    #[allow(clippy::cast_precision_loss)] // counts are far below 2^52
    fn estimate(&self, files: FileCounts, kinds: Kinds) -> Estimate {
        let contents = self.contents.by_kind(self.blocks.len());
        let blocks = |number: usize| {
            let ((zero, written), contents) = (self.blocks[number], contents[number]);
            Blocks { zero, written, contents, holders: contents as f64 * self.packs.share(number) }
        };
        let names = kinds.into_names().into_iter();
        let mut kinds: Vec<(String, Blocks)> = names.zip((0..self.blocks.len()).map(blocks)).collect();
        if files.things > 0 && files.files > 0 {
            let content = self.blocks.iter().map(|(zero, written)| zero + written).sum();
            kinds.push((file_system::NAME.to_owned(), file_system::blocks(&files, content)));
        }
        let all: Blocks = kinds.iter().map(|(_, blocks)| *blocks).sum();
        let written = (all.written as f64).max(1.0);
        let (by_contents, by_packs) = (self.contents.error() * all.holders / written, self.packs.error() * all.contents as f64 / written);
        Estimate { files, all, kinds, sampled: self.contents.sampled(), error: by_contents.hypot(by_packs) }
    }
}

/// Estimates what a volume would save of these files, block devices and trees, in about `memory_bytes`, at least [`MEMORY_BYTES_MIN`].
/// `stop`, which another thread sets, ends it early.
///
/// # Errors
/// Fails if something that was named cannot be read, or it was interrupted.
pub fn estimate(paths: &[PathBuf], memory_bytes: u64, stop: &AtomicBool, listener: &mut dyn Listener) -> Result<Estimate, ScanError> {
    let contents = Contents::new(memory_bytes.max(MEMORY_BYTES_MIN) - OVERHEAD_BYTES);
    let looker = Looker { contents, packs: Packs::default(), blocks: Vec::new() };
    let (to_look_at, reads) = sync_channel(BUFFERS);
    let (back, looked_at) = channel();
    thread::scope(|scope| {
        let looking = scope.spawn(move || looker.run(&reads, &back));
        let mut reader = Reader { to_look_at, looked_at, unused: BUFFERS - 1, kinds: Kinds::default(), kind: 0, bytes: 0, listener };
        let files = read_files(paths, Some(stop), &mut reader);
        let Reader { kinds, to_look_at, .. } = reader;
        drop(to_look_at);
        let looker = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        files.map(|files| looker.estimate(files, kinds))
    })
}
