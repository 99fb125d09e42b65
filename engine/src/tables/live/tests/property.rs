//! Random histories: effects in epochs, pages that come into memory and leave it, sectors written each at its own time, checkpoints.

use super::model::{LBNS, Origin, PBNS, Tables};
use super::{Live, Pieces, SHORTS, UnlinkedRecords, named};
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, PBN_MAX, REFS_MAX, REFS_UNKNOWN};
use crate::format::geometry::LOGICAL_BLOCKS_MAX;
use crate::format::page::{PageContent, PageId, Region, SECTORS};
use crate::map::Map;
use crate::tables::effect::{Effect, EntryChange};
use crate::units::{Epoch, count, index};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// New blocks, one with its fingerprint or a run of them without.
    New {
        lbn: usize,
        pbn: usize,
        blocks: usize,
    },
    /// LBNs get links to blocks that have some.
    Link {
        lbn: usize,
        pbn: usize,
        blocks: usize,
        slot: u8,
    },
    /// LBNs mean no block any more.
    Clear {
        lbn: usize,
        blocks: usize,
        to: MapEntry,
    },
    /// The fingerprints of blocks go.
    Remove {
        pbn: usize,
        blocks: usize,
    },
    /// A block is new, and has no link.
    Carrier {
        pbn: usize,
    },
    /// A link goes that no LBN had.
    Stray {
        pbn: usize,
    },
    Commit {
        epochs: u64,
    },
    /// A page comes into memory, or leaves it.
    Load {
        page: usize,
    },
    /// Some sectors of a page reach the medium as they were after some epoch.
    Write {
        page: usize,
        sectors: u8,
        epoch: usize,
    },
    /// All that was done up to some epoch reaches the medium.
    Checkpoint {
        epoch: usize,
    },
    /// The fingerprints of what was done up to some epoch do, and the rest is in compacted units.
    Compact {
        epoch: usize,
    },
    /// They are read anew.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let (lbn, pbn, page, epoch) = (|| 0..LBNS, || 0..PBNS, || 0..28usize, || 0..usize::MAX);
    let blocks = || prop_oneof![3 => Just(1usize), 1 => 2..250usize];
    let none = prop_oneof![Just(MapEntry::Unmapped), Just(MapEntry::Zero), Just(MapEntry::Lost)];
    prop_oneof![
        12 => (lbn(), pbn(), blocks()).prop_map(|(lbn, pbn, blocks)| Step::New { lbn, pbn, blocks }),
        12 => (lbn(), pbn(), blocks(), 0..16u8).prop_map(|(lbn, pbn, blocks, slot)| Step::Link { lbn, pbn, blocks, slot }),
        4 => (lbn(), blocks(), none).prop_map(|(lbn, blocks, to)| Step::Clear { lbn, blocks, to }),
        4 => (pbn(), blocks()).prop_map(|(pbn, blocks)| Step::Remove { pbn, blocks }),
        2 => pbn().prop_map(|pbn| Step::Carrier { pbn }),
        1 => pbn().prop_map(|pbn| Step::Stray { pbn }),
        8 => prop_oneof![9 => Just(1u64), 1 => 2..100_000u64].prop_map(|epochs| Step::Commit { epochs }),
        8 => page().prop_map(|page| Step::Load { page }),
        6 => (page(), any::<u8>(), epoch()).prop_map(|(page, sectors, epoch)| Step::Write { page, sectors, epoch }),
        1 => epoch().prop_map(|epoch| Step::Checkpoint { epoch }),
        2 => epoch().prop_map(|epoch| Step::Compact { epoch }),
        1 => Just(Step::Reopen),
    ]
}

struct World {
    origin: Origin,
    ids: Vec<PageId>,
    /// With all that was done, and what each epoch since the last checkpoint left.
    now: Tables,
    after: Vec<(Epoch, Tables)>,
    /// The effects of the epoch that is not committed, and of those that are, since the last checkpoint.
    open: Vec<Effect<'static>>,
    done: Vec<(Epoch, Effect<'static>)>,
    /// The last epoch that was compacted.
    named: Epoch,
    medium: Map<PageId, PageContent>,
    memory: Map<PageId, PageContent>,
    live: Live,
    /// The first number of nodes.
    first: u32,
}

impl World {
    fn new(origin: Origin, first: u32, expected: u64) -> Self {
        let (now, ids) = (Tables::new(origin), origin.pages());
        let medium = ids.iter().map(|&id| (id, now.page(id))).collect();
        let after = vec![(Epoch(0), now.clone())];
        let live = Live::starting_at(first, expected);
        Self { origin, ids, now, after, open: Vec::new(), done: Vec::new(), named: Epoch(0), medium, memory: Map::default(), live, first }
    }

    /// From `lbn` on, as many of `blocks` as one effect can tell the old blocks of.
    fn olds(&self, lbn: usize, blocks: usize) -> (Option<usize>, usize) {
        let old = |i: usize| self.now.map[lbn + i].pbn().map(|pbn| self.origin.pbn_index(pbn));
        let first = old(0);
        let fits = |&i: &usize| lbn + i < LBNS && old(i) == first.map(|pbn| pbn + i);
        (first, (0..blocks).take_while(fits).count())
    }

