//! The rivals: what OrderMergeDedup's paper compares with, and a journal, each at its best, on the engine's own interface.
//!
//! 1. A rival is a pure [`Machine`]: requests in, device operations out, no clock and no I/O of its own. Whatever drives the engine drives it,
//!    and whatever counts the engine's writes counts its writes.
//! 2. All metadata lies in memory besides the device, so that no rival ever reads metadata: the counts favour the rivals, never Onefold.
//! 3. Requests are whole blocks, as in every trace; anything else is answered with `Invalid`.
//! 4. Weak writes are answered on admission (`none`: when the device has them), strong ones when they are durable; a flush, a FUA write or a
//!    second ends an epoch (OrderMergeDedup section 4.2; it adapts Dmdedup to the same pattern).
//! 5. What stands on the device when a commit's last flush has completed is enough to find every block again.

mod desk;
mod reads;

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
    /// An epoch that nobody waits for ends this long after its first change.
    pub commit_period_ms: u64,
    /// The size that clients see.
    pub logical: Blocks,
    /// Blocks for content beyond that, so that overwrites have a place and collecting is worth while when every block is unique. A request
    /// of more new blocks than this may find no room.
    pub reserve: Blocks,
}

impl Settings {
    /// The papers' settings for a volume of this size: a commit each second; a sixteenth of reserve and room for a request of 4 MiB.
    #[must_use]
    pub const fn new(persistence: Persistence, logical: Blocks) -> Self {
        Self { persistence, commit_period_ms: 1_000, logical, reserve: Blocks(logical.0 / 16 + 1024) }
    }

    const fn strong(&self) -> bool {
        matches!(self.persistence, Persistence::Strong)
    }

    /// The blocks of a request, as (first, how many); none where it is not made of whole blocks of this volume.
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
    /// How large a device it needs.
    fn device_bytes(&self) -> Bytes;
    /// What has to stand on the device before the first event; not counted.
    fn format(&self) -> Vec<(Bytes, Slice)>;
    /// What it counted of itself so far.
    fn report(&self) -> Report;
}

/// What a rival tells of a run, besides what its driver counts.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    pub scheme: &'static str,
    pub persistence: &'static str,
    /// Commits by what ended their epoch.
    pub epochs: Vec<(&'static str, u64)>,
    /// Everything else that is worth knowing, in its own order.
    pub facts: Vec<(&'static str, u64)>,
    /// What it keeps in memory that the real thing would have to read, in words.
    pub in_memory: &'static str,
}

impl Report {
    /// A fact by its name.
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
