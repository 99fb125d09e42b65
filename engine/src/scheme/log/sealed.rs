//! Seals units for their places.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::unit::{UnitHeader, UnitWriter};
use crate::io::Io;
use crate::pool::Keys;
use crate::units::Pbn;

/// The number of units of an epoch or segment, as their headers have it.
pub fn number_of<T>(units: &[T]) -> u32 {
    u32::try_from(units.len()).expect("units that are composed at once are bounded by memory")
}

/// The block of a unit for this place, and its authenticator.
pub fn sealed(io: &Io, keys: &Keys, writer: UnitWriter, header: &UnitHeader, pbn: Pbn) -> (Slice, Fingerprint) {
    let mut block = io.buffer(1);
    let authenticator = writer.seal(&keys.authenticator, header, pbn, block.block_mut(0));
    (block.freeze().slice(0, 1), authenticator)
}
