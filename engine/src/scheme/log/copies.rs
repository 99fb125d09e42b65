//! What is condensed, and the copies of a condensing under way.

use crate::class::Class;
use crate::format::unit::{UnitHeader, UnitKind, UnitWriter};
use crate::io::IoFor;
use crate::scheme::log::sealed::{number_of, sealed};
use crate::store::Store;
use crate::units::{Epoch, Pbn};
use std::collections::VecDeque;

/// What is condensed, and where.
#[derive(Default)]
pub struct Segments {
    /// The last unit before what was copied; 0 where nothing was.
    pub since: u64,
    /// Where the copies lie, in order.
    pub places: Vec<Pbn>,
    /// Places of the coming ones.
    pub reserve: VecDeque<Pbn>,
    /// So long a walk is to be condensed next: before, it would not have been worth it.
    pub again: usize,
}

impl Segments {
    /// As an anchor has named them.
    pub fn read(since: u64, places: Vec<Pbn>) -> Self {
        Self { since, places, ..Self::default() }
    }

    /// These were added; before them, the walk began behind this unit.
    pub fn has(&mut self, copies: Copies, since: u64) {
        if self.places.is_empty() {
            self.since = since;
        }
        self.places.extend(copies.places);
        self.again = 0;
    }
}

/// The copies of a condensing under way.
pub struct Copies {
    /// Each with the epoch of its first record, until they are sent.
    pub units: Vec<(Epoch, UnitWriter)>,
    pub places: Vec<Pbn>,
    pub blocks_left: usize,
}

impl Copies {
    /// Whether all of them are on the device.
    pub fn are_written(&self) -> bool {
        self.blocks_left == 0
    }
}

impl Copies {
    /// Sends them: they copy what stands behind the unit `before`, up to the unit `cut`.
    pub fn send(&mut self, store: &mut Store, cut: u64, before: u64) {
        let (writers, places) = (std::mem::take(&mut self.units), self.places.clone());
        self.blocks_left = writers.len();
        let units = number_of(&writers);
        let mut blocks = Vec::with_capacity(writers.len());
        for (((epoch, writer), pbn), unit) in writers.into_iter().zip(places).zip(0..) {
            let (kind, incarnation) = (UnitKind::Condensed, store.medium.superblock.incarnation);
            let header = UnitHeader { kind, incarnation, sequence: cut, epoch, unit, units, flushed_upto: before, content_flushed: false };
            store.io.ledger.units.filled(kind, &writer);
            let (block, _) = sealed(store, writer, &header, pbn);
            blocks.push((pbn, block));
        }
        store.write_blocks(blocks, Class::Log, |_, _, units| IoFor::CompactedUnits { units });
    }
}
