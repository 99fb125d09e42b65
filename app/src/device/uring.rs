//! The io_uring back-end: one thread owns the ring, submits in batches and reaps completions.
//!
//! 1. Only the ring's thread uses the ring. Others queue commands, and wake it if it sleeps; one system call then submits the whole batch
//!    and waits for the first completion.
//! 2. A slot keeps the memory of its command until the kernel has answered, whatever happens meanwhile.
//! 3. The ring carries out reads and writes; a separate thread carries out discards, since the kernel may take long over them.

use super::backing::Backing;
use super::commands::admit;
use super::facts::{Facts, StorePlace};
use super::interface::{Command, Completed, Completions, DEPTH, Device, Sink, Work};
use super::plain::Plain;
use super::registered::Registered;
use super::transfer::{Direction, ended, pieces};
use crate::memory::pool::Pool;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// The largest number of registered arenas: 1 GiB of them.
const REGISTERED_MAX: u32 = 1024;
/// The number of the wake-up read; slots have smaller numbers.
const WAKE: u64 = u64::MAX;
/// The idle class of ioprio_set(2): served when nobody else wants the disk, where its scheduler knows classes.
const IDLE: u16 = 3 << 13;
/// The index of the backing file among the registered files.
const FILE: types::Fixed = types::Fixed(0);

/// A ring over a backing store.
pub struct Uring {
    shared: Arc<Shared>,
    aside: Arc<Plain>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    backing: Arc<Backing>,
    pool: Arc<Pool>,
    sink: Sink,
    queue: Mutex<Vec<Command>>,
    bell: OwnedFd,
    is_asleep: AtomicBool,
    /// A caller wants the receiver called, with or without completions.
    is_called: AtomicBool,
    is_stopping: AtomicBool,
    registers: AtomicBool,
}

