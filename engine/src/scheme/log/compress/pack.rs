//! Packs: compressed blocks of a large epoch, several client blocks in one block of the device.
//!
//! 1. A pack is content: it is written while its epoch fills, and flushed before the units that name it (R1). Packs, and the incompressible
//!    blocks that are held back with them, take blocks that these had before, and that are free on the medium: side by side, so that few
//!    writes take all of them.
//! 2. A pack holds blocks of one stream, and lies among that stream's blocks. Neighbours by LBN are packed together, so that they are read
//!    together: each block goes into the first pack that has room for it, among those that one of the sixteen blocks before it began.
//! 3. A block is packed or moved only if all LBNs that mean it are known and belong to its epoch, and no operation has pinned it: every
//!    reference moves with it. A pack has no more links than slots.

use super::carry::{Moving, counts_now, free_unwritten, take_away, take_rider};
use super::hold::{held_blocks_max, take_held};
use super::rider::Rider;
use crate::ack_journal::{AckJournal, SlotContent};
use crate::answers::Answers;
use crate::buffer::Slice;
use crate::contents::{Contents, HeldState};
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::format::unit::{SLOT_BYTES, SLOTS_MAX, UNIT_ROOM_BYTES, UnitHeader, UnitKind, UnitWriter};
use crate::policy::Stream;
use crate::pool::Pool;
use crate::scheme::log::Log;
use crate::scheme::log::estimate::TRIAL_BLOCKS;
use crate::scheme::log::sealed::sealed;
use crate::settings::{Compression, Settings};
use crate::space::PendingBlock;
use crate::tables::Tables;
use crate::units::{Epoch, Lbn, Pbn, index};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Held blocks of which packs are made at once: the more, the longer the runs of their blocks.
const BATCH_BLOCKS: usize = 256;

/// A held block, and the LBNs that mean it, ascending, at least one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MappedBlock {
    lbns: Vec<Lbn>,
    pbn: Pbn,
}

/// A block that compresses, and its compressed size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CompressedBlock {
    block: MappedBlock,
    bytes: usize,
}

/// A block that was taken to its pack, and the count of its own block.
struct PackedRider {
    lbns: Vec<Lbn>,
    rider: Rider,
    counted: i16,
}

/// A pack takes blocks from among this many neighbours.
const NEIGHBOURS: usize = 16;

/// The blocks of each pack, with at most this many links: first fit, in their order, from among [`NEIGHBOURS`] each.
fn packs(blocks: Vec<CompressedBlock>, most: usize) -> Vec<Vec<CompressedBlock>> {
    let mut done = Vec::new();
    let mut open: VecDeque<(usize, Vec<CompressedBlock>)> = VecDeque::new();
    for (i, block) in blocks.into_iter().enumerate() {
        while open.front().is_some_and(|(since, _)| since + NEIGHBOURS <= i) {
            done.extend(open.pop_front().map(|(_, pack)| pack));
        }
        let size = |small: &CompressedBlock| SLOT_BYTES + small.bytes;
        let links = |small: &CompressedBlock| small.block.lbns.len();
        let takes = |pack: &[CompressedBlock]| {
            let fits = pack.iter().map(size).sum::<usize>() + size(&block) <= UNIT_ROOM_BYTES;
            fits && pack.iter().map(links).sum::<usize>() + links(&block) <= most
        };
        match open.iter_mut().find(|(_, pack)| takes(pack)) {
            Some((_, pack)) => pack.push(block),
            None => open.push_back((i, vec![block])),
        }
    }
    done.extend(open.into_iter().map(|(_, pack)| pack));
    done
}

/// The wanted number of these blocks, in order, and the rest of them. The longest runs are taken, so that few commands write all.
fn places(mut blocks: Vec<Pbn>, wanted: usize) -> (Vec<Pbn>, Vec<Pbn>) {
    blocks.sort_unstable();
    let mut runs: Vec<&[Pbn]> = blocks.chunk_by(|&one, &next| one + 1 == next).collect();
    runs.sort_by_key(|run| Reverse(run.len()));
    let mut all = runs.concat();
    let rest = all.split_off(wanted);
    all.sort_unstable();
    (all, rest)
}

impl Log {
    /// Whether the held blocks of an epoch go out as packs: it is the open one, and large.
    pub(super) fn is_to_be_packed(tables: &Tables, settings: &Settings, epoch: Epoch) -> bool {
        let is_large = epoch == tables.open.number && tables.open.is_large();
        is_large && settings.compression == Compression::All
    }

