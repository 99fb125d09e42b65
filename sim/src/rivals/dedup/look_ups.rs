//! Look-ups as data: what is looked up, the pages that a write has yet to read for it, and counts.

use super::changes::PageRead;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::interface::Request;
use std::collections::VecDeque;

/// An entry to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    Lbn(u64),
    Name(Fingerprint),
}

/// A write whose look-ups are under way, and the pages that they have yet to read.
pub(super) struct Looking {
    request: Request,
    pages: VecDeque<PageRead>,
}

impl Looking {
    /// Begins.
    pub(super) fn new(request: Request, pages: VecDeque<PageRead>) -> Self {
        Self { request, pages }
    }

    /// Takes the next page to read.
    pub(super) fn next_page(&mut self) -> Option<PageRead> {
        self.pages.pop_front()
    }

    /// Returns the write, and ends.
    pub(super) fn into_request(self) -> Request {
        self.request
    }
}

/// Counts of look-ups.
#[derive(Clone, Copy, Default)]
pub(super) struct LookUpCounts {
    names: u64,
    /// Those that read a page.
    names_read: u64,
    prefetched: u64,
    apart: u64,
}

impl LookUpCounts {
    /// Counts a look-up in the hash index.
    pub(super) fn count_name(&mut self, is_read: bool) {
        self.names += 1;
        self.names_read += u64::from(is_read);
    }

    /// Counts a hash that was found prefetched.
    pub(super) fn count_prefetched(&mut self) {
        self.prefetched += 1;
    }

    /// Counts a block without a hash.
    pub(super) fn count_apart(&mut self) {
        self.apart += 1;
    }

    pub(super) fn facts(&self) -> [(&'static str, u64); 4] {
        [
            ("look-ups in the hash index", self.names),
            ("look-ups in the hash index that read the medium", self.names_read),
            ("hashes found prefetched", self.prefetched),
            ("blocks without a hash", self.apart),
        ]
    }
}
