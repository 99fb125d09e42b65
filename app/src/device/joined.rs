//! Writes that continue one another reach the device in one command: of flash, a command costs more than some further blocks of it do.
//!
//! 1. A write that begins where another ends belongs to the same run. While a command of its run is under way it is held back, with what
//!    continues it. It goes when no command of the run is under way any more, or when there is enough for a large command. So a write that
//!    continues nothing never waits, and a device that is fast has little to wait for.
//! 2. Writes with FUA are commands of their own, and no other kind of command ever waits. A flush covers what was completed before, so it
//!    need not wait for what is held back.
//! 3. All writes of a command have its result. None of them may be carried out alone after it has failed (A5).

use super::facts::{Facts, StorePlace};
use super::interface::{Command, Completed, Completions, Device, Sink, Slowed, Work};
use onefold_engine::buffer::Slice;
use slab::Slab;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The most bytes of a command that is made of several writes.
const JOINED_BYTES_MAX: usize = 1 << 20;
/// The least bytes of a command that goes while others of its run are under way.
const LARGE_BYTES: usize = 256 << 10;

/// A device whose neighbouring writes are joined.
pub struct Joined {
    inner: Arc<dyn Device>,
    shared: Arc<Shared>,
}

struct Shared {
    /// The way to the device for what was held back.
    inner: Weak<dyn Device>,
    sink: Sink,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: Slab<UnderWay>,
    runs: Slab<Run>,
    /// The run that a write at this byte continues.
    by_end: HashMap<u64, usize>,
    is_stopping: bool,
}

/// A command that the device has.
enum UnderWay {
    /// One that may not be joined, by its submitter's name.
    Alone { token: u64 },
    /// One of a run, made of these writes.
    OfRun { run: usize, writes: Vec<Write> },
}

/// A write that may be joined with others.
struct Write {
    token: u64,
    at: u64,
    data: Vec<Slice>,
    bytes: usize,
}

/// Writes each of which begins where the one before it ends.
#[derive(Default)]
struct Run {
    end: u64,
    under_way: usize,
    held: VecDeque<Write>,
    held_bytes: usize,
}

impl Joined {
    /// Joins the neighbouring writes that `inner` gets.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        let shared = Arc::new(Shared { inner: Arc::downgrade(&inner), sink: Sink::default(), state: Mutex::default() });
        Arc::new(Self { inner, shared })
    }
}

