//! A client block that rides in a unit, or lies in a pack.

use crate::fingerprint::Fingerprint;

/// A client block in a slot.
pub struct Rider {
    pub fingerprint: Fingerprint,
    pub data: Vec<u8>,
}
