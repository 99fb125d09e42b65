//! Turns: each step runs the tasks that can go on, then some background work, and sets the time of the next call.
//!
//! A step has to find its code in the processor's instruction cache, which has room for little more than the way of a write. So work that
//! few steps come to is not inlined here (`inline(never)`, `cold`).

use super::Engine;
use super::jobs::JOBS;
use crate::interface::{Action, Failure};
use crate::io::Stage;
use crate::memory::Part;
use crate::schedule::Task;
use crate::store::Pool;
use crate::tables::{Epoch, RECORD_COST_BYTES, Wanted};
use crate::units::{Time, count};

impl Engine {
    /// Goes on with everything that can.
    pub(super) fn run(&mut self) {
        let mut background = true;
        loop {
            while let Some(task) = self.store.pool.io.schedule.pop() {
                self.perform(task);
            }
            let Self { store, requests, answers, scheme, .. } = self;
            requests.drain_admission(store, scheme, answers);
            if store.pool.io.schedule.is_idle() && std::mem::take(&mut background) {
                self.background();
            }
            if !self.store.pool.io.schedule.is_idle() {
                continue;
            }
            if self.close_asked || self.store.pool.io.stage() == Stage::Replaying {
                self.close_or_serve();
            }
            self.scheme.retry_starved(&mut self.store.pool.io, &mut self.store.pool.tables, &mut self.store.pool.space);
            self.commit_if_due();
            if self.store.pool.space.is_refused() {
                self.end_waits_for_store();
            }
            let store = &mut self.store;
            if !store.pool.io.has_failed() && store.pool.io.stage().commits() {
                store.pool.tables.write_back(&mut store.pool.io);
            }
            if store.pool.io.schedule.is_idle() {
                break;
            }
        }
        if !self.store.pool.tables.pages.shrink() || self.store.pool.tables.pages.too_dirty() {
            self.write_back_early();
        }
        self.charge();
        self.store.pool.space.retry_if_due(&mut self.store.pool.io);
        self.set_wake();
    }

    /// Answers requests that have waited long enough for a store that refuses writes for want of room: no commit ends meanwhile.
    #[cold]
    fn end_waits_for_store(&mut self) {
        let Self { store, requests, answers, .. } = self;
        if store.pool.io.has_failed() || store.pool.io.stage() != Stage::Serving {
            return;
        }
        if !store.pool.space.waiters.is_empty() || requests.are_admissions_waiting() {
            if let Some(failure) = store.pool.space.no_room(&mut store.pool.io) {
                requests.go_without_space(&mut store.pool, answers, failure);
                requests.turn_away(&mut store.pool.io, &mut store.pool.space, failure);
            }
        }
        if store.pool.space.has_waited_for_store(&store.pool.io) {
            answers.fail_waiters(&mut store.pool.io, &mut store.pool.tables, &mut store.pool.space, Failure::NoSpace);
            answers.fail_content_waiters(&mut store.pool, Failure::NoSpace);
            store.pool.contents.end_waits_for_finds(&mut store.pool.io);
        }
    }

    /// Writes pages before their time, since too many are dirty.
    #[cold]
    fn write_back_early(&mut self) {
        let Self { store, scheme, .. } = self;
        let may_write = !store.pool.io.has_failed() && !store.pool.io.stage().is_before_service();
        if may_write && store.pool.tables.write_back_early(&mut store.pool.io) {
            scheme.confirm(&mut store.pool);
        }
    }

    #[inline(never)]
    fn perform(&mut self, task: Task) {
        let Self { store, requests, answers, scheme, recovery, .. } = self;
        match task {
            Task::Write(op) => requests.go_on_writing(store, scheme, answers, op),
            Task::Read(op) => requests.go_on_reading(&mut store.pool, op),
            Task::Extents => requests.go_on_with_extents(&mut store.pool.io, &mut store.pool.tables, &store.pool.geometry),
            Task::Commit => self.go_on_committing(),
            Task::Settle => self.settle(),
            Task::Allocate => {
                store.pool.space.prepare_free_blocks(&mut store.pool.io, &mut store.pool.tables);
                recovery.choose_places(&mut store.pool, scheme, answers);
            }
            Task::Reclaim => self.reclaim(),
            Task::RebuildIndex => self.rebuild_index(),
            Task::Recount => self.recount(),
            Task::OutOfLine => self.work_out_of_line(),
            Task::Scrub => self.scrub(),
            Task::Mark => self.mark_suspects(),
            Task::Part => self.part_blocks(),
            Task::Scan => {
                store.pool.space.scan_may_go_on();
                self.scan_refs();
            }
            Task::Bits => store.pool.tables.set_written_bits(&mut store.pool.io),
            Task::Load(id) => store.pool.tables.load_page(&mut store.pool.io, id),
            Task::Replay => self.go_on_replaying(),
            Task::Admit => requests.drain_admission(store, scheme, answers),
            Task::Checkpoint => self.go_on_with_checkpoint(),
            Task::OpenLog => recovery.choose_places(&mut store.pool, scheme, answers),
        }
    }

