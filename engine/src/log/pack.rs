//! Packs: what compresses of a large epoch, several client blocks in one block of the device.
//!
//! 1. A pack is content: it goes out while its epoch fills, and is flushed before the units that name it (R1). It lies in the block of the first
//!    of those that it holds, which was theirs and is free to the medium.
//! 2. Neighbours by LBN are packed together, so that they are read together.
//! 3. Only what one LBN means is packed; what else came to mean it goes with it in no step of its own.

use super::hold::{Held, Holding, of};
use super::units::SMALL_BLOCKS_MAX;
use crate::engine::{Engine, Fresh};
use crate::format::entry::{Kind, MapEntry};
use crate::format::unit::{SLOT_BYTES, SLOTS_MAX, UNIT_ROOM_BYTES, UnitHeader, UnitKind, UnitWriter};
use crate::settings::Compression;
use crate::units::{Epoch, Lbn, Pbn};

/// Blocks that compress, beyond which packs are made of them.
const BATCH_BLOCKS: usize = 48;

/// A block that compresses: what means it, where it would lie, and to how many bytes it comes.
type Small = (Lbn, Pbn, usize);

/// Runs of these blocks, in their order, each as many as a pack holds. Whether the last may yet hold more.
fn runs(blocks: &[Small], most: usize) -> (Vec<&[Small]>, bool) {
    let mut runs = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (i, &(_, _, data)) in blocks.iter().enumerate() {
        if i > from && (i - from == most || bytes + SLOT_BYTES + data > UNIT_ROOM_BYTES) {
            runs.push(&blocks[from..i]);
            (from, bytes) = (i, 0);
        }
        bytes += SLOT_BYTES + data;
    }
    let is_open = from < blocks.len();
    if is_open {
        runs.push(&blocks[from..]);
    }
    (runs, is_open)
}

impl Engine {
    /// Makes packs of what an epoch holds back, if it is large, and there is enough of it.
    pub(super) fn pack_if_large(&mut self, epoch: Epoch) {
        let is_large = epoch == self.open.number && self.open.births.len() > SMALL_BLOCKS_MAX;
        let held = self.log.as_ref().map_or(0, |log| log.holding.range(of(epoch)).count());
        if is_large && held >= BATCH_BLOCKS.min(self.held_blocks_max() / 2) {
            self.pack(false);
        }
    }

    /// Whether the open epoch is large, and some of what it could pack is still being compressed.
    pub(crate) fn waits_for_packs(&self) -> bool {
        self.log.is_some() && self.open.births.len() > SMALL_BLOCKS_MAX && self.log_asks(self.open.number)
    }

    /// The open epoch is to be sealed: if it is large, all that it holds back goes out.
    pub(crate) fn pack_before_seal(&mut self) {
        if self.log.is_some() && self.settings.compression == Compression::All && self.open.births.len() > SMALL_BLOCKS_MAX {
            self.pack(true);
            // What fills no pack.
            self.send_held(self.open.number, |_| true);
        }
    }

    /// Packs what compresses of the open epoch; but for `all`, without what may yet fill a pack.
    fn pack(&mut self, all: bool) {
        let epoch = self.open.number;
        let log = self.log.as_ref().expect("only a log holds content back");
        let size = |held: &Held| if let Holding::Small(data) = &held.state { Some((held.lbn, data.len())) } else { None };
        let small = log.holding.range(of(epoch)).filter_map(|(&(_, pbn), held)| size(held).map(|(lbn, bytes)| (lbn, pbn, bytes)));
        // Two: the LBN's link and the fingerprint's.
        let is_lone = |&(lbn, pbn, _): &Small| {
            self.open.points.get(&lbn) == Some(&MapEntry::Block { pbn, slot: 0 }) && self.pending.get(&pbn) == Some(&2)
        };
        let mut blocks: Vec<_> = small.filter(is_lone).collect();
        blocks.sort_unstable();
        let most = SLOTS_MAX.min(usize::from(self.settings.refs_limit) - 1);
        let (mut runs, is_open) = runs(&blocks, most);
        if is_open && !all {
            runs.pop();
        }
        // One alone is as well off in its own block.
        for run in runs.into_iter().filter(|run| run.len() > 1) {
            self.write_pack(epoch, run);
        }
    }

    fn write_pack(&mut self, epoch: Epoch, blocks: &[Small]) {
        let pbn = blocks[0].1;
        let mut writer = UnitWriter::new(Vec::new());
        let mut counts = 1;
        for (&(lbn, block, _), slot) in blocks.iter().zip(1..) {
            let (rider, counted) = self.take_rider(epoch, block, pbn);
            counts += counted - 1;
            let pushed = writer.push_slot(rider.fresh.fingerprint, &rider.data);
            assert_eq!(pushed, Some(slot), "a run was measured");
            self.open.points.insert(lbn, MapEntry::Block { pbn, slot });
        }
        self.add_pending(pbn, counts);
        let counts = u8::try_from(counts).expect("a run is no longer than a count");
        self.space.counted(self.geometry.refs_of(pbn).0.index, pbn, 0, counts, false);
        self.ledger.units.filled(UnitKind::Pack, &writer);
        let incarnation = self.superblock.incarnation;
        let header =
            UnitHeader { kind: UnitKind::Pack, incarnation, sequence: 0, epoch, unit: 0, units: 1, flushed_upto: 0, content_flushed: true };
        let mut block = self.home.clone().take(1);
        let authenticator = writer.seal(&self.authenticator, &header, pbn, block.block_mut(0));
        let block = block.freeze().slice(0, 1);
        let held = Some(block.clone());
        self.fresh.insert(pbn, Fresh { kind: Kind::Carrier, fingerprint: authenticator, epoch: epoch.get(), held, waits: true });
        self.open.has_packs = true;
        self.free_unwritten(blocks[1..].iter().map(|&(_, block, _)| block).collect());
        self.send_content(pbn, vec![block]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_long_as_a_pack_has_room() {
        let blocks = |bytes: &[usize]| bytes.iter().zip(0..).map(|(&bytes, i)| (Lbn(i), Pbn(i), bytes)).collect::<Vec<_>>();
        let lengths = |bytes: &[usize], most| {
            let blocks = blocks(bytes);
            let (runs, is_open) = runs(&blocks, most);
            (runs.iter().map(|run| run.len()).collect::<Vec<_>>(), is_open)
        };
        assert_eq!(lengths(&[], 15), (vec![], false));
        assert_eq!(lengths(&[1900, 1900, 1900], 15), (vec![2, 1], true));
        assert_eq!(lengths(&[100; 40], 15), (vec![15, 15, 10], true));
        assert_eq!(lengths(&[100; 4], 2), (vec![2, 2], true));
        let full = UNIT_ROOM_BYTES - SLOT_BYTES;
        assert_eq!(lengths(&[full, 1, full], 15), (vec![1, 1, 1], true));
    }
}
