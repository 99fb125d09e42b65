//! Composes the next unit for the next place.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::unit::{UnitHeader, UnitKind, UnitWriter};
use crate::pool::Pool;
use crate::scheme::log::sealed::sealed;
use crate::scheme::log::{Log, LogUnit};
use crate::units::{Epoch, Pbn};

impl Log {
    /// The next unit of the log, at the next place. `(unit, units)`: its number in its epoch, and the number of the epoch's units.
    pub fn next_unit(
        &mut self,
        pool: &Pool,
        writer: UnitWriter,
        epoch: Epoch,
        (unit, units): (u32, u32),
        content_flushed: bool,
    ) -> (Pbn, Slice, Fingerprint) {
        let incarnation = pool.medium.superblock.incarnation;
        let pbn = self.places.pop_front().expect("places were reserved");
        let (sequence, flushed_upto) = (self.next, self.flushed);
        self.units.push_back(LogUnit { pbn, incarnation, epoch });
        self.next += 1;
        let header = UnitHeader { kind: UnitKind::Log, incarnation, sequence, epoch, unit, units, flushed_upto, content_flushed };
        let (block, authenticator) = sealed(&pool.io, &pool.keys, writer, &header, pbn);
        (pbn, block, authenticator)
    }
}
