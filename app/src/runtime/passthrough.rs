//! The bare backing store, behind the same front-ends, buffers and back-ends as a volume: the baseline for every ratio.
//!
//! 1. A request is answered when its I/O is over; one with FUA when a flush after it is over, too.
//! 2. Memory comes from the same pool under the same budget as a volume's.
//! 3. A request is reported to the tap before the device can see it, so before any client can know that it was answered.

use super::condition::{Condition, Counts, memory, state_on};
use super::latency::Latencies;
use super::notices;
use super::recording::entry::{Asked, Content};
use super::recording::tap::Tap;
use super::tally::Tally;
use super::verdict::verdict;
use super::{Closing, Served};
use crate::device::{Command, Completed, Completions, Device, Work};
use crate::memory::pool::Pool;
use crate::target::{Incoming, SharedTarget, Target, TargetInfo, together};
use onefold_engine::buffer::{Buffer, BufferMut, Home};
use onefold_engine::interface::{Event, Extent, ExtentKind, Failure, Op, Reply, Segment};
use onefold_engine::memory::Part;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Pbn, SECTOR_BYTES, count, index};
use slab::Slab;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A bare backing store as a target.
pub struct Passthrough {
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    home: Arc<dyn Home>,
    info: TargetInfo,
    pending: Mutex<Slab<Pending>>,
    idle: Condvar,
    client: Tally,
    commands: Tally,
    /// The commands that the device has failed.
    failed: Tally,
    latencies: Latencies,
    tap: Arc<Tap>,
}

struct Pending {
    done: Box<dyn FnOnce(Reply) + Send>,
    op: Op,
    since: Instant,
    /// A flush has to follow.
    fua: bool,
}

type Answer = (Box<dyn FnOnce(Reply) + Send>, Reply);

impl Passthrough {
    /// Serves `device` with memory of `pool`.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, pool: Arc<Pool>) -> Arc<Self> {
        let facts = device.facts();
        let unit = facts.offset_align.max(SECTOR_BYTES);
        let info = TargetInfo {
            bytes: facts.length / unit * unit,
            request_bytes_max: pool.request_bytes_max(),
            sector_bytes: u32::try_from(unit).unwrap_or(u32::MAX),
            read_only: facts.is_read_only,
        };
        let home = pool.share(Some(Part::Requests));
        let (client, commands, failed) = (Tally::default(), Tally::default(), Tally::default());
        let tap = Arc::new(Tap::new(pool.clone(), info.bytes, None));
        let (pending, idle, latencies) = (Mutex::default(), Condvar::new(), Latencies::default());
        let this = Arc::new(Self { device, pool, home, info, pending, idle, client, commands, failed, latencies, tap });
        let sink: Arc<dyn Completions> = this.clone();
        this.device.connect(Arc::downgrade(&sink));
        this
    }

    fn pending(&self) -> MutexGuard<'_, Slab<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, pending: Pending, work: Work) {
        let token = self.pending().insert(pending) as u64;
        self.device.submit(&mut vec![Command { token, work }]);
    }

    /// Returns a buffer for a read; submits `commands` first where it has to wait for one.
    fn read_buffer(&self, blocks: usize, commands: &mut Vec<Command>) -> Result<BufferMut, Failure> {
        if !self.pool.try_charge_request(blocks) {
            self.device.submit(commands);
            self.pool.charge_request(blocks).map_err(|_| Failure::Io)?;
        }
        Ok(self.home.clone().take(blocks))
    }

    fn work_of(&self, request: &Incoming, written: Option<Buffer>, commands: &mut Vec<Command>) -> Result<Work, Failure> {
        let Incoming { op, offset: at, length, .. } = *request;
        let skip = index(at % BLOCK_BYTES);
        Ok(match op {
            Op::Read => {
                let bytes = index(length);
                let buffer = self.read_buffer((skip + bytes).div_ceil(BLOCK_SIZE), commands)?;
                Work::Read { at, buffer, skip, bytes, is_idle: false }
            }
            Op::Write => {
                let buffer = written.ok_or(Failure::Invalid)?;
                let blocks = buffer.blocks();
                Work::Write { at, data: vec![buffer.slice(0, blocks)], skip, bytes: index(length), fua: false }
            }
            Op::Flush => Work::Flush,
            Op::Discard => Work::Discard { at, length },
            Op::WriteZeroes => Work::Zero { at, length },
            Op::Extents => unreachable!("answered at once"),
        })
    }
}

