//! Step 2 of a request's road: events in, actions out. Every thread and clock of a volume belongs to this module; its buffers come from
//! [`crate::memory`].

pub mod codec;
pub mod condition;
pub mod digests;
pub mod extents;
pub mod hook;
pub mod latency;
pub mod layouts;
pub mod links;
pub mod lived;
pub mod messages;
pub mod notices;
pub mod passthrough;
pub mod promises;
pub mod recording;
pub mod ring;
pub mod scrub_counts;
pub mod selection;
pub mod streams;
pub mod survey;
pub mod tally;
pub mod timer;
mod todo;
pub mod totals;
pub mod verdict;
pub mod volume;
pub mod volume_counts;
pub mod warnings;

#[cfg(test)]
mod volume_tests;

use crate::hints::Hints;
use crate::target::SharedTarget;
use condition::{Condition, Counts};
use onefold_engine::interface::Event;
use recording::tap::Tap;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// A served target, as its owner sees it: the other side of [`Target`](crate::target::Target).
pub trait Served: Send + Sync {
    /// Returns the front-ends' view of it.
    fn target(self: Arc<Self>) -> SharedTarget;

    /// Passes an order to the engine: to end all waiting for room, to work out of line, or to change the memory of the index. Nothing
    /// happens where there is no engine.
    fn order(&self, order: Event);

    /// Makes the acknowledgement journal's file again, if there is a journal, and somebody has removed its file.
    ///
    /// # Errors
    /// When it cannot be made.
    fn make_journal_again(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes everything durable and ends all threads. The front-ends have stopped before.
    fn close(&self) -> Closing;

    /// Returns its current condition.
    fn condition(&self) -> Condition;

    /// Returns its counts since it was attached.
    fn counts(&self) -> Counts;

    /// Returns the blocks of content that were found damaged since it was attached, the first [`PBNS_MAX`](links::PBNS_MAX) of them.
    fn damaged(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    /// Returns what is known of its requests beforehand; none where there is no engine to use it.
    fn hints(&self) -> Option<&Arc<Hints>> {
        None
    }

    /// Returns the tap by which its requests can be recorded.
    fn tap(&self) -> &Arc<Tap>;
}

/// The result of closing a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Everything is durable, and a volume is marked clean.
    Clean,
    /// The same, but acknowledged writes of an earlier server are lost, and no flush was there to report it.
    Lossy,
    /// The device failed; what was synced before is safe.
    Failed,
}