    /// Makes packs of the held blocks of an epoch, if it is large, and there are enough of them.
    pub fn pack_if_large(&mut self, pool: &mut Pool, answers: &mut Answers, epoch: Epoch) {
        if !Self::is_to_be_packed(&pool.tables, &pool.settings, epoch) {
            return;
        }
        let wants_packs = answers.ack_journal.wants_packs(&pool.settings);
        let most = held_blocks_max(&pool.memory);
        let ring = if pool.settings.facts.keeps_journal { index(answers.ack_journal.contents_max(&pool.settings)) } else { usize::MAX };
        let batch = if self.estimate.pays() { BATCH_BLOCKS } else { TRIAL_BLOCKS }.min(most / 2).min(ring / 2);
        let counts = pool.contents.held.counts(epoch);
        let answered = counts.held - counts.asked;
        if wants_packs && answered > 0 {
            return self.pack(pool, &mut answers.ack_journal);
        }
        if answered >= batch && counts.unseen >= NEIGHBOURS.min(most / 4) {
            // Each attempt looks at all held blocks. The next one follows when others have come.
            pool.contents.held.looked_at(epoch);
            if pool.contents.held.answered(epoch).count() >= batch {
                self.pack(pool, &mut answers.ack_journal);
            }
        }
    }

    /// Whether the open epoch is large, and content that it could pack is being compressed.
    pub fn waits_for_packs(&self, tables: &Tables, contents: &Contents) -> bool {
        tables.open.is_large() && contents.held.asks(tables.open.number)
    }

    /// Packs and sends all held blocks of the open epoch before it is sealed, if it is large.
    pub fn pack_before_seal(&mut self, pool: &mut Pool, answers: &mut Answers) {
        let epoch = pool.tables.open.number;
        if Self::is_to_be_packed(&pool.tables, &pool.settings, epoch) {
            self.pack(pool, &mut answers.ack_journal);
            // The rest is still being compressed.
            super::send_held(pool, &mut answers.ack_journal, epoch, |_| true);
        }
    }

    /// Packs the compressed blocks that the open epoch holds back, and sends the others.
    fn pack(&mut self, pool: &mut Pool, journal: &mut AckJournal) {
        let epoch = pool.tables.open.number;
        let (mut by_stream, mut others) = (BTreeMap::<Stream, Packable>::new(), Vec::new());
        let mut incompressible = 0;
        for (pbn, held) in pool.contents.held.answered(epoch) {
            incompressible += usize::from(matches!(held.state, HeldState::Incompressible));
            let mut lbns = held.lbns.clone();
            lbns.retain(|lbn| pool.tables.open.points.get(*lbn) == Some(MapEntry::Block { pbn, slot: 0 }));
            lbns.sort_unstable();
            lbns.dedup();
            // The count is that of these links and of the fingerprint. A pinned block stays where it is, since no other content may take
            // its place (R7).
            let are_all = !lbns.is_empty() && i16::try_from(lbns.len()).is_ok_and(|links| pool.tables.pending_counts.get(pbn) == links + 1);
            let is_known = are_all && !pool.space.is_pinned(pbn);
            let block = MappedBlock { lbns, pbn };
            let of_stream = by_stream.entry(held.policy.stream()).or_default();
            match &held.state {
                _ if !is_known => others.push(pbn),
                HeldState::Compressed(data) => of_stream.small.push(CompressedBlock { block, bytes: data.len() }),
                HeldState::Incompressible | HeldState::Noise | HeldState::Compressing(_) => of_stream.whole.push(block),
            }
        }
        let most = SLOTS_MAX.min(usize::from(pool.settings.knobs.refs_limit) - 1);
        let of_streams: Vec<Packed> = by_stream.into_values().map(|packable| packable.packed(most)).collect();
        let saved = of_streams.iter().map(|of| of.packs.iter().map(|pack| pack.len() - 1).sum::<usize>()).sum();
        let compressed = of_streams.iter().map(|of| of.compressed).sum::<usize>();
        self.estimate.note(compressed + incompressible, saved);
        pool.contents.held.looked_at(epoch);
        let mut contents: Vec<_> = of_streams.into_iter().flat_map(|of| place(pool, journal, epoch, of.packs, of.whole)).collect();
        contents
            .extend(others.into_iter().map(|pbn| (pbn, take_held(&pool.space, &mut pool.contents, &pool.settings, journal, epoch, pbn))));
        contents.sort_unstable_by_key(|&(pbn, _)| pbn);
        pool.send_contents(contents);
    }
}

