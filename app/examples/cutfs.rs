//! A disk that forgets: a FUSE file system with one file, `disk`, that keeps every sector which no fsync has covered apart and, on a
//! signal, drops a seeded subset of them. The test kit's power cut, below the built binary (`./dev cuts`).
//!
//! ```text
//! cutfs MOUNTPOINT MIB SEED      serve until SIGTERM; prints "ready", then a line for each cut
//!   SIGUSR1                      cut the power: drop sectors, and fail every request from now on
//!   SIGHUP                       fail writes, flushes or both from some request on: that one alone, or all that follow
//!   SIGUSR2                      power on again, with nothing failing
//! ```
//!
//! 1. A sector survives as its durable version or as any version written since (A1, A2, A3 of `docs/ordering.md`); what a completed flush
//!    covered always survives.
//! 2. Requests are carried out one at a time, so each write that has returned was issued before whatever is issued later. Only a flush
//!    takes its time, as on a real device: a cut may come while it lasts, and it covers what was written before it began and nothing since.
//! 3. A synced write (`O_DSYNC`, as a write with FUA to a file is) is durable when it returns, it alone.
//! 4. A write that fails may have been written, in whole, in part or not at all; a flush that fails has flushed nothing (A5).
//! 5. The same seed and the same requests drop the same sectors.

use fastrand::Rng;
use onefold::frontend::fuse::session::Session;
use onefold::frontend::fuse::{Config, Fuse};
use onefold::supervision::start::Start;
use onefold::target::{Incoming, Target, TargetInfo};
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Failure, Op, Reply, Segment};
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES, count, index};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::sleep;
use std::time::Duration;

/// Threads that take requests from the kernel.
const THREADS: usize = 2;
const SECTOR: usize = 512;
const FLUSH_US_MAX: u64 = 4000;
/// Writes or flushes that are still carried out before one fails.
const SPARED_MAX: u64 = 24;

/// A device with a volatile cache that loses any part of what it holds.
struct ForgetfulDisk {
    state: Mutex<State>,
    bytes: u64,
}

struct State {
    durable: Vec<u8>,
    /// Sector → the versions that no flush has covered, oldest first, each with the number of its write.
    unflushed: BTreeMap<usize, Vec<(u64, [u8; SECTOR])>>,
    writes: u64,
    powered: bool,
    random: Rng,
    /// How long flushes take.
    pauses: Rng,
    cuts: u64,
    failing: Option<Failing>,
}

/// What fails.
#[derive(Clone, Copy, Debug)]
struct Failing {
    writes: bool,
    flushes: bool,
    /// One of them alone.
    once: bool,
    /// So many of them do not fail yet.
    spared: u64,
}

/// How a cut treats the sectors that no flush has covered.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Each sector by itself: its durable version or any since, each as likely.
    Any,
    /// So many of a hundred sectors keep their newest version, the others their durable one.
    Newest(u64),
    /// Whole pages of eight sectors, newest or durable.
    Pages,
    /// Of each page a part: the sectors below or above a random one are newest, the others durable.
    Torn,
}

