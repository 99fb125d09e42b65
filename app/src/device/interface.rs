//! A device and its commands: the interface between the runtime and the back-ends that carry them out. The rules are in [`super`].

use super::facts::{Facts, StorePlace};
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::interface::Op;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{OnceLock, Weak};

/// The largest number of commands under way; more wait in the process.
pub const DEPTH: u32 = 256;

/// One command, and the name that its submitter gave it.
#[derive(Debug)]
pub struct Command {
    pub token: u64,
    pub work: Work,
}

/// The work of a command. `skip` and `bytes` choose the bytes of the memory lent: all of it except for requests that begin or end inside a
/// block.
#[derive(Debug)]
pub enum Work {
    /// Read `bytes` into `buffer`, after its first `skip`, from the device at byte `at`; with `is_idle`, when
    /// nobody else wants the device, if the way of I/O can tell it so.
    Read { at: u64, buffer: BufferMut, skip: usize, bytes: usize, is_idle: bool },
    /// Write `bytes` of `data`, its slices one after the other, after the first `skip`, at byte `at`; with `fua`, they are durable at the
    /// completion.
    Write { at: u64, data: Vec<Slice>, skip: usize, bytes: usize, fua: bool },
    /// Make durable everything that was completed before.
    Flush,
    /// Allow the device to forget these bytes.
    Discard { at: u64, length: u64 },
    /// Make these bytes read as zeros.
    Zero { at: u64, length: u64 },
    /// Write zeros here, in a file, so that its host has written these bytes, and make that durable.
    Fill { at: u64, length: u64 },
}

impl Work {
    /// Names the command, for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard",
            Self::Zero { .. } => "zero",
            Self::Fill { .. } => "fill",
        }
    }

    /// Returns the operation that it carries out.
    #[must_use]
    pub const fn op(&self) -> Op {
        match self {
            Self::Read { .. } => Op::Read,
            Self::Write { .. } => Op::Write,
            Self::Flush => Op::Flush,
            Self::Discard { .. } => Op::Discard,
            Self::Zero { .. } | Self::Fill { .. } => Op::WriteZeroes,
        }
    }

    /// Returns the byte where it begins, for messages; 0 for a flush.
    #[must_use]
    pub const fn at(&self) -> u64 {
        match self {
            Self::Read { at, .. } | Self::Write { at, .. } | Self::Discard { at, .. } | Self::Zero { at, .. } | Self::Fill { at, .. } => {
                *at
            }
            Self::Flush => 0,
        }
    }
}

/// A completed command, with the memory it was lent.
#[derive(Debug)]
pub struct Completed {
    pub token: u64,
    pub work: Work,
    pub result: io::Result<()>,
}

/// The receiver of completed commands.
pub trait Completions: Send + Sync {
    /// Takes a batch, which may be empty ([`Device::call`]), and leaves it empty. The device's threads call it; it may submit, but must not
    /// wait for other commands.
    fn completed(&self, batch: &mut Vec<Completed>);
}

/// A device's link to the receiver of its completions.
#[derive(Default)]
pub struct Sink(OnceLock<Weak<dyn Completions>>);

impl Sink {
    /// Sets the receiver.
    ///
    /// # Panics
    /// When a receiver is set already.
    pub fn connect(&self, completions: Weak<dyn Completions>) {
        assert!(self.0.set(completions).is_ok(), "a device has one sink");
    }

    /// Passes a batch on. Where the receiver is gone, nobody needs it.
    pub fn completed(&self, batch: &mut Vec<Completed>) {
        if let Some(completions) = self.0.get().and_then(Weak::upgrade) {
            completions.completed(batch);
        }
    }
}

/// A backing store as the runtime sees it. Any thread may call any method.
pub trait Device: Send + Sync {
    /// Returns its size and properties.
    fn facts(&self) -> &Facts;

    /// Sets the receiver of completions. The runtime calls it once, before the first command.
    fn connect(&self, sink: Weak<dyn Completions>);

    /// Takes commands, and leaves `batch` empty. Does not wait for them.
    fn submit(&self, batch: &mut Vec<Command>);

    /// Has [`Completions::completed`] called soon: by the thread that reaps completions where there is one, otherwise at once by this one.
    fn call(&self);

    /// Finishes the commands under way and ends the device's threads.
    fn stop(&self);

    /// Describes the method of I/O, for people.
    fn method(&self) -> String;

    /// Whether a write with FUA costs less than a write and a flush. It may be asked for anyway.
    fn takes_fua(&self) -> bool {
        false
    }

    /// Returns the current place of its store, if that is a file or device node.
    fn place(&self) -> Option<StorePlace> {
        None
    }

    /// Returns the pace of a device that is slower than its store on purpose.
    fn slowed(&self) -> Option<Slowed> {
        None
    }
}

/// A store that is slowed to the pace of a model, and how closely it follows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowed {
    pub model: String,
    /// The source of the model's numbers.
    pub source: String,
    /// The number of completed commands.
    pub commands: u64,
    /// The number of commands for which the store itself took longer than the model.
    pub late_commands: u64,
    /// The mean time from submission to completion by the model, in microseconds.
    pub model_us_mean: f64,
    /// The mean time that the store's own slowness added, over all commands.
    pub late_us_mean: f64,
    /// The mean time that sleeping too long added, over all commands.
    pub overslept_us_mean: f64,
}
