//! A device in memory, for tests: a store that forgets everything when it is dropped.

use super::facts::{Facts, Kind};
use super::interface::{Command, Completed, Completions, Device, Sink, Work};
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};

/// The memory of a [`MemoryDevice`]; several devices, one after the other, may share it.
pub type Memory = Arc<Mutex<Vec<u8>>>;

/// The condition by which commands fail.
type Fault = fn(&Work) -> bool;

/// Bytes in memory behind the device trait; one thread answers commands in the order of submission.
pub struct MemoryDevice {
    facts: Facts,
    sink: Arc<Sink>,
    /// The queue of commands; none in it stands for a call of the receiver.
    commands: Mutex<Option<Sender<Option<Command>>>>,
    fault: Arc<Mutex<Fault>>,
    /// The number of the system's error that such commands end with.
    errno: Arc<AtomicI32>,
    /// The commands done, in order.
    pub log: Arc<Mutex<Vec<&'static str>>>,
}

impl MemoryDevice {
    /// Returns a device of `length` zeros.
    pub fn new(length: usize) -> Arc<Self> {
        Self::over(Arc::new(Mutex::new(vec![0; length])))
    }

    /// Returns a device with the content of `memory`.
    pub fn over(memory: Memory) -> Arc<Self> {
        let sink: Arc<Sink> = Arc::default();
        let log: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let fault: Arc<Mutex<Fault>> = Arc::new(Mutex::new(|_| false));
        let errno = Arc::new(AtomicI32::new(libc::EIO));
        let length = memory.lock().unwrap().len();
        let (sender, receiver) = channel::<Option<Command>>();
        std::thread::spawn({
            let (sink, log, fault, errno) = (sink.clone(), log.clone(), fault.clone(), errno.clone());
            move || {
                for command in receiver {
                    let Some(Command { token, mut work }) = command else {
                        sink.completed(&mut Vec::new());
                        continue;
                    };
                    log.lock().unwrap().push(work.name());
                    let is_broken = fault.lock().unwrap()(&work);
                    let result = if is_broken {
                        Err(io::Error::from_raw_os_error(errno.load(Ordering::SeqCst)))
                    } else {
                        carry_out(&mut memory.lock().unwrap(), &mut work)
                    };
                    sink.completed(&mut vec![Completed { token, work, result }]);
                }
            }
        });
        Arc::new(Self { facts: facts(length as u64), sink, commands: Mutex::new(Some(sender)), fault, errno, log })
    }

    fn send(&self, command: Option<Command>) {
        self.commands.lock().unwrap().as_ref().expect("a stopped device gets no command").send(command).unwrap();
    }

    /// Makes these commands fail from now on.
    pub fn break_at(&self, fault: Fault) {
        self.refuse_at(libc::EIO, fault);
    }

    /// Makes these commands end with this error from now on.
    pub fn refuse_at(&self, errno: i32, fault: Fault) {
        self.errno.store(errno, Ordering::SeqCst);
        *self.fault.lock().unwrap() = fault;
    }
}

fn facts(length: u64) -> Facts {
    Facts {
        path: "memory".into(),
        kind: Kind::File,
        length,
        is_direct: false,
        offset_align: 512,
        memory_align: 1,
        is_write_through: false,
        takes_fua: false,
        is_read_only: false,
        identity: (0, 0),
    }
}

fn carry_out(medium: &mut [u8], work: &mut Work) -> io::Result<()> {
    let place = |at: u64, length: usize| {
        let at = usize::try_from(at).unwrap();
        if at + length > medium.len() { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) } else { Ok(at..at + length) }
    };
    match work {
        Work::Read { at, buffer, skip, bytes, .. } => {
            let range = place(*at, *bytes)?;
            buffer.bytes_mut()[*skip..*skip + *bytes].copy_from_slice(&medium[range]);
        }
        Work::Write { at, data, skip, bytes, .. } => {
            let range = place(*at, *bytes)?;
            let all: Vec<u8> = data.iter().flat_map(|s| s.bytes()).copied().collect();
            medium[range].copy_from_slice(&all[*skip..*skip + *bytes]);
        }
        Work::Flush => {}
        Work::Discard { at, length } | Work::Zero { at, length } | Work::Fill { at, length } => {
            let range = place(*at, usize::try_from(*length).unwrap())?;
            medium[range].fill(0);
        }
    }
    Ok(())
}

impl Device for MemoryDevice {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn connect(&self, sink: Weak<dyn Completions>) {
        self.sink.connect(sink);
    }

    fn submit(&self, batch: &mut Vec<Command>) {
        batch.drain(..).for_each(|command| self.send(Some(command)));
    }

    fn call(&self) {
        self.send(None);
    }

    fn stop(&self) {
        self.commands.lock().unwrap().take();
    }

    fn method(&self) -> String {
        "memory".to_owned()
    }
}
