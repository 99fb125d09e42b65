//! The interface of all policies: an index of fingerprints with a bound on its memory.

use super::stored::{Pbn, Stored};
use super::streams::Stream;
use super::writes::Content;

/// The units (4 KiB) that a policy has read and written for its level on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IndexIo {
    /// Units read to find out whether a fingerprint is there.
    pub looked_up: u64,
    /// Units read and written to move fingerprints to the medium, and there.
    pub read: u64,
    pub written: u64,
}

impl IndexIo {
    /// Returns all together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.looked_up + self.read + self.written
    }
}

/// A block that was stored without a match, for the work out of line.
#[derive(Clone, Copy, Debug)]
pub struct Skipped {
    pub lbn: u32,
    pub pbn: Pbn,
    pub content: Content,
}

/// An index of fingerprints with a bound on its memory.
pub trait Index {
    /// Notes that the blocks that follow are those of a request of this stream.
    fn request_of(&mut self, _stream: Stream) {}

    /// Returns whether this block of a request is fingerprinted at all. It is called once for each block that is written.
    fn takes(&mut self, _content: Content, _is_first: bool) -> bool {
        true
    }

    /// Returns the block that holds this content, by what is in memory.
    fn look_up(&mut self, content: Content, lbn: u32, stored: &Stored) -> Option<Pbn>;

    /// Notes that a block with this content was stored.
    fn insert(&mut self, content: Content, pbn: Pbn, lbn: u32, stored: &Stored);

    /// Notes that a duplicate was linked to a block.
    fn linked(&mut self, _content: Content, _lbn: u32) {}

    /// Notes that a block is free.
    fn remove(&mut self, content: Content, pbn: Pbn);

    /// Returns whether content that it does not find in memory is stored nowhere else, so that there is no work out of line for it.
    fn is_whole_for(&self, _content: Content) -> bool {
        false
    }

    /// Finds, for each of these blocks, another one with the same content, by both levels. They are distinct, all in use, and in the order
    /// of their writes. A policy without a level on the medium finds none.
    fn find_out_of_line(&mut self, skipped: &[Skipped], _stored: &Stored) -> Vec<Option<Pbn>> {
        vec![None; skipped.len()]
    }

    /// Returns the units read and written so far.
    fn io(&self) -> IndexIo {
        IndexIo::default()
    }

    /// Returns the number of fingerprints in memory.
    fn resident(&self) -> u64;
}
