//! The next unit goes to the next place.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::unit::{UnitHeader, UnitKind, UnitWriter};
use crate::scheme::log::sealed::sealed;
use crate::scheme::log::{Log, Walked};
use crate::store::Store;
use crate::units::{Epoch, Pbn};

impl Log {
    /// The next unit of the walk, at the next place: of an epoch of so many units the one that is so many behind its first.
    pub fn next_unit(
        &mut self,
        store: &Store,
        writer: UnitWriter,
        epoch: Epoch,
        (unit, units): (u32, u32),
        content_flushed: bool,
    ) -> (Pbn, Slice, Fingerprint) {
        let incarnation = store.medium.superblock.incarnation;
        let pbn = self.places.pop_front().expect("places were reserved");
        let (sequence, flushed_upto) = (self.next, self.flushed);
        self.walk.push_back(Walked { pbn, incarnation, epoch });
        self.next += 1;
        let header = UnitHeader { kind: UnitKind::Log, incarnation, sequence, epoch, unit, units, flushed_upto, content_flushed };
        let (block, authenticator) = sealed(store, writer, &header, pbn);
        (pbn, block, authenticator)
    }
}
