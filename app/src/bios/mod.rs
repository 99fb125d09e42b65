//! The requests of any disk as records of a trace, as the kernel's block layer gets them, with names for content, files and control groups.
//!
//! 1. Whoever uses the disk never waits: what finds no room in the ring is counted.
//! 2. Content stays in the ring until it is named, by a thread of low priority; 64 blocks of it are copied at most.
//! 3. This process's own requests are left out. What a file system writes because of them, its journal, stays among the others.

mod device;
mod groups;
mod leisure;
pub mod marks;
mod named;
mod paths;
pub mod recording;

pub use device::Device;

use crate::exit::{Exit, Failed, Outcome};
use crate::hints::sight::LOADER;
use groups::Groups;
use leisure::{Leisure, is_busy};
use named::{Blocks, Named, ROUND_BLOCKS};
use onefold_engine::fingerprint::Fingerprinter;
use onefold_engine::units::Bytes;
use onefold_observer::{Event, Means, Observation, Operation, Refused, Request, Source, Wants, Watch};
use onefold_trace::header::Gap;
use onefold_trace::record::{Op, Record};
use onefold_trace::text::names::Names;
use paths::Paths;
use serde::Serialize;
use std::process::Command;
use std::time::Duration;

/// The most requests that wait until content is named.
const ROUND_REQUESTS: usize = 256;

/// The counts of what has been seen and what is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Requests for which the ring had no room.
    pub requests: u64,
    /// Blocks of writes for whose content it had no room; the writes themselves may be among those requests.
    pub blocks: u64,
    /// Pieces of content that the kernel could not read.
    pub unreadable: u64,
    /// Requests of this process, which are left out.
    pub own: u64,
}

/// The requests of a disk.
pub struct Bios {
    watch: Watch,
    round: Round,
    /// The lost requests that gaps have reported.
    lost: u64,
}

/// The requests and the content that are being taken out of the ring.
struct Round {
    content: Blocks,
    named: Named,
    waiting: Vec<Request>,
    leisure: Leisure,
    who: Who,
    own: u64,
}

/// The names by which records call those who write.
struct Who {
    paths: Paths,
    groups: Groups,
    names: Names,
    origin_ns: u64,
    process: u32,
    /// The tracepoint, where there is no BPF, leads to no file.
    sees_files: bool,
}

impl Bios {
    /// Begins, with a ring of at most `ring_bytes`. `reads`: take reads, too.
    ///
    /// # Errors
    /// When the kernel lets this process see nothing.
    pub fn begin(device: &Device, ring_bytes: usize, reads: bool, fingerprinter: Fingerprinter) -> Outcome<Self> {
        let wants = Wants { files: true, names: true, reads };
        let spawn = |socket| Command::new("/proc/self/exe").args(["helper", LOADER]).stdin(socket).spawn();
        let watch =
            Watch::begin_in_child(device.place, &device.path, wants, ring_bytes, spawn).map_err(|refused| failed(&refused, device))?;
        let (origin_ns, process) = (Watch::now_ns(), std::process::id());
        let sees_files = watch.means() == Means::Bpf;
        let (paths, groups, names) = (Paths::new(device), Groups::default(), Names::default());
        let who = Who { paths, groups, names, origin_ns, process, sees_files };
        let (content, named) = (Blocks::new(fingerprinter), Named::default());
        let round = Round { content, named, waiting: Vec::with_capacity(ROUND_REQUESTS), leisure: Leisure::new(), who, own: 0 };
        Ok(Self { watch, round, lost: 0 })
    }

    /// Returns the time at which it began: nanoseconds of the monotonic clock.
    #[must_use]
    pub const fn origin_ns(&self) -> u64 {
        self.round.who.origin_ns
    }

