//! The keys of an open volume, by which content and units are known again.

use super::expected::ExpectedContent;
use crate::fingerprint::{Digest, Fingerprint, Fingerprinter};
use crate::format::authenticator::Authenticator;
use crate::format::entry::FingerprintEntry;
use crate::format::superblock::Superblock;
use crate::format::unit;
use crate::units::{BLOCK_SIZE, Pbn};

/// The keys by which this volume makes fingerprints and authenticators.
pub(crate) struct Keys {
    pub fingerprinter: Fingerprinter,
    pub authenticator: Authenticator,
}

impl Keys {
    pub fn of(superblock: &Superblock) -> Self {
        Self { fingerprinter: superblock.fingerprinter(), authenticator: superblock.authenticator() }
    }

    /// The value of the kind-3 entry of a unit that was read from the device, if this volume made the unit for that block.
    pub fn authentic(&self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) -> Option<Fingerprint> {
        unit::is_authentic(&self.authenticator, pbn, block).then(|| unit::claims(block))
    }

    /// Whether a block's bytes are as expected.
    pub fn content_is(&self, expect: &ExpectedContent, digest: Digest, block: &[u8; BLOCK_SIZE]) -> bool {
        match expect {
            ExpectedContent::Fingerprint(value) => digest == Digest::Of(*value),
            ExpectedContent::Short(short) => matches!(digest, Digest::Of(value) if value.short() == *short),
            ExpectedContent::Checksum(value) => FingerprintEntry::of_checksum(*value).is_of(&self.fingerprinter, block) == Some(true),
            ExpectedContent::Unknown | ExpectedContent::Page(_) => true,
            // No map entry refers to a carrier as a whole.
            ExpectedContent::Carrier(_) => false,
        }
    }
}