impl State {
    fn sector(&self, number: usize) -> &[u8] {
        let durable = &self.durable[number * SECTOR..(number + 1) * SECTOR];
        self.unflushed.get(&number).and_then(|versions| versions.last()).map_or(durable, |(_, version)| &version[..])
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let (sector, start) = ((at + done) / SECTOR, (at + done) % SECTOR);
            let bytes = (SECTOR - start).min(into.len() - done);
            into[done..done + bytes].copy_from_slice(&self.sector(sector)[start..start + bytes]);
            done += bytes;
        }
    }

    /// `data` begins at a sector's beginning and ends at one's end.
    fn write(&mut self, at: usize, data: &[u8]) {
        self.writes += 1;
        for (number, sector) in (at / SECTOR..).zip(data.chunks_exact(SECTOR)) {
            let sector = sector.try_into().expect("chunks of a sector");
            self.unflushed.entry(number).or_default().push((self.writes, sector));
        }
    }

    fn settle(&mut self, number: usize, version: &[u8; SECTOR]) {
        self.durable[number * SECTOR..(number + 1) * SECTOR].copy_from_slice(version);
    }

    /// Settles what was written last to these sectors, and nothing else.
    fn settle_newest(&mut self, sectors: Range<usize>) {
        for number in sectors {
            if let Some((_, version)) = self.unflushed.remove(&number).and_then(|mut versions| versions.pop()) {
                self.settle(number, &version);
            }
        }
    }

    /// Settles what was written up to a write.
    fn flush(&mut self, upto: u64) {
        for (number, mut versions) in std::mem::take(&mut self.unflushed) {
            let later = versions.split_off(versions.partition_point(|(write, _)| *write <= upto));
            if let Some((_, version)) = versions.last() {
                self.settle(number, version);
            }
            if !later.is_empty() {
                self.unflushed.insert(number, later);
            }
        }
    }

    /// Half of the flushes take no time.
    fn pause(&mut self) -> Duration {
        let short = self.pauses.u64(0..2) == 0;
        Duration::from_micros(if short { 0 } else { self.pauses.u64(0..FLUSH_US_MAX) })
    }

    /// Draws what fails from now on.
    fn fail(&mut self) -> String {
        let which = self.random.u64(0..3);
        let (writes, flushes) = (which != 0, which != 1);
        let failing = Failing { writes, flushes, once: self.random.u64(0..2) == 0, spared: self.random.u64(0..SPARED_MAX) };
        self.failing = Some(failing);
        format!("failing: {failing:?}")
    }

    /// Whether a write or flush is one that fails.
    fn fails(&mut self, op: Op) -> bool {
        let Some(failing) = &mut self.failing else { return false };
        if !(if op == Op::Flush { failing.flushes } else { failing.writes }) {
            return false;
        }
        if failing.spared > 0 {
            failing.spared -= 1;
            return false;
        }
        if failing.once {
            self.failing = None;
        }
        true
    }

    fn cut(&mut self) -> String {
        let manner = match self.random.u64(0..8) {
            0 => Manner::Newest(0),
            1 => Manner::Newest(100),
            2 => Manner::Newest(10),
            3 => Manner::Newest(90),
            4 => Manner::Pages,
            5 => Manner::Torn,
            _ => Manner::Any,
        };
        let unflushed = std::mem::take(&mut self.unflushed);
        let (sectors, mut kept) = (unflushed.len(), 0);
        let (mut page, mut chance) = (usize::MAX, 0);
        for (number, versions) in unflushed {
            if number / 8 != page {
                page = number / 8;
                chance = self.random.u64(..);
            }
            let newest = versions.len();
            // 0 keeps the durable version, n the n-th since.
            let choice = match manner {
                Manner::Any => index(self.random.u64(0..=newest as u64)),
                Manner::Newest(percent) if self.random.u64(0..100) < percent => newest,
                Manner::Newest(_) => 0,
                Manner::Pages => newest * index(chance % 2),
                Manner::Torn => {
                    let below = (number as u64 % 8) < chance / 2 % 9;
                    newest * usize::from(below == (chance % 2 == 0))
                }
            };
            if choice > 0 {
                kept += 1;
                self.settle(number, &versions[choice - 1].1);
            }
        }
        self.cuts += 1;
        self.powered = false;
        format!("cut {}: {manner:?}, {sectors} sectors unflushed, {kept} kept", self.cuts)
    }
}

