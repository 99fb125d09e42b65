//! A target in memory, whose writes are volatile until a flush: for tests, and to measure front-ends alone.

use onefold::target::{Incoming, Target, TargetInfo};
use onefold_engine::buffer::{BufferMut, Frame, Home, Slice};
use onefold_engine::interface::{Extent, ExtentKind, Failure, Op, Reply, Segment};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Pbn, index};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The blocks that were written; the others read as zeroes.
type Blocks = Vec<Option<Slice>>;

pub struct RamTarget {
    info: TargetInfo,
    blocks: Arc<Mutex<Disk>>,
    pool: Arc<Pool>,
    /// The thread that serves batches; none for the submitting thread.
    worker: Option<Sender<Vec<Incoming>>>,
    only_reads: bool,
    fails_from: u64,
    /// The numbers of batches and requests that were submitted.
    pub batches: AtomicU64,
    pub requests: AtomicU64,
}

struct Disk {
    now: Blocks,
    durable: Blocks,
    /// Whether to store writes' buffers as they are. Otherwise blocks are copied, so that buffers are returned as soon as a write is done,
    /// as by an engine.
    keeps_buffers: bool,
}

impl RamTarget {
    /// Serves on the submitting thread.
    pub fn new(bytes: u64) -> Self {
        let blocks = vec![None; index(bytes / BLOCK_BYTES)];
        Self {
            info: TargetInfo { bytes, request_bytes_max: 1 << 20, sector_bytes: 512, read_only: false },
            blocks: Arc::new(Mutex::new(Disk { now: blocks.clone(), durable: blocks, keeps_buffers: true })),
            pool: Arc::new(Pool { blocks_max: usize::MAX, state: Mutex::default(), came_back: Condvar::new() }),
            worker: None,
            only_reads: false,
            fails_from: u64::MAX,
            batches: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        }
    }

    /// Serves on a thread of its own, one batch after the other, as an engine does.
    pub fn with_worker(self) -> Self {
        self.with_slow_worker(Duration::ZERO)
    }

    /// Does the same with a delay after each batch.
    pub fn with_slow_worker(mut self, delay: Duration) -> Self {
        let (sender, receiver) = channel::<Vec<Incoming>>();
        let blocks = Arc::clone(&self.blocks);
        std::thread::spawn(move || {
            for batch in receiver {
                if !delay.is_zero() {
                    std::thread::sleep(delay);
                }
                for incoming in batch {
                    serve(&mut lock(&blocks), incoming);
                }
            }
        });
        self.worker = Some(sender);
        self
    }

    /// Serves reads on the worker's thread, and everything else on the submitting one, like a volume that acknowledges writes on admission.
    pub fn with_worker_for_reads(self) -> Self {
        Self { only_reads: true, ..self.with_worker() }
    }

    /// Limits the blocks of buffers for writes that are not stored yet.
    pub fn with_buffers(mut self, blocks_max: usize) -> Self {
        lock(&self.blocks).keeps_buffers = false;
        self.pool = Arc::new(Pool { blocks_max, state: Mutex::default(), came_back: Condvar::new() });
        self
    }

    /// Fills it, so that reads return data and writes replace some.
    pub fn filled(self) -> Self {
        {
            let mut disk = lock(&self.blocks);
            for block in 0..disk.now.len() {
                let mut buffer = self.try_buffer(1).expect("no limit");
                buffer.block_mut(0).fill(block as u8 | 1);
                disk.now[block] = Some(buffer.freeze().slice(0, 1));
            }
        }
        self
    }

    /// Makes reads and writes beyond this offset fail.
    pub fn failing_from(self, offset: u64) -> Self {
        Self { fails_from: offset, ..self }
    }

    pub fn read_only(mut self) -> Self {
        self.info.read_only = true;
        self
    }

    /// Loses what was not flushed.
    pub fn cut_power(&self) {
        let mut disk = lock(&self.blocks);
        disk.now = disk.durable.clone();
    }

    /// Returns the content, zeroes included.
    pub fn content(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for segment in read(&lock(&self.blocks).now, offset, bytes as u64) {
            match segment {
                Segment::Zeroes { bytes } => out.resize(out.len() + index(bytes), 0),
                Segment::Data { slice, start, bytes } => out.extend_from_slice(&slice.bytes()[start..start + bytes]),
            }
        }
        out
    }
}

impl Target for RamTarget {
    fn info(&self) -> TargetInfo {
        self.info.clone()
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        let mut state = self.pool.state.lock().unwrap();
        while state.out > 0 && state.out + blocks > self.pool.blocks_max {
            state.waiting += 1;
            state = self.pool.came_back.wait(state).unwrap();
            state.waiting -= 1;
        }
        Ok(self.pool.hand_out(&mut state, blocks))
    }