/// The held blocks of one stream that may be packed or moved.
#[derive(Default)]
struct Packable {
    small: Vec<CompressedBlock>,
    whole: Vec<MappedBlock>,
}

/// The packs of one stream, and the blocks that get a place of their own.
struct Packed {
    packs: Vec<Vec<CompressedBlock>>,
    whole: Vec<MappedBlock>,
    /// The number of blocks that compress.
    compressed: usize,
}

impl Packable {
    /// Makes packs with at most this many links each.
    fn packed(self, most: usize) -> Packed {
        let Self { mut small, mut whole } = self;
        small.sort_unstable();
        let compressed = small.len();
        let (packs, alone): (Vec<_>, Vec<_>) = packs(small, most).into_iter().partition(|pack| pack.len() > 1);
        // One block alone gains nothing by a pack.
        whole.extend(alone.into_iter().flatten().map(|small| small.block));
        Packed { packs, whole, compressed }
    }
}

/// Assigns packs and whole blocks to the longest free runs. A block that lies in one of these stays there.
fn place(
    pool: &mut Pool,
    journal: &mut AckJournal,
    epoch: Epoch,
    packs: Vec<Vec<CompressedBlock>>,
    whole: Vec<MappedBlock>,
) -> Vec<(Pbn, Slice)> {
    let all = packs.iter().flatten().map(|small| &small.block).chain(&whole).map(|block| block.pbn).collect();
    let (places, rest) = places(all, packs.len() + whole.len());
    let (stays, moves): (Vec<_>, Vec<_>) = whole.into_iter().partition(|block| places.binary_search(&block.pbn).is_ok());
    let taken: BTreeSet<Pbn> = stays.iter().map(|block| block.pbn).collect();
    let mut vacant = places.into_iter().filter(|pbn| !taken.contains(pbn));
    // All blocks leave their places before anything takes these.
    let packs: Vec<_> = packs.into_iter().zip(&mut vacant).map(|(pack, to)| (to, take_riders(pool, epoch, pack, to))).collect();
    let moves: Vec<_> = moves.into_iter().zip(vacant).map(|(block, to)| (to, block.lbns, take_away(pool, epoch, block.pbn, to))).collect();
    let mut contents: Vec<_> = packs.into_iter().map(|(pbn, riders)| (pbn, make_pack(pool, journal, epoch, pbn, riders))).collect();
    contents.extend(moves.into_iter().map(|(pbn, lbns, moving)| (pbn, put_at(pool, journal, lbns, pbn, moving))));
    contents.extend(
        stays.into_iter().map(|block| (block.pbn, take_held(&pool.space, &mut pool.contents, &pool.settings, journal, epoch, block.pbn))),
    );
    free_unwritten(&mut pool.space, rest);
    contents
}

/// Puts a block that was held back at its new place. Returns its content.
fn put_at(pool: &mut Pool, journal: &mut AckJournal, lbns: Vec<Lbn>, pbn: Pbn, moving: Moving) -> Slice {
    let Moving { pending, content, counted, .. } = moving;
    counts_now(&mut pool.tables, &mut pool.space, &pool.geometry, pbn, counted, false);
    let lies = map_to(&mut pool.tables, lbns, (pbn, 0), pending.fingerprint);
    journal.content_goes_to(&pool.settings, pbn, lies);
    pool.space.pending.insert(pbn, pending);
    content
}

/// Maps these LBNs to the new place, in the open epoch.
fn map_to(tables: &mut Tables, lbns: Vec<Lbn>, (pbn, slot): (Pbn, u8), fingerprint: Fingerprint) -> Vec<SlotContent> {
    for &lbn in &lbns {
        tables.open.points.insert(lbn, MapEntry::Block { pbn, slot });
    }
    lbns.into_iter().map(|lbn| SlotContent { lbn, slot, name: FingerprintEntry::of(fingerprint) }).collect()
}

