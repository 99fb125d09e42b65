//! The plain back-end: a few threads, each of which carries out one command at a time and waits for it. It works everywhere.

use super::backing::Backing;
use super::commands::{admit, carry_out};
use super::facts::{Facts, StorePlace};
use super::interface::{Command, Completed, Completions, Device, Sink};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// A thread pool over a backing store.
pub struct Plain {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    backing: Arc<Backing>,
    sink: Sink,
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    commands: VecDeque<Command>,
    is_stopping: bool,
}

impl Plain {
    /// Starts `threads` threads.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn start(backing: Arc<Backing>, threads: usize) -> Arc<Self> {
        let shared = Arc::new(Shared { backing, sink: Sink::default(), queue: Mutex::default(), work: Condvar::new() });
        let threads = (0..threads)
            .map(|n| {
                let shared = shared.clone();
                std::thread::Builder::new().name(format!("io-{n}")).spawn(move || shared.run()).expect("the system has threads left")
            })
            .collect();
        Arc::new(Self { shared, threads: Mutex::new(threads) })
    }
}

impl Device for Plain {
    fn facts(&self) -> &Facts {
        self.shared.backing.facts()
    }

    fn place(&self) -> Option<StorePlace> {
        Some(self.shared.backing.place())
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.shared.sink.connect(sink);
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        let count = batch.len();
        self.shared.queue().commands.extend(batch.drain(..));
        match count {
            0 => {}
            1 => self.shared.work.notify_one(),
            _ => self.shared.work.notify_all(),
        }
    }

    fn call(&self) {
        self.shared.sink.completed(&mut Vec::new());
    }

    fn stop(&self) {
        self.shared.queue().is_stopping = true;
        self.shared.work.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let me = std::thread::current().id();
        for thread in threads {
            // One of these threads may drop the last reference to a volume, in the middle of a completion.
            if thread.thread().id() != me {
                let _ = thread.join();
            }
        }
    }

    fn method(&self) -> String {
        "plain threads".to_owned()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut batch = Vec::with_capacity(1);
        while let Some(Command { token, mut work }) = self.next() {
            let result = admit(&self.backing, &work).and_then(|()| carry_out(&self.backing, &mut work));
            batch.push(Completed { token, work, result });
            self.sink.completed(&mut batch);
            batch.clear();
        }
    }

    /// Returns the next command; none when the device stops and all is done.
    fn next(&self) -> Option<Command> {
        let mut queue = self.queue();
        loop {
            if let Some(command) = queue.commands.pop_front() {
                return Some(command);
            }
            if queue.is_stopping {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