impl Uring {
    /// Makes a ring and starts its thread.
    ///
    /// # Errors
    /// When the kernel has no io_uring, or does not allow it.
    pub fn start(backing: Arc<Backing>, pool: Arc<Pool>) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            backing: backing.clone(),
            pool,
            sink: Sink::default(),
            queue: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC)?,
            is_asleep: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            registers: AtomicBool::new(false),
        });
        let (tell, hear) = mpsc::channel();
        let thread = std::thread::Builder::new().name("ring".to_owned()).spawn({
            let shared = shared.clone();
            // The thread that will use the ring makes it: the kernel then need not guard it against others.
            move || match Reactor::new(shared) {
                Ok(reactor) => {
                    let _ = tell.send(Ok(()));
                    reactor.run();
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
        hear.recv().map_err(|_| io::Error::other("the ring's thread died"))??;
        Ok(Arc::new(Self { shared, aside: Plain::start(backing, 1), thread: Mutex::new(Some(thread)) }))
    }
}

impl Device for Uring {
    fn facts(&self) -> &Facts {
        self.shared.backing.facts()
    }

    fn place(&self) -> Option<StorePlace> {
        Some(self.shared.backing.place())
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.aside.connect(sink.clone());
        self.shared.sink.connect(sink);
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        if batch.iter().any(|c| is_slow(&c.work)) {
            let (mut slow, quick): (Vec<_>, Vec<_>) = batch.drain(..).partition(|c| is_slow(&c.work));
            self.aside.submit(&mut slow);
            batch.extend(quick);
        }
        if !batch.is_empty() {
            self.shared.queue().append(batch);
            self.shared.wake();
        }
    }

    fn call(&self) {
        self.shared.is_called.store(true, Ordering::SeqCst);
        self.shared.wake();
    }

    fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The ring's own thread may drop the last reference to a volume, in the middle of a completion.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        self.aside.stop();
    }

    fn takes_fua(&self) -> bool {
        self.facts().takes_fua
    }

    fn method(&self) -> String {
        let registered = if self.shared.registers.load(Ordering::Relaxed) { ", registered buffers" } else { "" };
        let direct = if self.facts().is_direct { ", O_DIRECT" } else { "" };
        format!("io_uring{direct}{registered}")
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Vec<Command>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

fn is_slow(work: &Work) -> bool {
    matches!(work, Work::Discard { .. } | Work::Zero { .. } | Work::Fill { .. })
}

/// A command that the kernel has, and its memory, which must not move.
#[derive(Default)]
struct InKernel {
    command: Option<Command>,
    vector: Vec<libc::iovec>,
    bytes_done: usize,
}

/// The ring, on its thread.
struct Reactor {
    ring: IoUring,
    shared: Arc<Shared>,
    slots: Vec<InKernel>,
    free: Vec<u32>,
    backlog: VecDeque<Command>,
    done: Vec<Completed>,
    arrivals: Vec<Command>,
    rung: Box<u64>,
    buffers: Registered,
}

impl Reactor {
    fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(DEPTH).or_else(|_| IoUring::new(DEPTH))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Writev::CODE, opcode::Fsync::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's io_uring is too old"));
        }
        // All locked files: the ring outlives this process by its last request, and releases its files then (R7).
        ring.submitter().register_files(&shared.backing.files())?;
        let fixed = [opcode::ReadFixed::CODE, opcode::WriteFixed::CODE].iter().all(|&code| probe.is_supported(code));
        let registers = fixed && ring.submitter().register_buffers_sparse(REGISTERED_MAX).is_ok();
        shared.registers.store(registers, Ordering::Relaxed);
        Ok(Self {
            ring,
            shared,
            slots: (0..DEPTH).map(|_| InKernel::default()).collect(),
            free: (0..DEPTH).rev().collect(),
            backlog: VecDeque::new(),
            done: Vec::new(),
            arrivals: Vec::new(),
            rung: Box::new(0),
            buffers: Registered { has: vec![false; REGISTERED_MAX as usize], may_more: registers },
        })
    }

    fn run(mut self) {
        // Unwinding would free memory that the kernel still reads or fills.
        let _guard = crate::abort::AbortOnPanic;
        self.listen();
        loop {
            std::mem::swap(&mut *self.shared.queue(), &mut self.arrivals);
            self.backlog.extend(self.arrivals.drain(..));
            self.feed();
            if self.done.is_empty() && !self.shared.is_called.load(Ordering::SeqCst) {
                if self.shared.is_stopping.load(Ordering::SeqCst) && self.backlog.is_empty() && self.free.len() == self.slots.len() {
                    // The kernel takes its time to tear a ring down, and the file, with its lock, would otherwise stay open until then.
                    let _ = self.ring.submitter().unregister_files();
                    return;
                }
                self.enter();
                self.reap();
            }
            let is_called = self.shared.is_called.swap(false, Ordering::SeqCst);
            if is_called || !self.done.is_empty() {
                self.shared.sink.completed(&mut self.done);
                self.done.clear();
            }
        }
    }

    /// Starts the read that the bell completes.
    fn listen(&mut self) {
        let bell = types::Fd(self.shared.bell.as_raw_fd());
        let entry = opcode::Read::new(bell, std::ptr::from_mut(&mut *self.rung).cast(), 8).build().user_data(WAKE);
        self.push(&entry);
    }

    /// Submits commands while there are free slots.
    fn feed(&mut self) {
        while let Some(&slot) = self.free.last() {
            let Some(command) = self.backlog.pop_front() else { return };
            if let Err(error) = admit(&self.shared.backing, &command.work) {
                self.done.push(Completed { token: command.token, work: command.work, result: Err(error) });
                continue;
            }
            if matches!(command.work, Work::Flush) && self.shared.backing.facts().is_write_through {
                self.done.push(Completed { token: command.token, work: command.work, result: Ok(()) });
                continue;
            }
            self.free.pop();
            self.slots[slot as usize].command = Some(command);
            self.slots[slot as usize].bytes_done = 0;
            self.issue(slot);
        }
    }

    /// Puts a slot's command, or the rest of it, into the submission queue.
    fn issue(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        let done = slot.bytes_done;
        let command = slot.command.as_mut().expect("an issued slot has a command");
        let entry = match &mut command.work {
            Work::Read { at, buffer, skip, bytes, is_idle } => {
                let index = self.buffers.index(buffer.tag(), &self.ring, &self.shared.pool);
                let rest = &mut buffer.bytes_mut()[*skip + done..*skip + *bytes];
                let (memory, length, at) = (rest.as_mut_ptr(), length_of(rest), *at + done as u64);
                let priority = if *is_idle { IDLE } else { 0 };
                match index {
                    Some(index) => opcode::ReadFixed::new(FILE, memory, length, index).offset(at).ioprio(priority).build(),
                    None => opcode::Read::new(FILE, memory, length).offset(at).ioprio(priority).build(),
                }
            }
            Work::Write { at, data, skip, bytes, fua } => {
                // Past the page cache the kernel turns it into one FUA write and nothing else.
                let flags = if *fua { libc::RWF_DSYNC } else { 0 };
                slot.vector.clear();
                let parts = pieces(data, *skip + done, *bytes - done);
                slot.vector.extend(parts.map(|p| libc::iovec { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() }));
                let at = *at + done as u64;
                match (slot.vector.as_slice(), data.as_slice()) {
                    ([one], [slice]) => {
                        let index = self.buffers.index(slice.place().0.tag(), &self.ring, &self.shared.pool);
                        let (memory, length) = (one.iov_base.cast_const().cast(), u32::try_from(one.iov_len).expect("below 4 GiB"));
                        match index {
                            Some(index) => opcode::WriteFixed::new(FILE, memory, length, index).offset(at).rw_flags(flags).build(),
                            None => opcode::Write::new(FILE, memory, length).offset(at).rw_flags(flags).build(),
                        }
                    }
                    (many, _) => {
                        let pieces = u32::try_from(many.len()).expect("at most 1024");
                        opcode::Writev::new(FILE, many.as_ptr(), pieces).offset(at).rw_flags(flags).build()
                    }
                }
            }
            Work::Flush => opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build(),
            Work::Discard { .. } | Work::Zero { .. } | Work::Fill { .. } => unreachable!("done aside"),
        };
        self.push(&entry.user_data(u64::from(number)));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry's memory belongs to the slot (or the bell), which stays until the kernel has answered (invariant 2).
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            let _ = self.ring.submit();
        }
    }

    /// Submits the queued entries; sleeps until something happens, unless a completion is there already.
    fn enter(&mut self) {
        self.shared.is_asleep.store(true, Ordering::SeqCst);
        let want = usize::from(self.shared.queue().is_empty() && !self.shared.is_called.load(Ordering::SeqCst));
        let result = self.ring.submit_and_wait(want);
        self.shared.is_asleep.store(false, Ordering::SeqCst);
        if let Err(error) = result {
            let is_passing = matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY));
            assert!(is_passing, "io_uring_enter: {error}");
        }
    }

    fn reap(&mut self) {
        let mut again = Vec::new();
        let mut is_rung = false;
        for entry in self.ring.completion() {
            if entry.user_data() == WAKE {
                is_rung = true;
                continue;
            }
            let number = u32::try_from(entry.user_data()).expect("slot numbers are small");
            let slot = &mut self.slots[number as usize];
            match slot.answer(&entry) {
                None => again.push(number),
                Some(result) => {
                    let Command { token, work } = slot.command.take().expect("an answered slot has a command");
                    self.done.push(Completed { token, work, result });
                    self.free.push(number);
                }
            }
        }
        again.into_iter().for_each(|number| self.issue(number));
        if is_rung {
            self.listen();
        }
    }
}

impl InKernel {
    /// Interprets the kernel's answer; none where the command continues.
    fn answer(&mut self, entry: &cqueue::Entry) -> Option<io::Result<()>> {
        let command = self.command.as_ref().expect("an answered slot has a command");
        let moved = match usize::try_from(entry.result()) {
            Ok(moved) => moved,
            Err(_) => {
                let error = io::Error::from_raw_os_error(-entry.result());
                let is_passing = matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN));
                return if is_passing { None } else { Some(Err(error)) };
            }
        };
        let (direction, at, bytes) = match command.work {
            Work::Read { at, bytes, .. } => (Direction::Read, at, bytes),
            Work::Write { at, bytes, .. } => (Direction::Write, at, bytes),
            _ => return Some(Ok(())),
        };
        self.bytes_done += moved;
        if moved == 0 && bytes > 0 {
            return Some(Err(ended(io::ErrorKind::UnexpectedEof.into(), direction, at, bytes)));
        }
        (self.bytes_done >= bytes).then_some(Ok(()))
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a request is below 4 GiB")
}
