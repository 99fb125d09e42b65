//! The recount: after a crash the counts of some blocks are higher than their links (P5). It finds the excess and returns it, online.
//!
//! 1. It goes by windows of PBNs. For each window it passes over the whole map once and counts the links, while commits go on. A change to
//!    a map page that was counted changes the counts too ([`Window`](crate::tables::Window)), so they are always those of the counted pages
//!    as they are now.
//! 2. Then it compares each granule of the window, when no commit, decrement or reclaim is under way. A count on the refs page may exceed
//!    the sum of its links, its fingerprint and the links of the open epoch. The difference is excess, and is subtracted from the count; a
//!    count is never set. In mode `log` any time will do, since pages in memory hold exactly what is committed.
//! 3. A count below its links is damage. If some page could not be read whole, no count is lowered.
//! 4. Only a finished recount clears *garbage possible*. In mode `log`, where no crash sets it again, it is cleared when the lowered pages,
//!    and the bits that a crash had taken, are durable: with a checkpoint that began after the recount, or with a clean close.
//! 5. Until then a crash may bring back the excess of a page, and records of the log add to it. So what was returned is no room for links
//!    yet (`space/returned.rs`), and a block that has no room for another link is kept out of use.

use crate::format::entry::{MapEntry, REFS_UNKNOWN};
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::io::{Io, Stage};
use crate::memory::Part;
use crate::pool::Pool;
use crate::schedule::Task;
use crate::space::GRANULE_BLOCKS;
use crate::tables::{Access, EpochRecords, Tables};
use crate::units::{Pbn, Time, index};

/// Pages that one turn counts.
const PAGES_A_STEP: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecountStage {
    /// There is nothing to do, or the window has not begun.
    Idle,
    /// The next map page.
    Map(u64),
    /// The next granule to compare.
    Compare(u64),
}

/// A recount, and how far it has come.
pub(crate) struct Recount {
    needed: bool,
    stage: RecountStage,
    window: Pbn,
    /// A page could not be read: no count may be lowered.
    blind: bool,
    returned: u64,
    pub waits: bool,
    /// It pauses until this time, so that clients keep the device.
    pause: Option<Time>,
}

impl Recount {
    /// `needed`: garbage is possible. `from`: where a clean detach interrupted the last recount.
    pub fn new(needed: bool, from: Pbn) -> Self {
        Self { needed, stage: RecountStage::Idle, window: from, blind: false, returned: 0, waits: false, pause: None }
    }

    pub fn running(&self) -> bool {
        self.needed && !self.blind
    }

    /// The window that the next opening begins with.
    pub fn position(&self) -> Pbn {
        self.window
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self) -> Option<Time> {
        if self.running() && !self.waits { self.pause } else { None }
    }

    /// Does a little of the recount, if one is due. Returns whether it has just ended: the superblock then has to record that.
    #[must_use]
    pub fn recount_some(&mut self, pool: &mut Pool) -> bool {
        self.waits = false;
        let (stage, has_waiters) = (pool.io.stage(), !pool.space.waiters.is_empty());
        // A replayed acknowledgement may need a block that only the recount frees.
        let is_time = stage == Stage::Serving || stage == Stage::Replaying && has_waiters;
        if !self.running() || !is_time || pool.io.has_failed() || pool.io.is_opened_to_read() {
            return false;
        }
        if self.pause.is_some_and(|until| pool.io.now() < until) && !has_waiters {
            return false;
        }
        self.pause = None;
        match self.stage {
            RecountStage::Idle if self.window.0 >= pool.geometry.data_blocks => return self.end(pool),
            RecountStage::Idle => self.begin_window(pool),
            RecountStage::Map(next) => self.count_map(pool, next),
            RecountStage::Compare(next) => self.compare(pool, next),
        }
        false
    }

    fn begin_window(&mut self, pool: &mut Pool) {
        // Whole granules, so that one comparison needs one refs page and one fingerprint page.
        let room = (pool.memory.accountant.limit(Part::Work) / 2 / 2).min(pool.settings.knobs.recount_window_blocks);
        let granules = (room / GRANULE_BLOCKS).max(1);
        let first = self.window.0 / GRANULE_BLOCKS * GRANULE_BLOCKS;
        self.window = Pbn(first);
        pool.tables.window.begin(self.window, Pbn((first + granules * GRANULE_BLOCKS).min(pool.geometry.data_blocks)));
        self.stage = RecountStage::Map(0);
        pool.io.schedule.ask_for_background();
    }

