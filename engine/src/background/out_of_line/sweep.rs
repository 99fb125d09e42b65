//! The sweep: each entry of the fingerprint table is compared with the candidates.
//!
//! 1. The first place with a candidate's content that takes further links is the one that all candidates of that content are mapped to. The
//!    table is always read in the same order, so later sweeps choose the same place. A candidate that comes to its own block first, and is
//!    the only one that means it, goes on to the next place: it is new, and whoever had the content before is no candidate.
//! 2. A carrier is read only where the tags in its entry match a candidate.
//! 3. What has to wait goes on with the same block.

use super::blocks::READS_AT_ONCE;
use super::{OutOfLine, OutOfLineStage, is_urgent};
use crate::answers::Answers;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::unit;
use crate::index::{NamedLbn, ToCompare};
use crate::io::Io;
use crate::memory::Part;
use crate::pool::{Parts, Place, Pool, Remapped};
use crate::schedule::Blocked;
use crate::scheme::Scheme;
use crate::settings::Settings;
use crate::space::{GRANULE_BLOCKS, Space};
use crate::tables::{Access, Tables};
use crate::units::{Pbn, index};
use std::ops::RangeInclusive;

/// Pages that one turn sweeps.
const PAGES_A_STEP: usize = 4;
/// One in this many candidates may leave its block for a later place.
const LEFT_PART: usize = 8;
/// An epoch with links alone fills this number of times as long as others.
const LINKS_PERIODS: u64 = 12;
/// The wait for room for records.
const CROWDED_MS: u64 = 10;

impl OutOfLine {
    /// Compares entries of the fingerprint table with the candidates, from block `next` on.
    pub(super) fn sweep(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, mut next: Pbn) {
        for _ in 0..PAGES_A_STEP {
            if next.0 >= parts.pool.geometry.data_blocks {
                self.end_sweep(&parts.pool.io, &mut parts.volume.to_compare, &mut parts.pool.medium);
                break;
            }
            let (id, _) = parts.pool.geometry.fingerprint_of(next);
            if !parts.pool.tables.is_blank(&mut parts.pool.io, id) {
                let pages = parts.pool.geometry.pages_of_blocks(Region::Fingerprints);
                let reads = parts.pool.tables.load_ahead(&mut parts.pool.io, (0..pages - id.index).map(|i| id.after(i)));
                match parts.pool.tables.ensure(&mut parts.pool.io, id) {
                    Access::Loading => return self.wait(parts, id, reads),
                    Access::Unreadable => {}
                    Access::Ready(_) => match self.compare_page(parts, scheme, answers, id, next) {
                        Ok(()) => {}
                        Err(Blocked::Page(missing)) => return self.wait(parts, missing, 1),
                        Err(Blocked::Compare(missing)) => return self.read_targets(parts, missing),
                        Err(Blocked::Carrier(missing)) => return self.read_carriers_of(parts, id, missing),
                        Err(_) => return self.wait_for_room(&parts.pool.io, &mut parts.pool.tables, &parts.pool.settings),
                    },
                }
            }
            next = parts.pool.geometry.first_pbn(id) + GRANULE_BLOCKS;
            self.stage = OutOfLineStage::Sweep(next);
        }
        parts.pool.io.schedule.ask_for_background();
    }

    /// Waits until there is room for another record: the open epoch, which may have links alone, fills no longer than others do.
    pub(super) fn wait_for_room(&mut self, io: &Io, tables: &mut Tables, settings: &Settings) {
        tables.open.seal_within(io.now(), settings.commit_period_ms);
        self.pause = Some(io.now().plus_ms(CROWDED_MS));
    }

    /// Maps candidates to the blocks of a page, which is in memory, and to slots of them, from block `next` on.
    pub(super) fn compare_page(
        &mut self,
        parts: &mut Parts,
        scheme: &mut Scheme,
        answers: &mut Answers,
        id: PageId,
        next: Pbn,
    ) -> Result<(), Blocked> {
        for (pbn, _) in self.matches(&mut parts.pool.tables, &parts.pool.geometry, id, next) {
            self.stage = OutOfLineStage::Sweep(pbn);
            self.compare_block(parts, scheme, answers, pbn)?;
        }
        Ok(())
    }

