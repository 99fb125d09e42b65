//! The expected content of a block.

use crate::fingerprint::Fingerprint;
use crate::format::page::PageId;

/// The expected content of a block.
pub(crate) enum ExpectedContent {
    /// The page has to be loaded first.
    Page(PageId),
    Unknown,
    Fingerprint(Fingerprint),
    /// The short fingerprint: a crash has left no more of it.
    Short(u32),
    /// The value of an entry of kind 2 that is no short fingerprint.
    Checksum(Fingerprint),
    /// The authenticator of a carrier.
    Carrier(Fingerprint),
}
