//! The observer of one disk.

use crate::join::Joiner;
use crate::loader::Task;
use crate::observation::Operation;
use crate::refused::Refused;
use crate::runs::Runs;
use crate::source::{Bpf, Record, Sight, Tracepoint};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;

/// The number of a whole disk, as `lsblk` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Disk {
    pub major: u32,
    pub minor: u32,
}

/// The facts to look for, beyond those that each bio has at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// The file: its inode, its owner, and the place in it.
    pub files: bool,
    /// The file's name and its directory's inode; this implies `files`.
    pub names: bool,
    /// Reads, beside writes, discards and writes of zeroes.
    pub reads: bool,
}

/// The counts of an observer since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Bios of the disk that were seen, without those that were lost.
    pub bios: u64,
    /// Bios for which a ring had no room. By the tracepoint they may be of other disks of the same kind, for these share the rings.
    pub lost: u64,
    /// Blocks of requests that were joined to an observation.
    pub joined_blocks: u64,
    /// Blocks of requests of which nothing was known for certain.
    pub unknown_blocks: u64,
    /// Those of them for which observations contradicted each other.
    pub ambiguous_blocks: u64,
    /// Observations for which no request came in time.
    pub expired: u64,
    /// Observations that were forgotten after a loss, or because there were too many.
    pub forgotten: u64,
    /// Observations that wait for their requests now.
    pub pending: u64,
    /// Bytes of memory in use, with the ring.
    pub memory_bytes: u64,
}

/// The observer of one disk. Threads may share it.
pub struct Observer {
    wants: Wants,
    state: Mutex<State>,
}

struct State {
    sight: Sight,
    joiner: Joiner,
    lost: u64,
}

/// By what the kernel is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// A BPF program, which needs the kernel's BTF.
    Bpf,
    /// The classic tracepoint `block:block_bio_queue`: without files, lifetimes and control groups.
    Tracepoint,
}

/// Below this a ring would lose what a single request of a big file brings.
const MEMORY_BYTES_MIN: usize = 128 << 10;

impl Observer {
    /// Begins to observe a disk, with at most `memory_bytes`, half of it for rings: by BPF, or by the tracepoint where there is no BPF.
    ///
    /// The BPF program is loaded by a child process, since that takes 32 MiB. `spawn` starts it, from this thread: a process of the same
    /// build as this one, with the given standard input, which calls [`load_for_parent`](crate::load_for_parent) and exits. It takes about
    /// a quarter of a second, and has ended when this returns. After ten seconds it is killed.
    ///
    /// # Errors
    /// Returns why neither is possible, or why the child failed.
    pub fn begin_in_child(
        disk: Disk,
        wants: Wants,
        memory_bytes: usize,
        spawn: impl FnOnce(Stdio) -> io::Result<Child>,
    ) -> Result<Self, Refused> {
        check(disk, memory_bytes)?;
        let bpf = match Bpf::begin(disk, wants, Task::Observe, memory_bytes / 2, spawn) {
            Ok(bpf) => return Ok(Self::new(Sight::Bpf(Box::new(bpf)), wants, memory_bytes)),
            Err(refused) if refused.leaves_tracepoint() => refused,
            Err(refused) => return Err(refused),
        };
        let tracepoint = Self::begin_by_tracepoint(disk, wants, memory_bytes);
        tracepoint.map_err(|tracepoint| Refused::Neither { bpf: Box::new(bpf), tracepoint: Box::new(tracepoint) })
    }

    /// Begins to observe a disk by the tracepoint only, which needs no child process.
    ///
    /// # Errors
    /// Returns why that is not possible.
    pub fn begin_by_tracepoint(disk: Disk, wants: Wants, memory_bytes: usize) -> Result<Self, Refused> {
        check(disk, memory_bytes)?;
        let tracepoint = Tracepoint::begin(disk, wants, false, memory_bytes / 2)?;
        Ok(Self::new(Sight::Tracepoint(Box::new(tracepoint)), wants, memory_bytes))
    }

    fn new(sight: Sight, wants: Wants, memory_bytes: usize) -> Self {
        Self { wants, state: Mutex::new(State { sight, joiner: Joiner::new(memory_bytes / 2), lost: 0 }) }
    }

    /// Returns by what it asks the kernel.
    pub fn means(&self) -> Means {
        match self.state.lock() {
            Ok(state) => state.sight.means(),
            Err(poisoned) => poisoned.into_inner().sight.means(),
        }
    }

    /// Returns what the kernel knew of a request that has arrived: `length` bytes at `offset` of the disk. Each request is to be looked up
    /// once, for it uses up what it finds.
    pub fn seen(&self, operation: Operation, offset: u64, length: u64) -> Runs {
        if operation == Operation::Read && !self.wants.reads {
            return Runs::unknown(offset, length);
        }
        let now = now_ns();
        // A panic under the lock has left a state in which nothing is certain.
        let Ok(mut state) = self.state.lock() else { return Runs::unknown(offset, length) };
        let is_behind = state.drain();
        state.joiner.expire(now);
        state.joiner.take(operation, offset, length, now, is_behind)
    }

    /// Begins anew: from now on each request is looked up. The requests of bios from before this may have passed without that, and their
    /// observations would be joined to the next ones.
    pub fn begin_anew(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.drain();
            state.joiner.begin_at(now_ns());
        }
    }

    /// Returns what has been counted so far.
    pub fn counts(&self) -> Counts {
        let now = now_ns();
        let state = match self.state.lock() {
            Ok(mut state) => {
                state.drain();
                state.joiner.expire(now);
                state
            }
            Err(poisoned) => poisoned.into_inner(),
        };
        let tally = state.joiner.tally();
        Counts {
            bios: tally.bios,
            lost: state.lost,
            joined_blocks: tally.joined_blocks,
            unknown_blocks: tally.unknown_blocks,
            ambiguous_blocks: tally.ambiguous_blocks,
            expired: tally.expired,
            forgotten: tally.forgotten,
            pending: state.joiner.pending() as u64,
            memory_bytes: (state.sight.bytes() + state.joiner.bytes()) as u64,
        }
    }
}

impl State {
    /// Takes what is in the ring, and returns whether something is hidden.
    fn drain(&mut self) -> bool {
        let joiner = &mut self.joiner;
        let drained = self.sight.drain(|record| {
            if let Record::Seen(seen) = record {
                joiner.insert(seen.bio);
            }
        });
        if drained.has_lost {
            joiner.forget_all();
        }
        if !drained.is_behind {
            joiner.caught_up();
        }
        self.lost += drained.lost;
        drained.is_behind
    }
}

/// Checks that there is such a disk, that it is a whole one, and that the memory is enough.
fn check(disk: Disk, memory_bytes: usize) -> Result<(), Refused> {
    let folder = PathBuf::from(format!("/sys/dev/block/{disk}"));
    std::fs::metadata(&folder).map_err(|source| Refused::NoDisk { disk, source })?;
    if folder.join("partition").exists() {
        return Err(Refused::Partition { disk });
    }
    let least = MEMORY_BYTES_MIN.max(2 * rustix::param::page_size());
    if memory_bytes < least { Err(Refused::Memory { given: memory_bytes, least }) } else { Ok(()) }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The kernel's `ktime_get_ns`, by which observations are stamped. It needs no system call.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
