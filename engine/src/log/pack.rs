//! Packs: what compresses of a large epoch, several client blocks in one block of the device.
//!
//! 1. A pack is content: it goes out while its epoch fills, and is flushed before the units that name it (R1). It lies in a block that one of
//!    those had which were packed together with it, and is free to the medium: those that lie side by side, so that they go out in one write.
//! 2. Neighbours by LBN are packed together, so that they are read together: each block into the first pack that has room for it, of those that
//!    one of the sixteen blocks before it began.
//! 3. Only what one LBN means is packed; what else came to mean it goes with it in no step of its own.

use super::carry::Rider;
use super::holds::{Held, Holding};
use super::units::SMALL_BLOCKS_MAX;
use crate::buffer::Slice;
use crate::engine::{Engine, Fresh};
use crate::format::entry::{Kind, MapEntry};
use crate::format::unit::{SLOT_BYTES, SLOTS_MAX, UNIT_ROOM_BYTES, UnitHeader, UnitKind, UnitWriter};
use crate::settings::Compression;
use crate::units::{Epoch, Lbn, Pbn};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Held blocks beyond which packs are made of them: the more, the longer the runs in which these lie.
const BATCH_BLOCKS: usize = 256;
/// The same where it is not known yet whether packs pay.
const FIRST_BATCH_BLOCKS: usize = 48;

/// A block that compresses: what means it, where it would lie, and to how many bytes it comes.
type Small = (Lbn, Pbn, usize);

/// One that was taken to its pack: with what its block counted.
struct Taken {
    lbn: Lbn,
    rider: Rider,
    counted: i16,
}

/// A pack takes blocks from among so many neighbours.
const NEIGHBOURS: usize = 16;

/// What lies in each pack: first fit, in their order, of so many neighbours each. First those that take no more, then those that yet may.
fn packs(blocks: &[Small], most: usize) -> (Vec<Vec<Small>>, Vec<Vec<Small>>) {
    let mut done = Vec::new();
    let mut open: VecDeque<(usize, Vec<Small>)> = VecDeque::new();
    for (i, &block) in blocks.iter().enumerate() {
        while open.front().is_some_and(|(since, _)| since + NEIGHBOURS <= i) {
            done.extend(open.pop_front().map(|(_, pack)| pack));
        }
        let size = |&(_, _, bytes): &Small| SLOT_BYTES + bytes;
        let takes = |pack: &[Small]| pack.len() < most && pack.iter().map(size).sum::<usize>() + size(&block) <= UNIT_ROOM_BYTES;
        match open.iter_mut().find(|(_, pack)| takes(pack)) {
            Some((_, pack)) => pack.push(block),
            None => open.push_back((i, vec![block])),
        }
    }
    (done, open.into_iter().map(|(_, pack)| pack).collect())
}

/// So many of these blocks, in order, and the rest of them: the longest runs are taken, so that few commands write all.
fn places(mut blocks: Vec<Pbn>, wanted: usize) -> (Vec<Pbn>, Vec<Pbn>) {
    blocks.sort_unstable();
    let mut runs: Vec<&[Pbn]> = blocks.chunk_by(|&one, &next| one + 1 == next).collect();
    runs.sort_by_key(|run| Reverse(run.len()));
    let mut all = runs.concat();
    let rest = all.split_off(wanted);
    all.sort_unstable();
    (all, rest)
}

impl Engine {
    /// Makes packs of what an epoch holds back, if it is large, and there is enough of it.
    pub(super) fn pack_if_large(&mut self, epoch: Epoch) {
        let is_large = epoch == self.open.number && self.open.births.len() > SMALL_BLOCKS_MAX;
        let counts = self.log.as_ref().map(|log| log.holding.counts(epoch)).unwrap_or_default();
        let most = self.held_blocks_max();
        let has_paid = self.log.as_ref().is_some_and(|log| log.holding.gain.has_paid());
        let batch = if has_paid { BATCH_BLOCKS } else { FIRST_BATCH_BLOCKS };
        if is_large && counts.held >= batch.min(most / 2) && counts.fresh >= NEIGHBOURS.min(most / 4) {
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
            // What does not compress.
            self.send_held(self.open.number, |_| true);
        }
    }