    /// Reads a carrier, and further ones of this page that it will come to.
    fn read_carriers_of(&mut self, parts: &mut Parts, id: PageId, missing: Pbn) {
        let OutOfLineStage::Sweep(next) = self.stage else { return };
        let matches = self.matches(&mut parts.pool.tables, &parts.pool.geometry, id, next + 1);
        let carriers = matches.iter().filter(|(pbn, entry)| entry.kind == Kind::Carrier && *pbn != missing);
        let unread = carriers.filter(|(pbn, entry)| self.known.slots_of(*pbn, &entry.value).is_none());
        let ahead: Vec<Pbn> = unread.map(|&(pbn, _)| pbn).take(READS_AT_ONCE - 1).collect();
        self.read_carriers(parts, [missing].into_iter().chain(ahead));
    }

    /// The blocks of a page, from `next` on, that may have the content of a candidate.
    fn matches(&self, tables: &mut Tables, geometry: &Geometry, id: PageId, next: Pbn) -> Vec<(Pbn, FingerprintEntry)> {
        let first = geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(geometry.data_blocks - first.0);
        let content = &tables.pages.expect(id).content;
        let entries = (next - first..blocks).map(|i| (first + i, content.fingerprint(index(i))));
        entries.filter(|(_, entry)| self.may_match(entry)).collect()
    }

    /// Whether a block with this entry may have the content of a candidate that is not done.
    fn may_match(&self, entry: &FingerprintEntry) -> bool {
        let has_candidate = |heads: RangeInclusive<u64>| self.candidates_of(heads).any(|at| self.is_open(at));
        match entry.kind {
            Kind::Fingerprint => has_candidate(heads_of(&entry.value)),
            Kind::Carrier => unit::heads_of_slots(&entry.value).any(has_candidate),
            Kind::None | Kind::Checksum => false,
        }
    }

    /// Whether some candidate waits for a read of this block, to be mapped to it.
    pub(super) fn is_target(&self, pool: &mut Pool, pbn: Pbn) -> bool {
        let Ok(entry) = pool.settled_entry(pbn) else { return false };
        if entry.kind != Kind::Fingerprint || self.left.contains_key(&pbn) {
            return false;
        }
        let layout = self.batch.layout;
        let lbns: Vec<_> = self.candidates_of(heads_of(&entry.value)).filter_map(|at| layout.lbn(self.candidates[at])).collect();
        lbns.into_iter().any(|lbn| matches!(pool.may_remap(lbn, (pbn, 0), &self.known), Err(Blocked::Compare(_))))
    }

