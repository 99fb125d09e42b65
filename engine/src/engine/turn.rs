//! Turns: each step runs the tasks that can go on, then some background work, and sets the time of the next call.
//!
//! A step has to find its code in the processor's instruction cache, which has room for little more than the way of a write. So work that
//! few steps come to is not inlined here (`inline(never)`, `cold`).

use super::Engine;
use super::jobs::JOBS;
use crate::interface::{Action, Failure};
use crate::io::Stage;
use crate::memory::Part;
use crate::pool::Pool;
use crate::recovery::OpeningEvent;
use crate::schedule::Task;
use crate::tables::{EpochRecords, RECORD_COST_BYTES, Wanted};
use crate::units::{Time, count};

impl Engine {
    /// Goes on with everything that can.
    pub(super) fn run(&mut self) {
        let mut background = true;
        loop {
            while let Some(task) = self.parts.pool.io.schedule.pop() {
                self.perform(task);
            }
            let Self { parts, requests, answers, scheme, .. } = self;
            requests.drain_admission(parts, scheme, answers);
            if parts.pool.io.schedule.is_idle() && std::mem::take(&mut background) {
                self.background();
            }
            if !self.parts.pool.io.schedule.is_idle() {
                continue;
            }
            if self.close_asked || self.parts.pool.io.stage() == Stage::Replaying {
                self.close_or_serve();
            }
            self.scheme.retry_starved(&mut self.parts.pool.io, &mut self.parts.pool.tables, &mut self.parts.pool.space);
            self.commit_if_due();
            if self.parts.pool.space.is_refused() {
                self.end_waits_for_store();
            }
            let parts = &mut self.parts;
            if !parts.pool.io.has_failed() && parts.pool.io.stage().commits() {
                parts.pool.tables.write_back(&mut parts.pool.io);
            }
            if parts.pool.io.schedule.is_idle() {
                break;
            }
        }
        if !self.parts.pool.tables.pages.shrink() || self.parts.pool.tables.pages.too_dirty() {
            self.write_back_early();
        }
        self.charge();
        self.parts.pool.space.retry_if_due(&mut self.parts.pool.io);
        self.set_wake();
    }

    /// Answers requests that have waited long enough for a store that refuses writes for want of room: no commit ends meanwhile.
    #[cold]
    fn end_waits_for_store(&mut self) {
        let Self { parts, requests, answers, .. } = self;
        if parts.pool.io.has_failed() || parts.pool.io.stage() != Stage::Serving {
            return;
        }
        if !parts.pool.space.waiters.is_empty() || requests.are_admissions_waiting() {
            if let Some(failure) = parts.pool.space.no_room(&mut parts.pool.io) {
                requests.go_without_space(&mut parts.pool, answers, failure);
                requests.turn_away(&mut parts.pool.io, &mut parts.pool.space, failure);
            }
        }
        if parts.pool.space.has_waited_for_store(&parts.pool.io) {
            answers.fail_waiters(&mut parts.pool.io, &mut parts.pool.tables, &mut parts.pool.space, Failure::NoSpace);
            answers.fail_content_waiters(&mut parts.pool, Failure::NoSpace);
            parts.pool.contents.end_waits_for_finds(&mut parts.pool.io);
        }
    }

    /// Writes pages before their time, since too many are dirty.
    #[cold]
    fn write_back_early(&mut self) {
        let Self { parts, scheme, .. } = self;
        let may_write = !parts.pool.io.has_failed() && !parts.pool.io.stage().is_before_service();
        if may_write && parts.pool.tables.write_back_early(&mut parts.pool.io) {
            scheme.confirm(&mut parts.pool);
        }
    }

    #[inline(never)]
    fn perform(&mut self, task: Task) {
        let Self { parts, requests, answers, scheme, .. } = self;
        match task {
            Task::Write(op) => requests.go_on_writing(parts, scheme, answers, op),
            Task::Read(op) => requests.go_on_reading(&mut parts.pool, op),
            Task::Extents => requests.go_on_with_extents(&mut parts.pool.io, &mut parts.pool.tables, &parts.pool.geometry),
            Task::Commit => self.go_on_committing(),
            Task::Settle => self.settle(),
            Task::Allocate => {
                parts.pool.space.prepare_free_blocks(&mut parts.pool.io, &mut parts.pool.tables);
                self.find_places();
            }
            Task::Reclaim => self.reclaim(),
            Task::RebuildIndex => self.rebuild_index(),
            Task::Recount => self.recount(),
            Task::OutOfLine => self.work_out_of_line(),
            Task::Scrub => self.scrub(),
            Task::Mark => self.mark_suspects(),
            Task::Part => self.part_blocks(),
            Task::Scan => {
                parts.pool.space.scan_may_go_on();
                self.scan_refs();
            }
            Task::Bits => parts.pool.tables.set_written_bits(&mut parts.pool.io),
            Task::Load(id) => parts.pool.tables.load_page(&mut parts.pool.io, id),
            Task::Replay => self.go_on_replaying(),
            Task::Admit => requests.drain_admission(parts, scheme, answers),
            Task::Checkpoint => self.go_on_with_checkpoint(),
            Task::OpenLog => self.find_places(),
        }
    }

