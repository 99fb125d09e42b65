//! What blocks are that are in use beyond what the tables say of them.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::entry::Kind;

/// A block whose birth is not finished: its content is on its way, or its fingerprint is not in the table yet.
pub(crate) struct Fresh {
    pub kind: Kind,
    pub fingerprint: Fingerprint,
    /// The epoch whose commit allows the fingerprint into the table.
    pub epoch: u64,
    /// The content, until its write has completed.
    pub held: Option<Slice>,
    /// The fingerprint still waits for the table. False once it is there, or when the block died unborn.
    pub waits: bool,
}

/// What a block is to the commit scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// One that is to be written, or holds nothing of clients.
    Plain,
    Carrier,
    /// It was a carrier, and is given up when its refs page has come.
    Leaving,
}