    fn try_buffer(&self, blocks: usize) -> Option<BufferMut> {
        let mut state = self.pool.state.lock().unwrap();
        (state.out == 0 || state.out + blocks <= self.pool.blocks_max).then(|| self.pool.hand_out(&mut state, blocks))
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let (failing, sound) = batch.drain(..).partition::<Vec<_>, _>(|asked| asked.offset + asked.length > self.fails_from);
        failing.into_iter().for_each(|asked| (asked.done)(Reply::Failed(Failure::Io)));
        *batch = sound;
        let inline = |incoming| serve(&mut lock(&self.blocks), incoming);
        match &self.worker {
            None => batch.drain(..).for_each(inline),
            Some(worker) if self.only_reads => {
                let (reads, others) = batch.drain(..).partition::<Vec<_>, _>(|incoming| incoming.op == Op::Read);
                worker.send(reads).unwrap();
                others.into_iter().for_each(inline);
            }
            Some(worker) => worker.send(std::mem::take(batch)).unwrap(),
        }
    }
}

fn lock(blocks: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    blocks.lock().unwrap()
}

fn serve(disk: &mut Disk, incoming: Incoming) {
    let Incoming { op, offset, length, buffer, fua, done, .. } = incoming;
    let past_end = offset.checked_add(length).is_none_or(|end| end > disk.now.len() as u64 * BLOCK_BYTES);
    if past_end || offset % 512 != 0 || length % 512 != 0 || (length == 0) != (op == Op::Flush) {
        return done(Reply::Failed(Failure::Invalid));
    }
    let reply = match op {
        Op::Read => Reply::Data(read(&disk.now, offset, length)),
        Op::Flush => {
            disk.durable = disk.now.clone();
            Reply::Done
        }
        Op::Write => {
            write(disk, offset, length, Some(buffer.expect("a write has a buffer")), fua);
            Reply::Done
        }
        Op::Discard | Op::WriteZeroes => {
            write(disk, offset, length, None, fua);
            Reply::Done
        }
        Op::Extents => Reply::Extents(extents(&disk.now, offset, length)),
    };
    done(reply);
}

fn read(blocks: &Blocks, offset: u64, length: u64) -> Vec<Segment> {
    let mut out = Vec::with_capacity(1);
    for (block, start, bytes) in parts(offset, length) {
        match (&blocks[block], out.last_mut()) {
            (None, Some(Segment::Zeroes { bytes: before })) => *before += bytes as u64,
            (None, _) => out.push(Segment::Zeroes { bytes: bytes as u64 }),
            (Some(slice), _) => out.push(Segment::Data { slice: slice.clone(), start, bytes }),
        }
    }
    out
}

fn extents(blocks: &Blocks, offset: u64, length: u64) -> Vec<Extent> {
    let kind_of = |block: usize| {
        if blocks[block].is_some() { ExtentKind::Data { first: Pbn(block as u64), last: Pbn(block as u64) } } else { ExtentKind::Hole }
    };
    parts(offset, length).map(|(block, _, bytes)| Extent { bytes: bytes as u64, kind: kind_of(block) }).collect()
}

/// Stores `buffer`, or zeroes.
fn write(disk: &mut Disk, offset: u64, length: u64, buffer: Option<BufferMut>, fua: bool) {
    let buffer = buffer.map(BufferMut::freeze);
    for (i, (block, start, bytes)) in parts(offset, length).enumerate() {
        let whole = bytes == BLOCK_SIZE;
        let new = if whole && (disk.keeps_buffers || buffer.is_none()) {
            buffer.as_ref().map(|buffer| buffer.slice(i, 1))
        } else {
            let mut copy = BufferMut::zeroed(1);
            if let (false, Some(old)) = (whole, &disk.now[block]) {
                copy.block_mut(0).copy_from_slice(old.block(0));
            }
            match &buffer {
                Some(buffer) => copy.block_mut(0)[start..start + bytes].copy_from_slice(&buffer.block(i)[start..start + bytes]),
                None => copy.block_mut(0)[start..start + bytes].fill(0),
            }
            Some(copy.freeze().slice(0, 1))
        };
        disk.now[block] = new.clone();
        if fua {
            disk.durable[block] = new;
        }
    }
}

/// Lists the blocks of a range: number, first byte within, bytes.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = offset + length;
    (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| {
        let first = offset.max(block * BLOCK_BYTES);
        let last = end.min((block + 1) * BLOCK_BYTES);
        (index(block), index(first % BLOCK_BYTES), index(last - first))
    })
}

/// Buffers for writes: they are counted, and their memory is kept for the next ones.
struct Pool {
    blocks_max: usize,
    state: Mutex<PoolState>,
    came_back: Condvar,
}

#[derive(Default)]
struct PoolState {
    out: usize,
    waiting: usize,
    /// The free buffers, by number of blocks.
    free: HashMap<usize, Vec<Box<[Frame]>>>,
}

impl Pool {
    fn hand_out(self: &Arc<Self>, state: &mut PoolState, blocks: usize) -> BufferMut {
        state.out += blocks;
        let frames = state.free.get_mut(&blocks).and_then(Vec::pop).unwrap_or_else(|| vec![Frame::ZERO; blocks].into_boxed_slice());
        BufferMut::of_pool(frames, 0, Arc::clone(self) as Arc<dyn Home>)
    }
}

impl Home for Pool {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        self.hand_out(&mut self.state.lock().unwrap(), blocks)
    }

    fn give_back(&self, frames: Box<[Frame]>, _tag: u32) {
        let mut state = self.state.lock().unwrap();
        state.out -= frames.len();
        state.free.entry(frames.len()).or_default().push(frames);
        if state.waiting > 0 {
            self.came_back.notify_all();
        }
    }
}
