//! What the log writes goes out: units are sealed for their places, and what lies side by side goes in one write. So does what recall writes again.

use super::Walked;
use crate::buffer::Slice;
use crate::engine::Engine;
use crate::fingerprint::Fingerprint;
use crate::format::unit::{UnitHeader, UnitKind, UnitWriter};
use crate::interface::Class;
use crate::io::IoFor;
use crate::units::{Epoch, Pbn, count};

impl Engine {
    /// A unit as it is to lie at this place, and its authenticator.
    pub(super) fn sealed(&self, writer: UnitWriter, header: &UnitHeader, pbn: Pbn) -> (Slice, Fingerprint) {
        let mut block = self.store.io.buffer(1);
        let authenticator = writer.seal(&self.store.keys.authenticator, header, pbn, block.block_mut(0));
        (block.freeze().slice(0, 1), authenticator)
    }

    /// The next unit of the walk, at the next place: of an epoch of so many units the one that is so many behind its first.
    pub(super) fn next_unit(
        &mut self,
        writer: UnitWriter,
        epoch: Epoch,
        (unit, units): (u32, u32),
        content_flushed: bool,
    ) -> (Pbn, Slice, Fingerprint) {
        let incarnation = self.store.medium.superblock.incarnation;
        let log = self.scheme.log.as_mut().expect("units are the log's");
        let pbn = log.places.pop_front().expect("places were reserved");
        let (sequence, flushed_upto) = (log.next, log.flushed);
        log.walk.push_back(Walked { pbn, incarnation, epoch });
        log.next += 1;
        let header = UnitHeader { kind: UnitKind::Log, incarnation, sequence, epoch, unit, units, flushed_upto, content_flushed };
        let (block, authenticator) = self.sealed(writer, &header, pbn);
        (pbn, block, authenticator)
    }

    /// Writes blocks, in the order that they come in, with what follows its neighbour in the same write; `what` says of each, by its first block and
    /// how many there are, what it is. How many writes they are.
    pub(crate) fn write_blocks(&mut self, blocks: Vec<(Pbn, Slice)>, class: Class, what: impl Fn(&Self, Pbn, usize) -> IoFor) -> u64 {
        let runs = neighbours(blocks);
        let writes = count(runs.len());
        for (first, run) in runs {
            let at = self.store.geometry.block_at(first);
            self.store.io.write(what(self, first, run.len()), at, run, class);
        }
        writes
    }
}

/// Blocks with their contents, what follows its neighbour taken together.
fn neighbours(blocks: Vec<(Pbn, Slice)>) -> Vec<(Pbn, Vec<Slice>)> {
    let mut runs: Vec<(Pbn, Vec<Slice>)> = Vec::new();
    for (pbn, content) in blocks {
        match runs.last_mut() {
            Some((first, run)) if *first + count(run.len()) == pbn => run.push(content),
            _ => runs.push((pbn, vec![content])),
        }
    }
    runs
}
