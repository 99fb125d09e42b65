//! The rivals: the systems that OrderMergeDedup's paper compares with, and a journal, each at its best, behind the engine's own interface.
//!
//! 1. A rival is a pure [`Machine`]: requests in, device operations out, no clock and no I/O of its own. The drivers and counters of the
//!    engine also drive and count the rivals.
//! 2. All metadata lies in memory besides the device, so that no rival ever reads metadata: the counts favour the rivals, never Onefold.
//!    `shadow` alone can have its cache bounded (`Settings::metadata_cache`).
//! 3. Requests are whole blocks, as in every trace; anything else is answered with `Invalid`.
//! 4. Weak writes are answered on admission (by `none`: when the device has them), strong ones when they are durable; a flush, a FUA write
//!    or a second ends an epoch (OrderMergeDedup section 4.2; it adapts Dmdedup to the same pattern).
//! 5. The device's content after a commit's last flush is enough to find every block again.

mod in_flight;
mod reads;

pub mod caftl;
pub mod dedup;
pub mod journal;
pub mod none;
pub mod shadow;

use crate::machine::Machine;
use onefold_engine::buffer::Slice;
use onefold_engine::interface::{Op, Request};
use onefold_engine::settings::Persistence;
use onefold_engine::units::{BLOCK_BYTES, Blocks, Bytes};
use std::fmt;

/// Settings of a rival.
#[derive(Clone, Debug)]
pub struct Settings {
    pub persistence: Persistence,
    /// The time after its first change at which an epoch ends that nothing waits for.
    pub commit_period_ms: u64,
    /// The size that clients see.
    pub logical: Blocks,
    /// Additional blocks for content, so that overwrites have a place and collecting is worth while even if every block is unique. A
    /// request with more new blocks than this may find no room.
    pub reserve: Blocks,
    /// The bytes of metadata that `shadow` has in memory, if they are bounded: what a look-up needs beyond them is read.
    pub metadata_cache: Option<Bytes>,
}

impl Settings {
    /// Returns the papers' settings for a volume of this size: a commit each second, a sixteenth of reserve, and room for a request of 4
    /// MiB.
    #[must_use]
    pub const fn new(persistence: Persistence, logical: Blocks) -> Self {
        Self { persistence, commit_period_ms: 1_000, logical, reserve: Blocks(logical.0 / 16 + 1024), metadata_cache: None }
    }

    const fn strong(&self) -> bool {
        matches!(self.persistence, Persistence::Strong)
    }

    /// Returns the blocks of a request, as (first, count); none if it does not consist of whole blocks of this volume.
    fn blocks_of(&self, request: &Request) -> Option<(u64, u64)> {
        let (at, length) = (request.offset.0, request.length.0);
        let inside = at.checked_add(length).is_some_and(|end| end <= self.logical.bytes().0);
        let whole = at % BLOCK_BYTES == 0 && length % BLOCK_BYTES == 0;
        let brings = match (&request.payload, request.op) {
            (Some(payload), Op::Write) => payload.buffer.blocks() as u64 * BLOCK_BYTES == length,
            (payload, op) => payload.is_none() && op != Op::Write,
        };
        (inside && whole && brings).then_some((at / BLOCK_BYTES, length / BLOCK_BYTES))
    }
}

/// A machine to compare with.
pub trait Baseline: Machine {
    /// Returns the size of the device that it needs.
    fn device_bytes(&self) -> Bytes;
    /// Returns what has to be on the device before the first event; it is not counted.
    fn format(&self) -> Vec<(Bytes, Slice)>;
    /// Returns its own counts so far.
    fn report(&self) -> Report;
}

/// A rival's report of a run, in addition to what its driver counts.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    pub scheme: &'static str,
    pub persistence: &'static str,
    /// The number of commits by the cause of their epoch's end.
    pub epochs: Vec<(&'static str, u64)>,
    /// Everything else worth reporting, in its own order.
    pub facts: Vec<(&'static str, u64)>,
    /// A description of what it keeps in memory that a real implementation would have to read.
    pub in_memory: &'static str,
}

impl Report {
    /// Returns a fact by its name.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<u64> {
        self.facts.iter().chain(&self.epochs).find(|(n, _)| *n == name).map(|&(_, value)| value)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.scheme, self.persistence)?;
        self.epochs.iter().try_for_each(|(cause, n)| writeln!(f, "  epochs by {cause:<31} {n:>12}"))?;
        self.facts.iter().try_for_each(|(name, n)| writeln!(f, "  {name:<41} {n:>12}"))?;
        writeln!(f, "  in memory: {}", self.in_memory)
    }
}

const fn name_of(persistence: Persistence) -> &'static str {
    match persistence {
        Persistence::Weak => "weak",
        Persistence::Strong => "strong",
    }
}