impl ForgetfulDisk {
    fn new(bytes: u64, seed: u64) -> Self {
        let state = State {
            durable: vec![0; index(bytes)],
            unflushed: BTreeMap::new(),
            writes: 0,
            powered: true,
            random: Rng::with_seed(seed),
            pauses: Rng::with_seed(!seed),
            cuts: 0,
            failing: None,
        };
        Self { state: Mutex::new(state), bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panicked with it")
    }

    fn carry_out(&self, request: &mut Incoming) -> Reply {
        let mut state = self.state();
        if !state.powered {
            return Reply::Failed(Failure::Io);
        }
        let (at, bytes) = (index(request.offset), index(request.length));
        match request.op {
            Op::Read => {
                let mut buffer = BufferMut::zeroed(bytes.div_ceil(4096));
                state.read(at, &mut buffer.bytes_mut()[..bytes]);
                let slice = buffer.freeze().slice(0, bytes.div_ceil(4096));
                return Reply::Data(vec![Segment::Data { slice, start: 0, bytes }]);
            }
            Op::Write => {
                let Some(buffer) = request.buffer.take() else { return Reply::Failed(Failure::Invalid) };
                let lead = index(request.offset % BLOCK_BYTES);
                if state.fails(Op::Write) {
                    let written = index(state.random.u64(0..=count(bytes / SECTOR))) * SECTOR;
                    state.write(at, &buffer.bytes()[lead..lead + written]);
                    return Reply::Failed(Failure::Io);
                }
                state.write(at, &buffer.bytes()[lead..lead + bytes]);
                if request.fua {
                    state.settle_newest(at / SECTOR..(at + bytes) / SECTOR);
                }
            }
            Op::Flush if state.fails(Op::Flush) => return Reply::Failed(Failure::Io),
            Op::Flush => {
                let (upto, pause) = (state.writes, state.pause());
                drop(state);
                sleep(pause);
                state = self.state();
                // What a cut took meanwhile is not among the unflushed any more.
                state.flush(upto);
                if !state.powered {
                    return Reply::Failed(Failure::Io);
                }
            }
            Op::Discard | Op::WriteZeroes => state.write(at, &vec![0; bytes]),
            Op::Extents => return Reply::Failed(Failure::Invalid),
        }
        Reply::Done
    }
}

impl Target for ForgetfulDisk {
    fn info(&self) -> TargetInfo {
        TargetInfo { bytes: self.bytes, request_bytes_max: 1 << 20, sector_bytes: 512, read_only: false }
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        Ok(BufferMut::zeroed(blocks))
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        for mut request in batch.drain(..) {
            let misplaced = request.op != Op::Read && (request.offset % SECTOR_BYTES != 0 || request.length % SECTOR_BYTES != 0);
            let outside = request.offset.checked_add(request.length).is_none_or(|end| end > self.bytes);
            let reply = if misplaced || outside { Reply::Failed(Failure::Invalid) } else { self.carry_out(&mut request) };
            (request.done)(reply);
        }
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn run(mountpoint: &Path, mib: &str, seed: &str) -> Result<(), Box<dyn Error>> {
    let disk = Arc::new(ForgetfulDisk::new(mib.parse::<u64>()? << 20, seed.parse()?));
    let mut signals = Signals::new([SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, SIGINT])?;
    let mut session = Session::mount("cutfs", THREADS, 1 << 20)?;
    let root = session.root().ok_or("the session has no mount")?;
    move_mount(root, "", CWD, mountpoint, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    session.release();
    let channels = session.channels().iter().map(std::os::fd::OwnedFd::try_clone).collect::<Result<_, _>>()?;
    let target: Arc<dyn Target> = Arc::clone(&disk) as _;
    // There is no loop device to take away.
    let detach = |_: &Path| Start::of("true");
    let server = Fuse::start(Config { channels, tag: "cutfs".to_owned(), request_bytes: 1 << 20, detach }, target)?;
    say("ready")?;
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => say(&disk.state().cut())?,
            SIGHUP => say(&disk.state().fail())?,
            SIGUSR2 => {
                let mut state = disk.state();
                (state.powered, state.failing) = (true, None);
                drop(state);
                say("power")?;
            }
            _ => break,
        }
    }
    // Whoever still uses it gets errors from now on; the receivers end with the process.
    unmount(mountpoint, UnmountFlags::DETACH)?;
    drop(server);
    drop(session);
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mountpoint, mib, seed] = &arguments[..] else {
        eprintln!("usage: cutfs MOUNTPOINT MIB SEED");
        return ExitCode::from(2);
    };
    match run(Path::new(mountpoint), mib, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cutfs: {e}");
            ExitCode::FAILURE
        }
    }
}