fn take_riders(pool: &mut Pool, epoch: Epoch, blocks: Vec<CompressedBlock>, place: Pbn) -> Vec<PackedRider> {
    let take = |CompressedBlock { block: MappedBlock { lbns, pbn }, .. }| {
        let (rider, counted) = take_rider(pool, epoch, pbn, place);
        PackedRider { lbns, rider, counted }
    };
    blocks.into_iter().map(take).collect()
}

fn make_pack(pool: &mut Pool, journal: &mut AckJournal, epoch: Epoch, pbn: Pbn, riders: Vec<PackedRider>) -> Slice {
    let mut writer = UnitWriter::new(Vec::new());
    let mut counts = 1;
    let mut lies = Vec::with_capacity(riders.len());
    for (PackedRider { lbns, rider, counted }, slot) in riders.into_iter().zip(1..) {
        counts += counted - 1;
        let pushed = writer.push_slot(rider.fingerprint, &rider.data);
        assert_eq!(pushed, Some(slot), "a pack was measured");
        lies.extend(map_to(&mut pool.tables, lbns, (pbn, slot), rider.fingerprint));
    }
    counts_now(&mut pool.tables, &mut pool.space, &pool.geometry, pbn, counts, false);
    journal.content_goes_to(&pool.settings, pbn, lies);
    pool.io.ledger.units.filled(UnitKind::Pack, &writer);
    let incarnation = pool.medium.superblock.incarnation;
    let header =
        UnitHeader { kind: UnitKind::Pack, incarnation, sequence: 0, epoch, unit: 0, units: 1, flushed_upto: 0, content_flushed: true };
    let (block, authenticator) = sealed(&pool.io, &pool.keys, writer, &header, pbn);
    let held = Some(block.clone());
    pool.space
        .pending
        .insert(pbn, PendingBlock { kind: Kind::Carrier, fingerprint: authenticator, epoch: epoch.get(), content: held, waits: true });
    pool.tables.open.gets_packs();
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bytes: &[usize], most: usize) -> Vec<Vec<usize>> {
        linked(&bytes.iter().map(|&bytes| (bytes, 1)).collect::<Vec<_>>(), most)
    }

    /// The sizes in each pack, of blocks with these sizes and numbers of links.
    fn linked(blocks: &[(usize, u64)], most: usize) -> Vec<Vec<usize>> {
        let block = |(&(bytes, links), i)| CompressedBlock {
            block: MappedBlock { lbns: (0..links).map(|n| Lbn(100 * i + n)).collect(), pbn: Pbn(i) },
            bytes,
        };
        let blocks = blocks.iter().zip(0..).map(block).collect();
        packs(blocks, most).into_iter().map(|pack| pack.into_iter().map(|small| small.bytes).collect()).collect()
    }

    #[test]
    fn a_pack_has_no_more_links_than_it_may() {
        assert_eq!(linked(&[(100, 9), (200, 9), (300, 6), (400, 20), (500, 1)], 15), [vec![100, 300], vec![200, 500], vec![400]]);
    }

    #[test]
    fn a_block_goes_to_the_first_pack_that_has_room() {
        assert_eq!(sizes(&[1000, 3500, 900, 200, 3000], 15), [vec![1000, 900, 200], vec![3500], vec![3000]]);
        assert_eq!(sizes(&[100; 16], 15).iter().map(Vec::len).collect::<Vec<_>>(), [15, 1]);
        assert_eq!(sizes(&[100; 4], 2), [[100, 100], [100, 100]]);
        let full = UNIT_ROOM_BYTES - SLOT_BYTES;
        assert_eq!(sizes(&[full, 1, full], 15), [vec![full], vec![1], vec![full]]);
    }

    #[test]
    fn packs_take_the_places_of_the_longest_runs() {
        let blocks = [9, 1, 5, 6, 7, 20, 21].map(Pbn).to_vec();
        assert_eq!(places(blocks, 5), ([5, 6, 7, 20, 21].map(Pbn).to_vec(), [1, 9].map(Pbn).to_vec()));
    }

    #[test]
    fn a_pack_takes_no_more_than_what_lies_near() {
        let near = |far: usize| {
            let bytes: Vec<usize> = std::iter::once(2000).chain(std::iter::repeat_n(3500, far)).chain([1000]).collect();
            sizes(&bytes, 15)[0].len()
        };
        assert_eq!((near(NEIGHBOURS - 2), near(NEIGHBOURS - 1)), (2, 1));
    }
}
