//! The kinds of blocks that are in use although the tables do not record it.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::entry::Kind;

/// A pending block: its content is under way to the device, or its fingerprint is not in the table yet.
pub(crate) struct PendingBlock {
    pub kind: Kind,
    pub fingerprint: Fingerprint,
    /// The epoch whose commit allows the fingerprint into the table.
    pub epoch: u64,
    /// The content, until its write has completed.
    pub content: Option<Slice>,
    /// Whether the fingerprint still waits for the table. False once it is there, or when the block lost its links before.
    pub waits: bool,
}

impl PendingBlock {
    /// Gives up the content, whose write has ended, or is given up.
    pub fn drop_content(&mut self) {
        self.content = None;
    }

    /// Notes that the fingerprint no longer waits for the table.
    pub fn waits_no_more(&mut self) {
        self.waits = false;
    }
}

/// The state of a block that belongs to the commit scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemeBlock {
    /// The block is to be written, or holds no content of clients.
    Plain,
    Carrier,
    /// It was a carrier; the scheme gives it up when its refs page is in memory.
    Leaving,
}