    /// Seals the open epoch if it is time.
    fn commit_if_due(&mut self) {
        let store = &mut self.store;
        if store.pool.tables.committing.is_some()
            || store.pool.io.has_failed()
            || !store.pool.io.stage().commits()
            || store.pool.is_behind()
        {
            return;
        }
        store.pool.space.reclaim_if_low(&mut store.pool.io, &store.pool.tables.removals);
        if !store.pool.space.waiters.is_empty() {
            self.find_space_for_waiters();
        }
        let Self { store, answers, scheme, background, .. } = self;
        if scheme.is_seal_due(&mut store.pool, answers, background.recount.running()) {
            scheme.seal(&mut store.pool, answers);
            let progress = scheme.go_on(&mut store.pool, answers);
            self.commit_progressed(progress);
        }
    }

    /// Gives each job of the background its turn. A job that could go on at once asks for a call at once.
    pub(super) fn background(&mut self) {
        let Self { store, requests, .. } = self;
        store.pool.io.schedule.begin_background();
        let stage = store.pool.io.stage();
        if !matches!(stage, Stage::Serving | Stage::Replaying) || store.pool.io.has_failed() {
            return;
        }
        let clients_wait = requests.are_under_way() || store.pool.tables.committing.is_some();
        if clients_wait && !store.pool.memory.accountant.within(Part::Pages) {
            return;
        }
        for job in &JOBS {
            if job.has_turn(self) {
                (job.go_on)(self);
                debug_assert!(self.store.pool.io.stage() == stage, "{} has changed the stage of the volume", job.name);
            }
        }
    }

    /// Counts refs pages, until all free blocks are known.
    pub(super) fn scan_refs(&mut self) {
        let Pool { space, io, tables, .. } = &mut self.store.pool;
        space.scan_refs(io, tables);
    }

    /// Rebuilds the index.
    pub(super) fn rebuild_index(&mut self) {
        let Self { store, background, .. } = self;
        background.rebuild.go_on(store, background.recount.running());
    }

    /// Recounts links, and returns the excess of counts.
    pub(super) fn recount(&mut self) {
        let Self { store, scheme, background, .. } = self;
        if background.recount.go_on(&mut store.pool) && !scheme.recounted(&mut store.pool) {
            background.rebuild.go_again(&mut store.pool.io, &mut store.pool.space);
        }
    }

    /// Finds duplicates out of line.
    pub(super) fn work_out_of_line(&mut self) {
        let Self { store, scheme, answers, background, .. } = self;
        background.out_of_line.is_called();
        if store.pool.io.stage() == Stage::Serving && !store.pool.io.has_failed() {
            background.out_of_line.go_on(store, scheme, answers);
        }
    }

    /// Looks for damage.
    pub(super) fn scrub(&mut self) {
        let Self { store, scheme, background, .. } = self;
        background.scrub.is_called();
        if store.pool.io.stage() == Stage::Serving && !store.pool.io.has_failed() {
            background.scrub.go_on(&mut store.pool, scheme);
        }
    }

    /// Keeps what was found damaged.
    #[cold]
    fn mark_suspects(&mut self) {
        let Self { store, scheme, background, .. } = self;
        if store.pool.io.stage() == Stage::Serving {
            background.marking.go_on(&mut store.pool, scheme);
        }
    }

    /// Parts blocks of protected ranges from others.
    #[cold]
    pub(super) fn part_blocks(&mut self) {
        let Self { store, requests, answers, background, .. } = self;
        if store.pool.io.stage() == Stage::Serving {
            background.parting.go_on(&mut store.pool, requests, answers);
        }
    }

    /// Enters decrements and fingerprints in their pages, as far as these are in memory.
    fn settle(&mut self) {
        if self.store.pool.io.has_failed() {
            return;
        }
        self.store.pool.settle_all();
        self.find_space_for_waiters();
        let store = &mut self.store;
        store.pool.contents.go_on_marking(&mut store.pool.io);
        if store.pool.settle.is_empty() {
            store.pool.space.discard_freed(&mut store.pool.io, &mut store.pool.tables, false);
            if store.pool.settings.noncritical_delay_ms == 0 {
                self.write_all_dirty();
            }
        }
    }

    /// Removes the fingerprints of chosen blocks that only these fingerprints hold.
    fn reclaim(&mut self) {
        let Self { store, scheme, .. } = self;
        store.pool.reclaim(scheme.room_for_records(&store.pool.tables));
        if store.pool.io.stage().commits() {
            self.find_space_for_waiters();
        }
    }

    /// Gives blocks back to the store that are due.
    pub(super) fn give_back(&mut self) {
        let Self { store, scheme, .. } = self;
        let has_unlinked = scheme.has_unlinked();
        if !store.pool.space.is_giving_due(&store.pool.io, has_unlinked) {
            return;
        }
        if store.pool.tables.open.is_empty() && store.pool.tables.committing.is_none() {
            // What the last epoch unlinked counts until something confirms it, and no other epoch does.
            scheme.confirm(&mut store.pool);
        }
        store.pool.space.give_back(&mut store.pool.io, &mut store.pool.tables);
    }

