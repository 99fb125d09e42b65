//! The room in the file system below the store, as a server watches it: from time to time there is little, or, where a run's store runs
//! out, few blocks or none.

use super::World;
use crate::ground::record::record;
use crate::ground::violation::Violation;
use onefold_engine::interface::{Event, StoreRoom};
use onefold_engine::units::Time;

/// The number of steps after which the room below the store changes, if it changes.
pub(super) const STEPS_OF_ROOM: u64 = 97;
/// The largest number of reports in a row by which nothing else goes on: then the machine is stuck.
pub(super) const ROOM_REPORTS: u32 = 3;
/// The time between two reports.
const REPORT_NS: u64 = 50_000_000;

impl World {
    /// Reports the next room.
    pub(super) fn report_room(&mut self) -> Result<(), Violation> {
        self.room_reports = 0;
        let is_short = self.steps / STEPS_OF_ROOM % 2 == 1;
        if !self.setting.options.runs_out {
            return self.feed(Event::StoreRoom(StoreRoom { is_short, ..StoreRoom::default() }));
        }
        let blocks = [u64::MAX, 0, 0, 1, 3, 40][self.rng.usize(0..6)];
        record!("the store has room for {blocks} blocks");
        self.feed(Event::StoreRoom(StoreRoom { is_short: blocks != u64::MAX || is_short, blocks, refuses: false }))
    }

    /// Reports that somebody has made room, while requests wait and nothing else happens.
    pub(super) fn report_that_room_is_back(&mut self) -> Result<bool, Violation> {
        self.room_reports += 1;
        self.now = Time(self.now.get() + REPORT_NS);
        record!("the store has room again");
        self.feed(Event::StoreRoom(StoreRoom::default())).map(|()| true)
    }
}