    /// Returns what of the disk is not seen at all, as sentences.
    #[must_use]
    pub fn blind_spots(&self) -> Vec<&'static str> {
        let spots = [
            (self.watch.means() == Means::Tracepoint, "Files are not seen here: the kernel has no BTF, or takes no BPF program."),
            (!self.watch.has_content(), "The content of writes is not seen, as far as this has come."),
            (!self.watch.has_flushes(), "Flushes are not seen here: the disk has no write cache, and the kernel drops them before."),
        ];
        spots.into_iter().filter(|(is, _)| *is).map(|(_, sentence)| sentence).collect()
    }

    /// Returns what names the content.
    #[must_use]
    pub const fn fingerprinter(&self) -> &Fingerprinter {
        self.round.content.fingerprinter()
    }

    /// Returns the size of the device as it began.
    #[must_use]
    pub const fn device_bytes(&self) -> Bytes {
        Bytes(self.watch.place().bytes())
    }

    /// Waits until much has come, or for `time_max`.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&self, time_max: Duration) -> Outcome {
        self.watch.wait(time_max).map_err(|e| Failed::system("cannot wait for the kernel", e))
    }

    /// Passes on what is there, and after it the gap in which requests are missing.
    pub fn gather(&mut self, mut each: impl FnMut(Record)) -> Option<Gap> {
        let round = &mut self.round;
        round.leisure.begin(self.watch.bytes(), self.watch.fullness());
        self.watch.drain(|event| round.take(event, &mut each));
        round.finish(&mut each);
        round.leisure.end();
        let all = self.watch.counts().lost_requests;
        let lost = all - std::mem::replace(&mut self.lost, all);
        (lost > 0).then(|| Gap { time_ns: Watch::now_ns() - self.origin_ns(), requests: lost })
    }

    /// Returns whether content waits in the ring: it should be taken out before anything else is done.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        is_busy(self.watch.fullness())
    }

    /// Returns what is missing so far.
    #[must_use]
    pub fn missing(&self) -> Missing {
        let counts = self.watch.counts();
        Missing { requests: counts.lost_requests, blocks: counts.lost_blocks, unreadable: counts.unreadable, own: self.round.own }
    }
}

impl Round {
    fn take(&mut self, event: Event<'_>, each: &mut impl FnMut(Record)) {
        match event {
            Event::Block { bio, at, content } => {
                self.content.add(bio, at, content);
                if self.content.len() == ROUND_BLOCKS {
                    self.finish(each);
                }
            }
            Event::Request(request) => {
                self.waiting.push(request);
                if self.waiting.len() == ROUND_REQUESTS {
                    self.finish(each);
                }
            }
        }
    }

    /// Names the content that is there, and passes on the requests that waited for it.
    fn finish(&mut self, each: &mut impl FnMut(Record)) {
        self.content.name(&mut self.named, &mut self.leisure);
        for request in self.waiting.drain(..) {
            let blocks = self.named.blocks_of(&request);
            if request.observation.process == self.who.process {
                self.own += 1;
                continue;
            }
            if request.flushes {
                let flags = if request.length == 0 { "F" } else { "F+" };
                let of = self.who.record(&request, Op::Flush);
                each(Record { flags: Some(self.who.names.get(flags)), offset: Bytes(0), length: Bytes(0), file: None, stream: None, ..of });
            }
            if request.length > 0 {
                each(Record { blocks, ..self.who.record(&request, op_of(request.observation.operation)) });
            }
        }
    }
}

impl Who {
    /// Makes the record of a request, without its content.
    fn record(&mut self, request: &Request, op: Op) -> Record {
        let seen = &request.observation;
        let file = seen.file.as_ref().and_then(|file| self.paths.of(file));
        Record {
            fua: seen.fua && op == Op::Write,
            pid: Some(seen.process),
            process: Some(self.names.get(&seen.comm.to_string())),
            stream: stream_of(seen, self.sees_files).map(|stream| self.names.get(stream)),
            flags: Some(self.names.get(&flags_of(seen))),
            file,
            cgroup: self.groups.path_of(seen.cgroup),
            ..Record::new(request.time_ns.saturating_sub(self.origin_ns), op, Bytes(request.offset), Bytes(request.length))
        }
    }
}