    /// Packs what compresses of the open epoch; but for `all`, without what may yet fill a pack.
    fn pack(&mut self, all: bool) {
        let epoch = self.open.number;
        let log = self.log.as_ref().expect("only a log holds content back");
        let size = |held: &Held| if let Holding::Small(data) = &held.state { Some((held.lbn, data.len())) } else { None };
        let small = log.holding.of(epoch).filter_map(|(pbn, held)| size(held).map(|(lbn, bytes)| (lbn, pbn, bytes)));
        // Two: the LBN's link and the fingerprint's.
        let is_lone = |&(lbn, pbn, _): &Small| {
            self.open.points.get(&lbn) == Some(&MapEntry::Block { pbn, slot: 0 }) && self.pending.get(&pbn) == Some(&2)
        };
        let (mut blocks, others): (Vec<Small>, Vec<Small>) = small.partition(is_lone);
        blocks.sort_unstable();
        let most = SLOTS_MAX.min(usize::from(self.settings.refs_limit) - 1);
        let (mut done, open) = packs(&blocks, most);
        done.extend(open.into_iter().filter(|_| all));
        let (packs, alone): (Vec<_>, Vec<_>) = done.into_iter().partition(|pack| pack.len() > 1);
        let packed: usize = packs.iter().map(Vec::len).sum();
        let holds = &mut self.log.as_mut().expect("it is there").holding;
        let loose: Vec<Pbn> = holds.of(epoch).filter(|(_, held)| matches!(held.state, Holding::Loose)).map(|(pbn, _)| pbn).collect();
        holds.gain.note(packed + alone.len() + loose.len(), packed - packs.len());
        holds.packed(epoch);
        let mut contents = self.make_packs(epoch, &packs);
        // One alone is as well off in its own block.
        let goes = alone.into_iter().flatten().chain(others).map(|(_, pbn, _)| pbn).chain(loose);
        contents.extend(goes.map(|pbn| (pbn, self.take_held(epoch, pbn))));
        contents.sort_unstable_by_key(|&(pbn, _)| pbn);
        self.send_runs(contents);
    }

    /// What goes to which block.
    fn make_packs(&mut self, epoch: Epoch, packs: &[Vec<Small>]) -> Vec<(Pbn, Slice)> {
        let (places, rest) = places(packs.iter().flatten().map(|&(_, pbn, _)| pbn).collect(), packs.len());
        // All of them are taken before any pack lies where one of them would have.
        let taken: Vec<Vec<Taken>> = packs.iter().zip(&places).map(|(pack, &place)| self.take_riders(epoch, pack, place)).collect();
        let contents = taken.into_iter().zip(&places).map(|(riders, &place)| (place, self.make_pack(epoch, place, riders))).collect();
        self.free_unwritten(rest);
        contents
    }

    fn take_riders(&mut self, epoch: Epoch, blocks: &[Small], place: Pbn) -> Vec<Taken> {
        let take = |&(lbn, block, _): &Small| {
            let (rider, counted) = self.take_rider(epoch, block, place);
            Taken { lbn, rider, counted }
        };
        blocks.iter().map(take).collect()
    }

    fn make_pack(&mut self, epoch: Epoch, pbn: Pbn, riders: Vec<Taken>) -> Slice {
        let mut writer = UnitWriter::new(Vec::new());
        let mut counts = 1;
        for (Taken { lbn, rider, counted }, slot) in riders.into_iter().zip(1..) {
            counts += counted - 1;
            let pushed = writer.push_slot(rider.fresh.fingerprint, &rider.data);
            assert_eq!(pushed, Some(slot), "a pack was measured");
            self.open.points.insert(lbn, MapEntry::Block { pbn, slot });
        }
        self.add_pending(pbn, counts);
        let counts = u8::try_from(counts).expect("a pack holds no more than a count");
        self.space.counted(self.geometry.refs_of(pbn).0.index, pbn, 0, counts, false);
        self.ledger.units.filled(UnitKind::Pack, &writer);
        let incarnation = self.superblock.incarnation;
        let header =
            UnitHeader { kind: UnitKind::Pack, incarnation, sequence: 0, epoch, unit: 0, units: 1, flushed_upto: 0, content_flushed: true };
        let (block, authenticator) = self.sealed(writer, &header, pbn);
        let held = Some(block.clone());
        self.fresh.insert(pbn, Fresh { kind: Kind::Carrier, fingerprint: authenticator, epoch: epoch.get(), held, waits: true });
        self.open.has_packs = true;
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bytes: &[usize], most: usize) -> [Vec<Vec<usize>>; 2] {
        let blocks: Vec<Small> = bytes.iter().zip(0..).map(|(&bytes, i)| (Lbn(i), Pbn(i), bytes)).collect();
        let (done, open) = packs(&blocks, most);
        [done, open].map(|packs| packs.into_iter().map(|pack| pack.into_iter().map(|(_, _, bytes)| bytes).collect()).collect())
    }

    #[test]
    fn a_block_goes_to_the_first_pack_that_has_room() {
        assert_eq!(sizes(&[1000, 3500, 900, 200, 3000], 15)[1], [vec![1000, 900, 200], vec![3500], vec![3000]]);
        assert_eq!(sizes(&[100; 16], 15)[1].iter().map(Vec::len).collect::<Vec<_>>(), [15, 1]);
        assert_eq!(sizes(&[100; 4], 2)[1], [[100, 100], [100, 100]]);
        let full = UNIT_ROOM_BYTES - SLOT_BYTES;
        assert_eq!(sizes(&[full, 1, full], 15)[1], [vec![full], vec![1], vec![full]]);
    }

    #[test]
    fn a_pack_waits_for_sixteen_neighbours() {
        let [done, open] = sizes(&[1900; 35], 15);
        assert_eq!((done.len(), open.len()), (10, 8));
        assert!(done.iter().all(|pack| pack.len() == 2));
    }
}