    /// The first block from `pbn` on for which this holds, and for how many it does, up to `blocks`.
    fn run(pbn: usize, blocks: usize, holds: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let first = (pbn..PBNS).find(|&pbn| holds(pbn))?;
        Some((first, (first..PBNS.min(first + blocks)).take_while(|&pbn| holds(pbn)).count()))
    }

    fn counts(&self, pbn: usize) -> bool {
        (1..REFS_MAX).contains(&self.now.refs[pbn])
    }

    /// Returns the effect of a step on the tables, if it is possible now.
    fn effect(&self, step: Step) -> Option<Effect<'static>> {
        let free = |pbn| self.now.refs[pbn] == 0;
        let to = |pbn, slot| MapEntry::Block { pbn: self.origin.pbn(pbn), slot };
        let mapped = |lbn: usize, blocks: usize, to, name| {
            let (old, fits) = self.olds(lbn, blocks);
            let old = old.map(|pbn| self.origin.pbn(pbn));
            Effect { lbn: Some(self.origin.lbn(lbn)), blocks: count(blocks.min(fits)), to, old, name }
        };
        let unmapped = |to, old: Option<usize>, blocks, name| {
            Some(Effect { lbn: None, blocks: count(blocks), to, old: old.map(|pbn| self.origin.pbn(pbn)), name })
        };
        match step {
            Step::New { lbn, pbn, blocks } => {
                let (first, free) = Self::run(pbn, blocks, free)?;
                let (new, before) = (mapped(lbn, free, to(first, 0), EntryChange::None), self.done.len() + self.open.len());
                let shorts = &SHORTS[before % 100..][..index(new.blocks)];
                let name = match before % 2 {
                    _ if blocks == 1 => named(count(before)),
                    0 => EntryChange::Short(shorts),
                    _ => EntryChange::ShortApart(shorts),
                };
                Some(Effect { name, ..new })
            }
            Step::Link { lbn, pbn, blocks, slot } => {
                let (old, _) = self.olds(lbn, 1);
                // A link that takes the place of one to the same block goes where no other does.
                if let Some(pbn) = old.filter(|&pbn| self.now.refs[pbn] == REFS_MAX) {
                    return Some(mapped(lbn, 1, to(pbn, slot), EntryChange::None));
                }
                let linked = |pbn: usize| self.counts(pbn) || self.now.refs[pbn] == REFS_UNKNOWN;
                let (first, linked) = Self::run(pbn, blocks, linked)?;
                Some(mapped(lbn, linked, to(first, slot), EntryChange::None))
            }
            Step::Clear { lbn, blocks, to } => Some(mapped(lbn, blocks, to, EntryChange::None)),
            Step::Remove { pbn, blocks } => {
                let (first, blocks) = Self::run(pbn, blocks, |pbn| !self.now.names[pbn].is_none())?;
                unmapped(MapEntry::Unmapped, Some(first), blocks, EntryChange::Removed)
            }
            Step::Carrier { pbn } => {
                let (first, _) = Self::run(pbn, 1, free)?;
                let entry = FingerprintEntry { kind: Kind::Carrier, ..FingerprintEntry::NONE };
                unmapped(to(first, 0), None, 1, EntryChange::Of(entry))
            }
            Step::Stray { pbn } => {
                let (first, _) = Self::run(pbn, 1, |pbn| self.now.strays[pbn] > 0)?;
                unmapped(MapEntry::Unmapped, Some(first), 1, EntryChange::None)
            }
            _ => None,
        }
    }

    fn commit(&mut self, epochs: u64) {
        let epoch = self.newest() + epochs;
        for effect in self.open.drain(..) {
            self.live.push(epoch, &effect);
            for id in effect.pages() {
                if let Some(content) = self.memory.get_mut(&id) {
                    effect.replay(epoch, id, content);
                }
            }
            self.done.push((epoch, effect));
        }
        self.after.push((epoch, self.now.clone()));
    }

    fn newest(&self) -> Epoch {
        self.after.last().expect("at least the last checkpoint's").0
    }

    fn committed(&self) -> &Tables {
        &self.after.last().expect("at least the last checkpoint's").1
    }

    /// One sector reaches the medium as an epoch left it, unless it is newer there.
    fn write(&mut self, id: PageId, sector: usize, epoch: usize) {
        let (epoch, tables) = &self.after[epoch];
        let content = self.medium.get_mut(&id).expect("all pages are there");
        if content.tag(sector) < epoch.get() {
            tables.write(id, sector, content);
            content.set_tag(sector, epoch.get());
        }
    }

    fn checkpoint(&mut self, at: usize) {
        for id in self.live.pages(Epoch(u64::MAX)).collect::<Vec<_>>() {
            (0..SECTORS).for_each(|sector| self.write(id, sector, at));
        }
        let upto = self.after[at].0;
        self.live.forget_upto(upto);
        [&self.live.links, &self.live.names].into_iter().for_each(Pieces::self_check);
        self.done.retain(|(epoch, _)| *epoch > upto);
        self.after.drain(..at);
    }

