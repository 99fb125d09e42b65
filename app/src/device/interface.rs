//! A device and its commands: what lies between the runtime and whatever carries them out. The rules are in [`super`].

use super::facts::{Facts, StorePlace};
use onefold_engine::buffer::{BufferMut, Slice};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{OnceLock, Weak};

/// Commands under way at most; more wait in the process.
pub const DEPTH: u32 = 256;

/// One thing to do, and its submitter's name for it.
#[derive(Debug)]
pub struct Command {
    pub token: u64,
    pub work: Work,
}

/// What to do. `skip` and `bytes` choose the bytes of the memory lent: all of it but for requests that begin or end inside a block.
#[derive(Debug)]
pub enum Work {
    /// Fill `bytes` of `buffer` behind the first `skip` from the device at byte `at`.
    Read { at: u64, buffer: BufferMut, skip: usize, bytes: usize },
    /// Write `bytes` of `data`, its slices one behind the other, after the first `skip`, at byte `at`; with `fua`, so that they are durable
    /// then.
    Write { at: u64, data: Vec<Slice>, skip: usize, bytes: usize, fua: bool },
    /// Make durable whatever was completed before.
    Flush,
    /// The device may forget these bytes.
    Discard { at: u64, length: u64 },
    /// These bytes read as zeros from now on.
    Zero { at: u64, length: u64 },
}

impl Work {
    /// What it is, for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard",
            Self::Zero { .. } => "zero",
        }
    }

    /// Where it begins, for messages; 0 for a flush.
    #[must_use]
    pub const fn at(&self) -> u64 {
        match self {
            Self::Read { at, .. } | Self::Write { at, .. } | Self::Discard { at, .. } | Self::Zero { at, .. } => *at,
            Self::Flush => 0,
        }
    }
}

/// A command that is over, with the memory it was lent.
#[derive(Debug)]
pub struct Completed {
    pub token: u64,
    pub work: Work,
    pub result: io::Result<()>,
}

/// Who hears of completed commands.
pub trait Completions: Send + Sync {
    /// Takes a batch, which may be empty ([`Device::call`]), leaving it empty. Called from the device's threads; it may submit, but must
    /// not wait for other commands.
    fn completed(&self, batch: &mut Vec<Completed>);
}

/// A device's way to who hears of its completions.
#[derive(Default)]
pub struct Sink(OnceLock<Weak<dyn Completions>>);

impl Sink {
    /// Names who hears.
    ///
    /// # Panics
    /// When somebody is named already.
    pub fn connect(&self, completions: Weak<dyn Completions>) {
        assert!(self.0.set(completions).is_ok(), "a device has one sink");
    }

    /// Hands a batch over. Nobody may be there any more: then nobody wants it.
    pub fn completed(&self, batch: &mut Vec<Completed>) {
        if let Some(completions) = self.0.get().and_then(Weak::upgrade) {
            completions.completed(batch);
        }
    }
}

/// A backing store as the runtime sees it. All methods may be called from any thread.
pub trait Device: Send + Sync {
    /// Its size and manners.
    fn facts(&self) -> &Facts;

    /// Names who hears of completions. Called once, before the first command.
    fn connect(&self, sink: Weak<dyn Completions>);

    /// Takes commands, leaving `batch` empty. Does not wait for them.
    fn submit(&self, batch: &mut Vec<Command>);

    /// Has [`Completions::completed`] called soon: by the thread that reaps completions where there is one such, else at once by this one.
    fn call(&self);

    /// Finishes what is under way and ends the device's threads.
    fn stop(&self);

    /// How I/O is done, for people.
    fn method(&self) -> String;

    /// Whether a write with FUA costs less than a write and a flush. It may be asked for anyway.
    fn takes_fua(&self) -> bool {
        false
    }

    /// Where its store is now, if that is a file or device node.
    fn place(&self) -> Option<StorePlace> {
        None
    }

    /// Of a device that is slower than its store on purpose: how.
    fn slowed(&self) -> Option<Slowed> {
        None
    }
}

/// A store that is slowed to the pace of a model, and how true to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowed {
    pub model: String,
    /// Where the model's numbers come from.
    pub source: String,
    /// That are over.
    pub commands: u64,
    /// Commands for which the store itself took longer than the model.
    pub late_commands: u64,
    /// From submission to completion, as the model has it, in microseconds.
    pub model_us_mean: f64,
    /// What the store's own slowness added, over all commands.
    pub late_us_mean: f64,
    /// What sleeping too long added, over all commands.
    pub overslept_us_mean: f64,
}
