//! The jobs of the background, in the order in which they get their turns.
//!
//! A job has its turn each time the engine comes to the background, unless it has nothing to do, waits for something, or needs a volume
//! that serves and this one is still being opened. It does a little at a turn.

use super::Engine;
use crate::io::Stage;

/// A piece of background work.
pub(super) struct Job {
    pub name: &'static str,
    /// Whether only a serving volume gives it turns.
    needs_service: bool,
    /// Whether it has nothing to do, or waits for pages or reads, whose arrival makes it go on.
    rests: fn(&Engine) -> bool,
    /// Does a little of it.
    pub go_on: fn(&mut Engine),
}

pub(super) const JOBS: [Job; 9] = [
    Job {
        name: "scan of refs pages",
        needs_service: false,
        rests: |engine| engine.parts.pool.space.does_scan_wait() || engine.parts.pool.space.scan_complete(),
        go_on: Engine::scan_refs,
    },
    Job {
        name: "index rebuild",
        needs_service: true,
        rests: |engine| {
            let rebuild = &engine.background.rebuild;
            rebuild.waits || rebuild.is_finished() || rebuild.waits_for_counts(&engine.parts.pool.space, &engine.parts.pool.index)
        },
        go_on: Engine::rebuild_index,
    },
    Job {
        name: "recount",
        needs_service: false,
        rests: |engine| engine.background.recount.waits || !engine.background.recount.running(),
        go_on: Engine::recount,
    },
    Job {
        name: "work out of line",
        needs_service: true,
        rests: |engine| engine.background.out_of_line.rests(&engine.parts),
        go_on: Engine::work_out_of_line,
    },
    Job {
        name: "scrub",
        needs_service: true,
        rests: |engine| engine.background.scrub.rests(&engine.parts.pool.io, &engine.parts.pool.medium),
        go_on: Engine::scrub,
    },
    Job {
        name: "parting",
        needs_service: true,
        rests: |engine| engine.background.parting.rests(&engine.parts.pool.io),
        go_on: Engine::part_blocks,
    },
    Job { name: "giving back", needs_service: false, rests: |engine| !engine.parts.pool.space.gives_back(), go_on: Engine::give_back },
    Job {
        name: "stock",
        needs_service: true,
        rests: |engine| !engine.parts.pool.space.is_stock_low(&engine.parts.pool.io),
        go_on: Engine::fill_stock,
    },
    // A replayed acknowledgement may need a block, too.
    Job {
        name: "blocks for those that wait",
        needs_service: false,
        rests: |engine| engine.parts.pool.space.waiters.is_empty(),
        go_on: Engine::find_space_for_waiters,
    },
];

impl Job {
    /// Whether it is this job's turn.
    pub fn has_turn(&self, engine: &Engine) -> bool {
        (!self.needs_service || engine.parts.pool.io.stage() == Stage::Serving) && !(self.rests)(engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::Recount;
    use crate::interface::StoreRoom;
    use crate::memory::Part;
    use crate::tables::EpochRecords;
    use crate::units::Pbn;

    /// A volume at that stage of its life that has work for every job.
    fn at(stage: Stage) -> Engine {
        let mut engine = crate::test_kit::engine();
        engine.parts.pool.io.enter(stage);
        engine.parts.pool.space.store_has(&mut engine.parts.pool.io, StoreRoom { is_short: true, ..StoreRoom::default() });
        engine.background.recount = Recount::new(true, Pbn(0));
        engine.parts.pool.space.waiters.push_back(0);
        engine
    }

    fn turns(engine: &Engine) -> Vec<&'static str> {
        JOBS.iter().filter(|job| job.has_turn(engine)).map(|job| job.name).collect()
    }

    #[test]
    fn each_job_has_its_turn_in_order_unless_it_waits_or_needs_service() {
        let all = ["scan of refs pages", "index rebuild", "recount", "giving back", "blocks for those that wait"];
        let mut engine = at(Stage::Serving);
        assert_eq!(turns(&engine), all);
        engine.parts.pool.space.let_scan_wait(true);
        assert_eq!(turns(&engine), all[1..]);
        engine.background.rebuild.waits = true;
        assert_eq!(turns(&engine), all[2..]);
        engine.background.recount.waits = true;
        assert_eq!(turns(&engine), all[3..]);
        engine.parts.pool.space.waiters.clear();
        assert_eq!(turns(&engine), all[3..4], "nothing waits for a block");
        engine.parts.pool.space.store_has(&mut engine.parts.pool.io, StoreRoom::default());
        assert!(turns(&engine).is_empty(), "the store has room");
        engine.background.recount = Recount::new(false, Pbn(0));
        assert!(turns(&engine).is_empty(), "no recount is needed");
        assert_eq!(turns(&at(Stage::Replaying)), [&all[..1], &all[2..]].concat(), "the index is rebuilt by a volume that serves");
    }

    #[test]
    fn only_jobs_that_have_their_turn_go_on() {
        let asks_for_pages = |stage, all_wait| {
            let mut engine = at(stage);
            engine.parts.pool.space.waiters.clear();
            engine.parts.pool.space.let_scan_wait(all_wait);
            engine.background.rebuild.waits = all_wait;
            engine.background.recount.waits = all_wait;
            engine.background();
            !engine.parts.pool.io.actions().is_empty()
        };
        assert!(asks_for_pages(Stage::Serving, false) && asks_for_pages(Stage::Replaying, false));
        assert!(!asks_for_pages(Stage::Serving, true), "each waits for a page that it has asked for");
        assert!(!asks_for_pages(Stage::Opening, false), "an opening has the volume to itself");
    }

    /// Pages that clients have to wait for come first where memory has no room for more.
    #[test]
    fn no_job_goes_on_while_clients_wait_and_memory_has_too_many_pages() {
        let goes_on = |clients_wait: bool, pages_too_many: u64| {
            let mut engine = at(Stage::Serving);
            engine.parts.pool.tables.committing = clients_wait.then(|| EpochRecords::new(engine.parts.pool.tables.open.number));
            let accountant = &engine.parts.pool.memory.accountant;
            accountant.take(Part::Pages, accountant.limit(Part::Pages) + pages_too_many);
            engine.background();
            !engine.parts.pool.io.actions().is_empty()
        };
        assert!(goes_on(false, 0) && goes_on(false, 1) && goes_on(true, 0) && !goes_on(true, 1));
    }
}