impl Served for Passthrough {
    fn target(self: Arc<Self>) -> SharedTarget {
        self
    }

    fn order(&self, _order: Event) {}

    fn close(&self) -> Closing {
        self.pool.close();
        drop(self.idle.wait_while(self.pending(), |pending| !pending.is_empty()).unwrap_or_else(PoisonError::into_inner));
        let (tell, hear) = std::sync::mpsc::channel();
        if !self.info.read_only {
            let done = Box::new(move |reply| drop(tell.send(reply)));
            self.start(Pending { done, op: Op::Flush, since: Instant::now(), fua: false }, Work::Flush);
        }
        let closing = match hear.recv() {
            Ok(Reply::Failed(_)) => Closing::Failed,
            _ => Closing::Clean,
        };
        self.device.stop();
        closing
    }

    fn condition(&self) -> Condition {
        let store = self.device.place();
        Condition {
            pid: std::process::id(),
            state: state_on(store.as_ref(), if self.info.read_only { "read-only" } else { "serving" }.to_owned()),
            reason: None,
            bytes: self.info.bytes,
            io: self.device.method(),
            slowed: self.device.slowed(),
            guard: None,
            adaptation: None,
            memory: memory(self.pool.accountant()),
            pool_bytes: count(self.pool.bytes()),
            notices: notices::lines(Vec::new()),
            store,
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            client: self.client.counts(),
            latencies: self.latencies.all(),
            device: self.commands.counts(),
            failed: self.failed.counts(),
            ..Counts::default()
        }
    }

    fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}

impl Target for Passthrough {
    fn info(&self) -> TargetInfo {
        self.info.clone()
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        self.pool.charge_request(blocks).map_err(|_| Failure::Io)?;
        Ok(self.home.clone().take(blocks))
    }

    fn try_buffer(&self, blocks: usize) -> Option<BufferMut> {
        self.pool.try_charge_request(blocks).then(|| self.home.clone().take(blocks))
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        let since = Instant::now();
        // Writes first: they bring their memory, which reads may have to wait for.
        batch.sort_by_key(|request| request.op == Op::Read);
        let mut commands = Vec::with_capacity(batch.len());
        if self.tap.is_on() {
            self.tap.release(batch.len());
        }
        for mut request in batch.drain(..) {
            self.client.count(request.op, request.length);
            if let Some(reply) = verdict(&self.info, &request) {
                (request.done)(reply);
                continue;
            }
            if request.op == Op::Extents {
                // A store does not say which of its bytes are holes.
                let at = |byte| Pbn(byte / BLOCK_BYTES);
                let kind = ExtentKind::Data { first: at(request.offset), last: at(request.offset + request.length - 1) };
                let all = Extent { bytes: request.length, kind };
                (request.done)(Reply::Extents(vec![all]));
                continue;
            }
            // A write's data never changes again (R6): the recorder may read it at any time.
            let written = request.buffer.take().filter(|_| request.op == Op::Write).map(BufferMut::freeze);
            if self.tap.is_on() {
                self.tap.tell(&Asked::of(&request), |_| written.clone().map_or(Content::None, Content::Bytes));
            }
            match self.work_of(&request, written, &mut commands) {
                Ok(work) => {
                    self.commands.count(request.op, request.length);
                    let fua = request.fua && matches!(request.op, Op::Write | Op::WriteZeroes);
                    let token = self.pending().insert(Pending { done: request.done, op: request.op, since, fua }) as u64;
                    commands.push(Command { token, work });
                }
                Err(failure) => (request.done)(Reply::Failed(failure)),
            }
        }
        self.device.submit(&mut commands);
    }
}