impl Device for Joined {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.shared.sink.connect(sink);
        let here: Arc<dyn Completions> = self.shared.clone();
        self.inner.connect(Arc::downgrade(&here));
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        let mut ready = self.shared.state().take(batch);
        self.inner.submit(&mut ready);
    }

    fn call(&self) {
        self.inner.call();
    }

    fn stop(&self) {
        // From now on nothing is held back, since a device that has stopped takes no more.
        let mut ready = self.shared.state().release_all();
        self.inner.submit(&mut ready);
        self.inner.stop();
    }

    fn method(&self) -> String {
        self.inner.method()
    }

    fn takes_fua(&self) -> bool {
        self.inner.takes_fua()
    }

    fn place(&self) -> Option<StorePlace> {
        self.inner.place()
    }

    fn slowed(&self) -> Option<Slowed> {
        self.inner.slowed()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Completions for Shared {
    fn completed(&self, batch: &mut Vec<Completed>) {
        let (mut done, mut ready) = (Vec::with_capacity(batch.len()), Vec::new());
        let mut state = self.state();
        batch.drain(..).for_each(|completed| state.end(completed, &mut done, &mut ready));
        drop(state);
        if let Some(inner) = self.inner.upgrade().filter(|_| !ready.is_empty()) {
            inner.submit(&mut ready);
        }
        self.sink.completed(&mut done);
    }
}

impl State {
    /// Takes commands. Returns those that go to the device now.
    fn take(&mut self, batch: &mut Vec<Command>) -> Vec<Command> {
        let (mut ready, mut grown) = (Vec::with_capacity(batch.len()), Vec::new());
        for Command { token, work } in batch.drain(..) {
            match work {
                Work::Write { at, data, skip: 0, bytes, fua: false } if bytes == bytes_of(&data) => {
                    grown.push(self.hold(Write { token, at, data, bytes }));
                }
                work => ready.push(Command { token: self.name(UnderWay::Alone { token }), work }),
            }
        }
        grown.dedup();
        grown.into_iter().for_each(|run| self.release(run, &mut ready));
        ready
    }

    fn name(&mut self, under_way: UnderWay) -> u64 {
        self.under_way.insert(under_way) as u64
    }

    /// Holds a write back, and returns its run.
    fn hold(&mut self, write: Write) -> usize {
        let number = self.by_end.remove(&write.at).unwrap_or_else(|| self.runs.insert(Run::default()));
        let run = &mut self.runs[number];
        run.end = write.at + write.bytes as u64;
        run.held_bytes += write.bytes;
        run.held.push_back(write);
        // Of two runs that end at one place the later one is continued.
        self.by_end.insert(run.end, number);
        number
    }

    /// Lets the writes of a run go that need not wait.
    fn release(&mut self, number: usize, ready: &mut Vec<Command>) {
        let run = &mut self.runs[number];
        while run.under_way == 0 || run.held_bytes >= LARGE_BYTES || self.is_stopping {
            let writes = run.next_command();
            let Some(at) = writes.first().map(|write| write.at) else { break };
            let work = Work::Write { at, data: joined(&writes), skip: 0, bytes: writes.iter().map(|write| write.bytes).sum(), fua: false };
            run.under_way += 1;
            let token = self.under_way.insert(UnderWay::OfRun { run: number, writes }) as u64;
            ready.push(Command { token, work });
        }
    }

    /// Lets all that is held back go, now and from now on.
    fn release_all(&mut self) -> Vec<Command> {
        self.is_stopping = true;
        let (mut ready, runs) = (Vec::new(), self.runs.iter().map(|(number, _)| number).collect::<Vec<_>>());
        runs.into_iter().for_each(|run| self.release(run, &mut ready));
        ready
    }

    /// A command of the device has ended: `done` gets the commands that it was made of, and `ready` what need not wait for it any more.
    fn end(&mut self, completed: Completed, done: &mut Vec<Completed>, ready: &mut Vec<Command>) {
        let Completed { token, work, result } = completed;
        let name = usize::try_from(token).expect("it is our own");
        match self.under_way.remove(name) {
            UnderWay::Alone { token } => done.push(Completed { token, work, result }),
            UnderWay::OfRun { run, writes } => {
                for Write { token, at, data, bytes } in writes {
                    let work = Work::Write { at, data, skip: 0, bytes, fua: false };
                    done.push(Completed { token, work, result: result.as_ref().copied().map_err(same) });
                }
                self.runs[run].under_way -= 1;
                self.release(run, ready);
                self.forget_if_over(run);
            }
        }
    }

    /// Forgets a run of which nothing is under way: what continues it later is a run of its own.
    fn forget_if_over(&mut self, number: usize) {
        if self.runs[number].under_way == 0 {
            let run = self.runs.remove(number);
            if self.by_end.get(&run.end) == Some(&number) {
                self.by_end.remove(&run.end);
            }
        }
    }
}

impl Run {
    /// Takes the writes of the next command; none where nothing is held back.
    fn next_command(&mut self) -> Vec<Write> {
        let (mut writes, mut bytes) = (Vec::new(), 0);
        while self.held.front().is_some_and(|next| bytes == 0 || bytes + next.bytes <= JOINED_BYTES_MAX) {
            let Some(next) = self.held.pop_front() else { break };
            bytes += next.bytes;
            writes.push(next);
        }
        self.held_bytes -= bytes;
        writes
    }
}

/// The data of all these writes. What lies together in one buffer is one slice.
fn joined(writes: &[Write]) -> Vec<Slice> {
    let mut all: Vec<Slice> = Vec::with_capacity(writes.len());
    for slice in writes.iter().flat_map(|write| &write.data) {
        let rest = match all.last_mut() {
            Some(last) => last.join(slice.clone()),
            None => Some(slice.clone()),
        };
        all.extend(rest);
    }
    all
}

fn bytes_of(data: &[Slice]) -> usize {
    data.iter().map(|slice| slice.bytes().len()).sum()
}

fn same(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}