    fn compact(&mut self, at: usize) {
        let upto = self.after[at].0;
        for id in self.live.name_pages(upto).collect::<Vec<_>>() {
            (0..SECTORS).for_each(|sector| self.write(id, sector, at));
        }
        self.live.compacted_upto(upto);
        self.named = self.named.max(upto);
    }

    fn reopen(&mut self) {
        let mut read = UnlinkedRecords(Live::starting_at(self.first, 0));
        self.done.iter().for_each(|(epoch, effect)| read.push(*epoch, effect));
        self.live = read.chained();
        self.live.compacted_upto(self.named);
        [&self.live.links, &self.live.names].into_iter().for_each(Pieces::self_check);
    }

    /// Asserts that a page in memory, and one that is loaded now, have the state after the last commit.
    fn look_at(&mut self, id: PageId) {
        let right = self.committed().page(id);
        let mut loaded = self.medium[&id].clone();
        self.live.apply(Epoch(u64::MAX), id, &mut loaded);
        for sector in 0..SECTORS {
            assert!(loaded.sector(sector) == right.sector(sector), "{id:?} as loaded, sector {sector}");
            let kept = self.memory.get(&id).is_none_or(|content| content.sector(sector) == right.sector(sector));
            assert!(kept, "{id:?} in memory, sector {sector}");
        }
        if self.memory.remove(&id).is_none() {
            self.memory.insert(id, loaded);
        }
    }

    /// Asserts what the live records report as a whole.
    fn look_at_all(&mut self) {
        let is_live = |epoch: Epoch, id: &PageId| id.region != Region::Fingerprints || epoch > self.named;
        let pages = |(epoch, effect): &(Epoch, Effect<'_>)| effect.pages().filter(|id| is_live(*epoch, id)).collect::<Vec<_>>();
        let touched: BTreeSet<_> = self.done.iter().flat_map(pages).collect();
        assert!(self.live.pages(Epoch(u64::MAX)).eq(touched.iter().copied()), "the pages that effects touch");
        for id in self.ids.clone() {
            assert_eq!(self.live.touches(id), touched.contains(&id), "{id:?}");
            self.look_at(id);
        }
        [&self.live.links, &self.live.names].into_iter().for_each(Pieces::self_check);
        let pieces = || self.done.iter().flat_map(|(epoch, effect)| effect.pieces().map(|piece| (*epoch, piece.apart())));
        assert!(self.live.links.iter().eq(pieces().map(|(epoch, (links, _))| (epoch, links))), "all links, in order");
        let names = pieces().filter_map(|(epoch, (_, names))| Some((epoch, names?)));
        assert!(self.live.names.iter().eq(names.filter(|(epoch, _)| *epoch > self.named)), "all names that are not compacted, in order");
        let not_compacted = pieces().filter(|(epoch, _)| *epoch > self.named).map(|(epoch, (links, _))| (epoch, links));
        assert!(self.live.not_compacted().eq(not_compacted), "what is to be compacted next");
    }

    fn step(&mut self, step: Step) {
        if let Some(effect) = self.effect(step) {
            self.now.do_it(&effect);
            self.open.push(effect);
            return;
        }
        match step {
            Step::Commit { epochs } => self.commit(epochs),
            Step::Load { page } => self.look_at(self.ids[page]),
            Step::Write { page, sectors, epoch } => {
                let epoch = epoch % self.after.len();
                (0..SECTORS).filter(|s| sectors & (1 << s) != 0).for_each(|sector| self.write(self.ids[page], sector, epoch));
            }
            Step::Checkpoint { epoch } => self.checkpoint(epoch % self.after.len()),
            Step::Compact { epoch } => self.compact(epoch % self.after.len()),
            Step::Reopen => self.reopen(),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_page_as_loaded_is_the_page_after_the_last_commit(
        steps in vec(step(), 0..1500),
        origin in prop_oneof![
            Just(Origin { map_page: 0, refs_page: 0 }),
            Just(Origin { map_page: LOGICAL_BLOCKS_MAX / 800 - 3, refs_page: PBN_MAX.get() / 4000 - 2 }),
            (0..1u64 << 30, 0..1u64 << 24).prop_map(|(map_page, refs_page)| Origin { map_page, refs_page }),
        ],
        // So that places come round to 0 on the way.
        first in prop_oneof![Just(0), u32::MAX - 8000..=u32::MAX],
        expected in prop_oneof![Just(0), 0..2000u64],
    ) {
        let mut world = World::new(origin, first, expected);
        steps.into_iter().for_each(|step| world.step(step));
        world.commit(1);
        world.look_at_all();
        world.checkpoint(world.after.len() - 1);
        prop_assert_eq!(world.live.links.nodes.len() + world.live.names.nodes.len(), 0);
        world.look_at_all();
    }
}