    /// Goes on with an opening that looks for places of its log's next units.
    #[cold]
    fn find_places(&mut self) {
        let Self { parts, scheme, answers, phase, .. } = self;
        let step = phase.on(OpeningEvent::BlocksFound, &mut parts.pool, scheme, answers);
        self.go_on_opening(step);
    }

    /// Seals the open epoch if it is time.
    fn commit_if_due(&mut self) {
        let parts = &mut self.parts;
        if parts.pool.tables.committing.is_some()
            || parts.pool.io.has_failed()
            || !parts.pool.io.stage().commits()
            || parts.pool.is_behind()
        {
            return;
        }
        parts.pool.space.reclaim_if_low(&mut parts.pool.io, &parts.pool.tables.removals);
        if !parts.pool.space.waiters.is_empty() {
            self.find_space_for_waiters();
        }
        let Self { parts, answers, scheme, background, .. } = self;
        if scheme.is_seal_due(&mut parts.pool, answers, background.recount.running()) {
            scheme.seal(&mut parts.pool, answers);
            let progress = scheme.write_epoch(&mut parts.pool, answers);
            self.commit_progressed(progress);
        }
    }

    /// Gives each job of the background its turn. A job that could go on at once asks for a call at once.
    pub(super) fn background(&mut self) {
        let Self { parts, requests, .. } = self;
        parts.pool.io.schedule.begin_background();
        let stage = parts.pool.io.stage();
        if !matches!(stage, Stage::Serving | Stage::Replaying) || parts.pool.io.has_failed() {
            return;
        }
        let clients_wait = requests.are_under_way() || parts.pool.tables.committing.is_some();
        if clients_wait && !parts.pool.memory.accountant.within(Part::Pages) {
            return;
        }
        for job in &JOBS {
            if job.has_turn(self) {
                (job.go_on)(self);
                debug_assert!(self.parts.pool.io.stage() == stage, "{} has changed the stage of the volume", job.name);
            }
        }
    }

    /// Counts refs pages, until all free blocks are known.
    pub(super) fn scan_refs(&mut self) {
        let Pool { space, io, tables, .. } = &mut self.parts.pool;
        space.scan_refs(io, tables);
    }

    /// Rebuilds the index.
    pub(super) fn rebuild_index(&mut self) {
        let Self { parts, background, .. } = self;
        background.rebuild.rebuild_some(parts, background.recount.running());
    }

    /// Recounts links, and returns the excess of counts.
    pub(super) fn recount(&mut self) {
        let Self { parts, scheme, background, .. } = self;
        if background.recount.recount_some(&mut parts.pool) && !scheme.recounted(&mut parts.pool) {
            background.rebuild.go_again(&mut parts.pool.io, &mut parts.pool.space);
        }
    }

    /// Finds duplicates out of line.
    pub(super) fn work_out_of_line(&mut self) {
        let Self { parts, scheme, answers, background, .. } = self;
        background.out_of_line.is_called();
        if parts.pool.io.stage() == Stage::Serving && !parts.pool.io.has_failed() {
            background.out_of_line.look_for_duplicates(parts, scheme, answers);
        }
    }

    /// Looks for damage.
    pub(super) fn scrub(&mut self) {
        let Self { parts, scheme, background, .. } = self;
        background.scrub.is_called();
        if parts.pool.io.stage() == Stage::Serving && !parts.pool.io.has_failed() {
            background.scrub.scrub_some(&mut parts.pool, scheme);
        }
    }

    /// Keeps what was found damaged.
    #[cold]
    fn mark_suspects(&mut self) {
        let Self { parts, scheme, background, .. } = self;
        if parts.pool.io.stage() == Stage::Serving {
            background.marking.mark_some(&mut parts.pool, scheme);
        }
    }

    /// Parts blocks of protected ranges from others.
    #[cold]
    pub(super) fn part_blocks(&mut self) {
        let Self { parts, requests, answers, background, .. } = self;
        if parts.pool.io.stage() == Stage::Serving {
            background.parting.part_some(&mut parts.pool, requests, answers);
        }
    }

    /// Enters decrements and fingerprints in their pages, as far as these are in memory.
    fn settle(&mut self) {
        if self.parts.pool.io.has_failed() {
            return;
        }
        self.parts.pool.settle_all();
        self.find_space_for_waiters();
        let parts = &mut self.parts;
        parts.pool.contents.go_on_marking(&mut parts.pool.io);
        if parts.pool.settle.is_empty() {
            parts.pool.space.discard_freed(&mut parts.pool.io, &mut parts.pool.tables, false);
            if parts.pool.settings.noncritical_delay_ms == 0 {
                self.write_all_dirty();
            }
        }
    }

    /// Removes the fingerprints of chosen blocks that only these fingerprints hold.
    fn reclaim(&mut self) {
        let Self { parts, scheme, .. } = self;
        parts.pool.reclaim(scheme.room_for_records(&parts.pool.tables));
        if parts.pool.io.stage().commits() {
            self.find_space_for_waiters();
        }
    }