const fn op_of(operation: Operation) -> Op {
    match operation {
        Operation::Read => Op::Read,
        Operation::Write => Op::Write,
        Operation::Discard => Op::Discard,
        Operation::WriteZeroes => Op::WriteZeroes,
    }
}

/// Returns the classification of the data: `D` of a file, `O` by direct I/O, `M` metadata, `J` journal.
fn stream_of(seen: &Observation, sees_files: bool) -> Option<&'static str> {
    if matches!(seen.operation, Operation::Discard | Operation::WriteZeroes) {
        return None;
    }
    let source = seen.file.as_ref().map(|file| file.source);
    let is_journal = match source {
        // XFS: its log is no page and no buffer, so that it leads to nothing where others do.
        None if sees_files => seen.meta,
        // ext4: its journal's thread writes into the disk's own pages.
        None | Some(Source::DiskCache) => seen.comm.as_bytes().starts_with(b"jbd2/"),
        _ => false,
    };
    Some(match source {
        _ if is_journal => "J",
        Some(Source::XfsBuffer) => "M",
        _ if seen.meta => "M",
        Some(Source::Direct | Source::Disk) => "O",
        Some(_) => "D",
        // No page of a file: a program's own memory, written to the disk itself.
        None if sees_files => "O",
        None => return None,
    })
}

/// Returns the flags as blktrace shows them.
fn flags_of(seen: &Observation) -> String {
    let operation = match seen.operation {
        Operation::Read => "R",
        Operation::Write => "W",
        Operation::Discard => "D",
        Operation::WriteZeroes => "WZ",
    };
    format!("{operation}{}{}", if seen.fua { "F" } else { "" }, if seen.meta { "M" } else { "" })
}

fn failed(refused: &Refused, device: &Device) -> Failed {
    let message = format!("{} cannot be watched: {refused}", device.path.display());
    match refused {
        Refused::NoDisk { .. } => Failed::new(Exit::NotFound, message).next("`lsblk` shows the disks and their partitions."),
        Refused::NotAllowed { .. } | Refused::LockedDown => Failed::new(Exit::NotPermitted, message).next("Run it as root."),
        Refused::Memory { .. } => Failed::new(Exit::Usage, message),
        _ => Failed::new(Exit::System, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_observer::{Comm, File};

    #[test]
    fn a_journal_is_known_by_its_thread_or_by_leading_nowhere() {
        let seen = |meta, source: Option<Source>, comm: &str| {
            let mut seen = Observation::new(Operation::Write);
            (seen.meta, seen.comm) = (meta, Comm::of(comm));
            seen.file = source.map(|source| File::new(source, 7, None));
            seen
        };
        let cases = [
            (true, Some(Source::DiskCache), "jbd2/sda1-8", "J", "J"),
            (true, Some(Source::DiskCache), "kworker/1:2", "M", "M"),
            (true, None, "kworker/1:2", "J", "M"),
            (true, None, "jbd2/sda1-8", "J", "J"),
            (true, Some(Source::XfsBuffer), "xfsaild/sda1", "M", "M"),
            (false, Some(Source::PageCache), "cp", "D", "D"),
            (false, Some(Source::Direct), "postgres", "O", "O"),
        ];
        for (meta, source, comm, by_bpf, by_tracepoint) in cases {
            let seen = seen(meta, source, comm);
            assert_eq!((stream_of(&seen, true), stream_of(&seen, false)), (Some(by_bpf), Some(by_tracepoint)), "{seen:?}");
        }
        let waited_for = seen(false, None, "dd");
        assert_eq!((stream_of(&waited_for, true), stream_of(&waited_for, false)), (Some("O"), None));
        let discard = Observation::new(Operation::Discard);
        assert_eq!(stream_of(&discard, true), None);
    }
}
