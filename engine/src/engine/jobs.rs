//! The jobs of the background, in the order in which they get their turns.
//!
//! A job has its turn each time the engine comes to the background, unless it waits for something, or needs a volume that serves and this
//! one is still being opened. It does a little at a turn.

use super::Engine;
use crate::io::Stage;

/// A piece of background work.
pub(super) struct Job {
    pub name: &'static str,
    /// Whether only a serving volume gives it turns.
    needs_service: bool,
    /// Whether it waits for pages or reads, whose arrival makes it go on.
    waits: fn(&Engine) -> bool,
    /// Does a little of it.
    pub go_on: fn(&mut Engine),
}

pub(super) const JOBS: [Job; 5] = [
    Job { name: "scan of refs pages", needs_service: false, waits: |engine| engine.store.space.scan_waits, go_on: Engine::scan_refs },
    Job { name: "index rebuild", needs_service: true, waits: |engine| engine.background.rebuild.waits, go_on: Engine::rebuild_index },
    Job { name: "recount", needs_service: false, waits: |engine| engine.background.recount.waits, go_on: Engine::recount },
    Job { name: "giving back", needs_service: false, waits: |_| false, go_on: Engine::give_back },
    // A replayed acknowledgement may need a block, too.
    Job { name: "blocks for those that wait", needs_service: false, waits: |_| false, go_on: Engine::find_space_for_waiters },
];

impl Job {
    /// Whether it is this job's turn.
    pub fn has_turn(&self, engine: &Engine) -> bool {
        (!self.needs_service || engine.store.io.stage == Stage::Serving) && !(self.waits)(engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume at that stage of its life, which has done nothing yet.
    fn at(stage: Stage) -> Engine {
        let mut engine = crate::test_kit::engine();
        engine.store.io.stage = stage;
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
        engine.store.space.scan_waits = true;
        assert_eq!(turns(&engine), all[1..]);
        engine.background.rebuild.waits = true;
        assert_eq!(turns(&engine), all[2..]);
        engine.background.recount.waits = true;
        assert_eq!(turns(&engine), all[3..]);
        assert_eq!(turns(&at(Stage::Replaying)), [&all[..1], &all[2..]].concat(), "the index is rebuilt by a volume that serves");
    }

    #[test]
    fn only_jobs_that_have_their_turn_go_on() {
        let asks_for_pages = |stage, all_wait| {
            let mut engine = at(stage);
            engine.store.space.scan_waits = all_wait;
            engine.background.rebuild.waits = all_wait;
            engine.background.recount.waits = all_wait;
            engine.background();
            !engine.store.io.out.is_empty()
        };
        assert!(asks_for_pages(Stage::Serving, false) && asks_for_pages(Stage::Replaying, false));
        assert!(!asks_for_pages(Stage::Serving, true), "each waits for a page that it has asked for");
        assert!(!asks_for_pages(Stage::Opening, false), "an opening has the volume to itself");
    }
}
