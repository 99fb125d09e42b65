//! The authenticator tells the volume's own units from all other blocks: a client may have written any bytes to any block, old units
//! among them.
//!
//! 1. It takes the volume's key to make one, and the key shows in nothing that a client can read.
//! 2. It covers the whole unit and its place, so that a unit's copy elsewhere is none.

use super::fields::{AUTHENTICATOR_BYTES, at};
use crate::format::key::Key;
use crate::units::{BLOCK_SIZE, Pbn};
use std::fmt;

/// The context of its key in BLAKE3's key derivation, so that it has nothing to do with fingerprints.
const CONTEXT: &str = "onefold 2026-11-22 authenticator of log units";

/// Makes the authenticators of one volume.
#[derive(Clone)]
pub struct Authenticator {
    key: [u8; 32],
}

impl Authenticator {
    /// The authenticator of a volume with this key and UUID.
    #[must_use]
    pub fn new(key: &Key, uuid: &[u8; 16]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        Self { key: *hasher.update(&key.0).update(uuid).finalize().as_bytes() }
    }

    /// Writes a unit's authenticator into its field: the beginning of the keyed BLAKE3 of the unit with its PBN, zero-padded, in that
    /// field.
    pub fn sign(&self, pbn: Pbn, unit: &mut [u8; BLOCK_SIZE]) {
        let field = at::AUTHENTICATOR.of_mut(unit);
        field.fill(0);
        field[..8].copy_from_slice(&pbn.get().to_le_bytes());
        let digest = blake3::keyed_hash(&self.key, unit);
        at::AUTHENTICATOR.of_mut(unit).copy_from_slice(&digest.as_bytes()[..AUTHENTICATOR_BYTES]);
    }

    /// Whether a unit was made by this volume for this place.
    pub(super) fn knows(&self, pbn: Pbn, unit: &[u8; BLOCK_SIZE]) -> bool {
        let mut signed = *unit;
        self.sign(pbn, &mut signed);
        at::AUTHENTICATOR.of(&signed) == at::AUTHENTICATOR.of(unit)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator(key withheld)")
    }
}