    fn count_map(&mut self, pool: &mut Pool, mut next: u64) {
        let Pool { io, tables, geometry, settings, .. } = pool;
        let pages = geometry.pages(Region::Map);
        for _ in 0..PAGES_A_STEP {
            if next >= pages {
                self.stage = RecountStage::Compare(self.window.0 / GRANULE_BLOCKS);
                io.schedule.ask_for_background();
                return;
            }
            let id = PageId { region: Region::Map, index: next };
            if tables.is_blank(io, id) {
                tables.window.count_page(geometry, None);
            } else {
                tables.load_ahead(io, (0..pages - next).map(|i| id.after(i)));
                match tables.ensure(io, id).undamaged() {
                    Access::Loading => {
                        self.waits = true;
                        return tables.wait(io, id, Task::Recount);
                    }
                    Access::Unreadable => return self.goes_blind(&mut pool.io, &mut pool.tables),
                    Access::Ready(_) => {}
                }
                let Tables { pages, window, .. } = tables;
                window.count_page(geometry, Some(&pages.expect(id).content));
            }
            next += 1;
            self.stage = RecountStage::Map(next);
        }
        let ms = (PAGES_A_STEP * 1000).div_ceil(settings.knobs.recount_pages_per_second.max(1));
        self.pause = Some(io.now().plus_ms(ms));
    }

    /// Compares a granule, if the comparison is exact now.
    fn compare(&mut self, pool: &mut Pool, granule: u64) {
        let Pool { io, tables, space, settle, geometry, .. } = pool;
        let is_apart = tables.has_records();
        if !is_apart && (tables.committing.is_some() || !settle.is_empty() || space.is_reclaiming(&tables.removals)) {
            self.pause = Some(io.now().plus_ms(1));
            return;
        }
        let first = Pbn(granule * GRANULE_BLOCKS);
        let window_end = tables.window.end();
        if first >= window_end {
            self.window = window_end;
            self.stage = RecountStage::Idle;
            io.schedule.ask_for_background();
            return;
        }
        let names = PageId { region: Region::Fingerprints, index: granule };
        let (refs, at) = geometry.refs_of(first);
        for id in [names, refs] {
            match tables.ensure(io, id).undamaged() {
                Access::Loading => {
                    self.waits = true;
                    return tables.wait(io, id, Task::Recount);
                }
                Access::Unreadable => return self.goes_blind(&mut pool.io, &mut pool.tables),
                Access::Ready(_) => {}
            }
        }
        let end = Pbn((first.0 + GRANULE_BLOCKS).min(window_end.0));
        let open = if is_apart { vec![0; index(end - first)] } else { links_of_open_epoch(&tables.open, first, end) };
        for pbn in (first.0..end.0).map(Pbn) {
            let i = index(pbn - first);
            let count = tables.pages.expect(refs).content.refs(at + i);
            if count == REFS_UNKNOWN {
                continue;
            }
            let named = u16::from(!tables.pages.expect(names).content.fingerprint(i).is_none());
            let waits = u16::from(!is_apart && space.pending.get(pbn).is_some_and(|f| f.waits));
            let links = tables.window.links(pbn) + open[i] + named + waits;
            match u8::try_from(links).ok().and_then(|links| count.checked_sub(links)) {
                Some(0) => {}
                Some(excess) => {
                    self.returned += u64::from(excess);
                    space.return_excess(io, tables, pbn, excess);
                }
                None => io.notice(Notice::Damage { what: "a block has more links than its count says", at: pbn.0 }),
            }
        }
        self.stage = RecountStage::Compare(granule + 1);
        io.schedule.ask_for_background();
    }

    fn goes_blind(&mut self, io: &mut Io, tables: &mut Tables) {
        self.blind = true;
        self.stage = RecountStage::Idle;
        tables.window.clear();
        let what = "a recount could not read all pages, so it lowered nothing more";
        io.notice(Notice::Damage { what, at: self.window.0 });
    }

    /// Ends the recount after the last window. Returns whether the superblock can record that now.
    fn end(&mut self, pool: &mut Pool) -> bool {
        let is_apart = pool.tables.has_records();
        if pool.medium.is_busy() && !is_apart {
            self.pause = Some(pool.io.now().plus_ms(1));
            return false;
        }
        self.needed = false;
        self.window = Pbn(0);
        pool.tables.window.clear();
        pool.tables.bits_are_exact();
        pool.medium.recount_begins_at(Pbn(0));
        pool.io.notice(Notice::Recounted { blocks: self.returned });
        if is_apart {
            pool.space.recount_ended();
        } else {
            pool.medium.counts_are_exact();
        }
        true
    }
}

/// The links that the open epoch adds to the counts of these blocks.
fn links_of_open_epoch(epoch: &EpochRecords, first: Pbn, end: Pbn) -> Vec<u16> {
    let mut added = vec![0; index(end - first)];
    let linked = epoch.points.entries().filter_map(MapEntry::pbn);
    let all = linked.chain(epoch.cancelled.iter().copied()).chain(epoch.named.keys().copied());
    all.filter(|&pbn| first <= pbn && pbn < end).for_each(|pbn| added[index(pbn - first)] += 1);
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next opening goes on with the window that a clean detach recorded.
    #[test]
    fn an_interrupted_recount_goes_on_with_its_window() {
        let from = Pbn(3 << 20);
        let recount = Recount::new(true, from);
        assert_eq!((recount.position(), recount.running()), (from, true));
    }
}