    /// Gives blocks back to the store that are due.
    pub(super) fn give_back(&mut self) {
        let Self { parts, scheme, .. } = self;
        let has_unlinked = scheme.has_unlinked();
        if !parts.pool.space.is_giving_due(&parts.pool.io, has_unlinked) {
            return;
        }
        if parts.pool.tables.open.is_empty() && parts.pool.tables.committing.is_none() {
            // What the last epoch unlinked counts until something confirms it, and no other epoch does.
            scheme.confirm(&mut parts.pool);
        }
        parts.pool.space.give_back(&mut parts.pool.io, &mut parts.pool.tables);
    }

    /// Writes zeros ahead for the stock of a store in a file.
    pub(super) fn fill_stock(&mut self) {
        let Pool { space, io, tables, .. } = &mut self.parts.pool;
        space.fill_stock(io, tables);
    }

    /// Finds blocks for the writes that wait for one: first those that are free but not ready, then those that a commit frees, then those
    /// that are kept for deduplication alone. When none of these is left, the writes get ENOSPC.
    #[inline(never)]
    pub(super) fn find_space_for_waiters(&mut self) {
        let Self { parts, requests, answers, scheme, background, .. } = self;
        if parts.pool.space.waiters.is_empty() || parts.pool.space.store_may_have_more(parts.pool.io.stage()) {
            return;
        }
        parts.pool.space.prepare_free_blocks(&mut parts.pool.io, &mut parts.pool.tables);
        if parts.pool.space.waiters.is_empty() || !parts.pool.io.schedule.is_idle() || parts.pool.space.search_waits() {
            return;
        }
        let looking = parts.pool.space.is_searching() && parts.pool.space.census.free > 0;
        if looking && !parts.pool.space.has_ready() {
            parts.pool.io.schedule.ask_for_background();
            return;
        }
        let is_idle = parts.pool.tables.committing.is_none() && parts.pool.tables.open.is_empty() && parts.pool.settle.is_empty();
        if is_idle && scheme.frees_blocks(&mut parts.pool.io, &mut parts.pool.tables, &parts.pool.space) {
            return;
        }
        let (io, tables, space) = (&mut parts.pool.io, &mut parts.pool.tables, &mut parts.pool.space);
        if tables.committing.is_some() || !parts.pool.settle.is_empty() || space.is_reclaiming(&tables.removals) {
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
            requests.go_without_space(&mut parts.pool, answers, failure);
        }
    }

    /// Charges memory that is counted anew at the end of each step.
    fn charge(&mut self) {
        let Self { parts, scheme, phase, .. } = self;
        let committing = parts.pool.tables.committing.as_ref().map_or(0, EpochRecords::records);
        let records = committing + parts.pool.settle.records() + scheme.unlinked_records();
        let dirty = parts.pool.open_bytes() + count(records) * RECORD_COST_BYTES;
        let live = phase.bytes() + parts.pool.tables.committed.as_ref().map_or(0, |committed| committed.records.bytes());
        // Requests brought the held content. Charged as records it would hold back writes, and no write would cause a seal.
        let held = scheme.held_bytes(&parts.pool.io, &parts.pool.contents);
        parts.pool.memory.charge(dirty, held, live);
    }

    fn set_wake(&mut self) {
        let at = self.next_deadline();
        let io = &mut self.parts.pool.io;
        if io.schedule.ask_for_call(at) {
            at.into_iter().for_each(|at| io.act(Action::Wake { at }));
        }
    }

    /// The next time at which something is due by time alone.
    fn next_deadline(&self) -> Option<Time> {
        let Self { parts, answers, scheme, background, .. } = self;
        let (io, now) = (&parts.pool.io, parts.pool.io.now());
        if io.has_failed() {
            return parts.pool.space.full_deadline(io);
        }
        if matches!(io.stage(), Stage::Created | Stage::Opening) {
            return None;
        }
        let open = &parts.pool.tables.open;
        const NEVER: Time = Time(u64::MAX);
        let mut first = if io.schedule.asks_for_background() { now } else { NEVER };
        let mut due = |at: Option<Time>| first = first.min(at.unwrap_or(NEVER));
        // While a commit waits for packs, or for pages of earlier epochs, no timer makes it go on.
        if parts.pool.tables.committing.is_none() && !open.is_empty() && !open.is_due && !parts.pool.is_behind() {
            due(open.seal_by());
            due(answers.anticipation.until.filter(|_| open.wanted.is_some()));
        }
        due(parts.pool.tables.write_back_at());
        due(parts.pool.space.full_deadline(io));
        if parts.pool.space.gives_back() {
            due(parts.pool.space.give_back_at(io, scheme.has_unlinked()).filter(|&at| at > now));
        }
        if io.stage() == Stage::Serving {
            due(background.recount.next_at());
            due(background.rebuild.next_at());
            due(background.out_of_line.next_at(parts));
            due(background.scrub.next_at(&parts.pool.io, &parts.pool.medium));
        }
        (first != NEVER).then(|| first.max(now))
    }
}