    /// Writes zeros ahead for the stock of a store in a file.
    pub(super) fn fill_stock(&mut self) {
        let Pool { space, io, tables, .. } = &mut self.store.pool;
        space.fill_stock(io, tables);
    }

    /// Finds blocks for the writes that wait for one: first those that are free but not ready, then those that a commit frees, then those
    /// that are kept for deduplication alone. When none of these is left, the writes get ENOSPC.
    #[inline(never)]
    pub(super) fn find_space_for_waiters(&mut self) {
        let Self { store, requests, answers, scheme, background, .. } = self;
        if store.pool.space.waiters.is_empty() || store.pool.space.store_may_have_more(store.pool.io.stage()) {
            return;
        }
        store.pool.space.prepare_free_blocks(&mut store.pool.io, &mut store.pool.tables);
        if store.pool.space.waiters.is_empty() || !store.pool.io.schedule.is_idle() || store.pool.space.search_waits() {
            return;
        }
        let looking = store.pool.space.is_searching() && store.pool.space.census.free > 0;
        if looking && !store.pool.space.has_ready() {
            store.pool.io.schedule.ask_for_background();
            return;
        }
        let is_idle = store.pool.tables.committing.is_none() && store.pool.tables.open.is_empty() && store.pool.settle.is_empty();
        if is_idle && scheme.frees_blocks(&mut store.pool.io, &mut store.pool.tables, &store.pool.space) {
            return;
        }
        let (io, tables, space) = (&mut store.pool.io, &mut store.pool.tables, &mut store.pool.space);
        if tables.committing.is_some() || !store.pool.settle.is_empty() || space.is_reclaiming(&tables.removals) {
            return;
        }
        if !tables.open.is_empty() {
            tables.open.wanted.get_or_insert(Wanted::Space);
            return;
        }
        if space.reclaim_for_waiters(io, &tables.removals) || !space.scan_complete() || background.recount.running() {
            return;
        }
        if !space.pending.is_empty() || requests.do_others_pin(space) {
            return;
        }
        // All try once more: the block below a write of a part may have changed since, and then that write unpins it.
        if space.begin_last_try() {
            return space.wake_waiters(io);
        }
        if !space.is_full() {
            // The work out of line may make room.
            io.schedule.ask_for_background();
        }
        if let Some(failure) = space.no_room(io) {
            requests.go_without_space(&mut store.pool, answers, failure);
        }
    }

    /// Charges memory that is counted anew at the end of each step.
    fn charge(&mut self) {
        let Self { store, scheme, recovery, .. } = self;
        let committing = store.pool.tables.committing.as_ref().map_or(0, Epoch::records);
        let records = committing + store.pool.settle.records() + scheme.unlinked_records();
        let dirty = store.pool.open_bytes() + count(records) * RECORD_COST_BYTES;
        let live = recovery.bytes() + store.pool.tables.committed.as_ref().map_or(0, |committed| committed.records.bytes());
        // Requests brought the held content. Charged as records it would hold back writes, and no write would cause a seal.
        let held = scheme.held_bytes(&store.pool.io, &store.pool.contents);
        store.pool.memory.charge(dirty, held, live);
    }

    fn set_wake(&mut self) {
        let at = self.next_deadline();
        let io = &mut self.store.pool.io;
        if io.schedule.ask_for_call(at) {
            at.into_iter().for_each(|at| io.act(Action::Wake { at }));
        }
    }

    /// The next time at which something is due by time alone.
    fn next_deadline(&self) -> Option<Time> {
        let Self { store, answers, scheme, background, .. } = self;
        let (io, now) = (&store.pool.io, store.pool.io.now());
        if io.has_failed() {
            return store.pool.space.full_deadline(io);
        }
        if matches!(io.stage(), Stage::Created | Stage::Opening) {
            return None;
        }
        let open = &store.pool.tables.open;
        const NEVER: Time = Time(u64::MAX);
        let mut first = if io.schedule.asks_for_background() { now } else { NEVER };
        let mut due = |at: Option<Time>| first = first.min(at.unwrap_or(NEVER));
        // While a commit waits for packs, or for pages of earlier epochs, no timer makes it go on.
        if store.pool.tables.committing.is_none() && !open.is_empty() && !open.is_due && !store.pool.is_behind() {
            due(open.seal_by());
            due(answers.anticipation.until.filter(|_| open.wanted.is_some()));
        }
        due(store.pool.tables.write_back_at());
        due(store.pool.space.full_deadline(io));
        if store.pool.space.gives_back() {
            due(store.pool.space.give_back_at(io, scheme.has_unlinked()).filter(|&at| at > now));
        }
        if io.stage() == Stage::Serving {
            due(background.recount.next_at());
            due(background.rebuild.next_at());
            due(background.out_of_line.next_at(store));
            due(background.scrub.next_at(&store.pool.io, &store.pool.medium));
        }
        (first != NEVER).then(|| first.max(now))
    }
}
