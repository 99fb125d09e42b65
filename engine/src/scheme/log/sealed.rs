//! Units are sealed for their places.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::unit::{UnitHeader, UnitWriter};
use crate::store::Store;
use crate::units::Pbn;

/// A unit as it is to lie at this place, and its authenticator.
pub fn sealed(store: &Store, writer: UnitWriter, header: &UnitHeader, pbn: Pbn) -> (Slice, Fingerprint) {
    let mut block = store.io.buffer(1);
    let authenticator = writer.seal(&store.keys.authenticator, header, pbn, block.block_mut(0));
    (block.freeze().slice(0, 1), authenticator)
}