impl Completions for Passthrough {
    fn completed(&self, batch: &mut Vec<Completed>) {
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        let (mut flushes, mut replies) = (Vec::new(), Vec::with_capacity(batch.len()));
        let mut pending = self.pending();
        for Completed { token, work, result } in batch.drain(..) {
            let key = index(token);
            if result.is_ok() && std::mem::take(&mut pending[key].fua) {
                self.commands.count(Op::Flush, 0);
                flushes.push(Command { token, work: Work::Flush });
                continue;
            }
            let Pending { done, op, since, .. } = pending.remove(key);
            replies.push((op, since));
            if result.is_err() {
                self.failed.count(op, 0);
            }
            answers.push((done, reply_of(op, work, result)));
        }
        let is_idle = pending.is_empty();
        drop(pending);
        if !flushes.is_empty() {
            self.device.submit(&mut flushes);
        }
        self.latencies.count_all(&mut replies);
        together(|| answers.into_iter().for_each(|(done, reply)| done(reply)));
        if is_idle {
            self.idle.notify_all();
        }
    }
}

fn reply_of(op: Op, work: Work, result: io::Result<()>) -> Reply {
    match (result, work) {
        (Ok(()), Work::Read { buffer, skip, bytes, .. }) => {
            let blocks = buffer.blocks();
            Reply::Data(vec![Segment::Data { slice: buffer.freeze().slice(0, blocks), start: skip, bytes }])
        }
        (Ok(()), _) => Reply::Done,
        (Err(error), _) => {
            tracing::error!(%error, ?op, "the backing store failed");
            Reply::Failed(match error.kind() {
                io::ErrorKind::InvalidInput => Failure::Invalid,
                io::ErrorKind::StorageFull => Failure::NoSpace,
                _ => Failure::Io,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory::MemoryDevice;
    use crate::test_kit::{read, submit};
    use onefold_engine::memory::Accountant;
    use std::sync::mpsc::channel;

    fn rig(budget: u64) -> (Arc<MemoryDevice>, Arc<Passthrough>) {
        let device = MemoryDevice::new(4 << 20);
        (device.clone(), Passthrough::new(device, Pool::new(Accountant::new(budget))))
    }

    fn ask(target: &Passthrough, op: Op, offset: u64, length: u64, fill: Option<u8>, fua: bool) -> Reply {
        let content = fill.map(|fill| vec![fill; index(length)]);
        submit(target, op, offset, length, content.as_deref(), fua).recv().unwrap()
    }

    #[test]
    fn requests_reach_the_store_and_come_back() {
        let (device, target) = rig(16 << 20);
        assert!(matches!(ask(&target, Op::Write, 512, 8192, Some(7), true), Reply::Done));
        assert_eq!(*device.log.lock().unwrap(), ["write", "flush"]);
        let back = read(&*target, 0, 12288).unwrap();
        assert!(back[..512].iter().all(|&b| b == 0) && back[512..8704].iter().all(|&b| b == 7) && back[8704..].iter().all(|&b| b == 0));
        assert!(matches!(ask(&target, Op::WriteZeroes, 1024, 512, None, false), Reply::Done));
        assert_eq!(read(&*target, 1024, 1024).unwrap(), [[0; 512], [7; 512]].concat());
        assert!(matches!(ask(&target, Op::Flush, 0, 0, None, false), Reply::Done));
        assert_eq!(target.close(), Closing::Clean);
    }

    #[test]
    fn what_does_not_fit_is_invalid() {
        let (_, target) = rig(16 << 20);
        for (offset, length) in [(1, 512), (0, 100), (4 << 20, 512), (u64::MAX - 511, 512), (0, u64::MAX - 511)] {
            assert!(matches!(ask(&target, Op::Discard, offset, length, None, false), Reply::Failed(Failure::Invalid)), "{offset} {length}");
        }
        assert_eq!(target.close(), Closing::Clean);
    }

    #[test]
    fn a_batch_larger_than_the_budget_gets_through() {
        let (_, target) = rig(2 << 20);
        let (tell, hear) = channel();
        let mut batch = Vec::new();
        let incoming = |op, n: u64, buffer| {
            let tell = tell.clone();
            let done = Box::new(move |reply: Reply| tell.send(matches!(reply, Reply::Failed(_))).unwrap());
            Incoming { op, offset: n * 65536, length: 65536, buffer, fua: false, done }
        };
        batch.extend((0..32).map(|n| incoming(Op::Read, n, None)));
        batch.extend((0..8).map(|n| incoming(Op::Write, n, Some(target.buffer(16).unwrap()))));
        target.submit(&mut batch);
        assert!((0..40).all(|_| !hear.recv().unwrap()));
        assert_eq!(target.close(), Closing::Clean);
    }
}