    /// The candidates, the done ones too, whose fingerprints may have these heads.
    fn candidates_of(&self, heads: RangeInclusive<u64>) -> impl Iterator<Item = usize> + use<'_> {
        let layout = self.batch.layout;
        let (first, last) = (layout.tag_of_head(*heads.start()), layout.tag_of_head(*heads.end()));
        let at = self.candidates.partition_point(|&candidate| layout.tag(candidate) < first);
        (at..self.candidates.len()).take_while(move |&at| layout.tag(self.candidates[at]) <= last)
    }

    fn is_open(&self, at: usize) -> bool {
        self.batch.layout.lbn(self.candidates[at]).is_some()
    }

    /// Maps candidates to a block, or to the slots of a carrier.
    pub(super) fn compare_block(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, pbn: Pbn) -> Result<(), Blocked> {
        let entry = parts.pool.settled_entry(pbn).map_err(Blocked::Page)?;
        match entry.kind {
            // Another place has been found meanwhile for all that it may have.
            _ if !self.may_match(&entry) => Ok(()),
            Kind::Fingerprint => self.map_candidates(parts, scheme, answers, (pbn, 0), &entry.value),
            Kind::Carrier => {
                let slots = parts.pool.slots_of(pbn, &entry.value, &self.known)?;
                (1..).zip(&slots).try_for_each(|(slot, fp)| self.map_candidates(parts, scheme, answers, (pbn, slot), fp))
            }
            Kind::None | Kind::Checksum => Ok(()),
        }
    }

    /// Maps the candidates with this fingerprint to the place that has it.
    fn map_candidates(
        &mut self,
        parts: &mut Parts,
        scheme: &mut Scheme,
        answers: &mut Answers,
        place: Place,
        fp: &Fingerprint,
    ) -> Result<(), Blocked> {
        let matching: Vec<usize> = self.candidates_of(heads_of(fp)).collect();
        matching.into_iter().try_for_each(|at| self.map_candidate(parts, scheme, answers, place, at))
    }

    fn map_candidate(
        &mut self,
        parts: &mut Parts,
        scheme: &mut Scheme,
        answers: &mut Answers,
        place: Place,
        at: usize,
    ) -> Result<(), Blocked> {
        let layout = self.batch.layout;
        let candidate: NamedLbn = self.candidates[at];
        let Some(lbn) = layout.lbn(candidate) else { return Ok(()) };
        if self.left.contains_key(&place.0) {
            return Ok(());
        }
        match parts.pool.may_remap(lbn, place, &self.known)? {
            Remapped::May(from, fp) => {
                if lacks_room(parts, scheme, answers) {
                    return Err(Blocked::Space);
                }
                scheme.admit_records(&mut parts.pool, 1)?;
                parts.pool.remap(lbn, place, &fp, links_period(&parts.pool.space, &parts.volume.to_compare, &parts.pool.settings));
                scheme.pack_if_large(&mut parts.pool, answers);
                self.linked += 1;
                if from < place.0 {
                    self.left.insert(from, parts.pool.tables.open.number);
                }
            }
            Remapped::Stands(pbn, fp) => parts.pool.index.end_doubt(&fp, pbn),
            Remapped::Alone(fp) => {
                parts.pool.index.end_doubt(&fp, place.0);
                if self.may_leave(&parts.pool.settings) {
                    return Ok(());
                }
            }
            Remapped::Changed => {}
            Remapped::NotThere | Remapped::Differs => return Ok(()),
        }
        self.candidates[at] = layout.without_lbn(candidate);
        Ok(())
    }
}

impl OutOfLine {
    /// Whether a candidate may leave its block for a later place. Where short runs are filtered, what was stored again on purpose lies
    /// there.
    fn may_leave(&self, settings: &Settings) -> bool {
        settings.min_run <= 1 && self.left.len() < self.batch.named_max() / LEFT_PART
    }

    /// Forgets the blocks that candidates have left, once another epoch after that is durable: their counts are right by then (L6).
    pub(super) fn forget_left(&mut self, tables: &Tables) {
        self.left.retain(|_, epoch| tables.open.number <= *epoch + 2);
    }
}

/// The time within which an epoch with a new link is sealed. Unless somebody waits for the work, a link waits for the records of clients,
/// which mostly come before that, and costs no commit of its own.
fn links_period(space: &Space, to_compare: &ToCompare, settings: &Settings) -> u64 {
    settings.commit_period_ms.saturating_mul(if is_urgent(space, to_compare) { 1 } else { LINKS_PERIODS })
}

/// The head that the fingerprint has.
fn heads_of(fp: &Fingerprint) -> RangeInclusive<u64> {
    fp.head()..=fp.head()
}

/// Whether clients' records need the memory.
fn lacks_room(parts: &Parts, scheme: &Scheme, answers: &Answers) -> bool {
    let share = if is_urgent(&parts.pool.space, &parts.volume.to_compare) { 2 } else { 4 };
    parts.pool.open_bytes() > parts.pool.memory.accountant.limit(Part::Dirty) / share
        || parts.pool.tables.open.is_due
        || parts.pool.is_behind()
        || scheme.is_crowded(&parts.pool, answers)
}
