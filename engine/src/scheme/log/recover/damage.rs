//! The log scan ends: damage is found here.

use super::reading::Reading;
use super::scan::ScanEnd;
use super::verify::Verification;
use super::{Damaged, LogReader, State, Step};
use crate::buffer::Slice;
use crate::interface::Notice;
use crate::pool::Pool;
use crate::scheme::log::Log;
use crate::tables::{Committed, Tables, UnlinkedRecords};
use crate::units::{Epoch, Pbn};
use std::collections::BTreeSet;

impl LogReader {
    /// Ends the scan. Verification of what may not have been flushed comes next.
    pub(super) fn scan_is_over(&mut self, pool: &mut Pool, reading: Reading) -> Step {
        let Reading { scan, live, units, .. } = reading;
        let ended = scan.end();
        if let Some(found) = damage_of(&ended) {
            pool.io.notice(found);
            return Err(adopt_damaged(&mut pool.tables, ended, live));
        }
        let is_beyond = |&(sequence, (pbn, _)): &(u64, (Pbn, Slice))| sequence > ended.flushed && ended.place_of(sequence) == Some(pbn);
        let units = units.into_iter().filter(is_beyond).map(|(_, unit)| unit).collect();
        self.state = State::Verifying(Verification::new(ended, live, units));
        self.read_log(pool)
    }
}

/// Makes the records up to the hole live, so that they can prove content. An epoch may continue in a compacted unit that is missing;
/// and a unit that names blocks that the volume does not have, or a block twice, cannot be believed.
fn adopt_damaged(tables: &mut Tables, mut ended: ScanEnd, mut live: UnlinkedRecords) -> Damaged {
    let mut last = ended.epoch;
    if ended.missing_compacted.is_some() || ended.outside.is_some() || ended.block_used_twice().is_some() {
        (live, last) = (UnlinkedRecords::default(), Epoch(0));
    }
    if last > Epoch(0) {
        ended.replay(&BTreeSet::new(), &mut |epoch, effect| live.push(epoch, effect));
    }
    tables.keep_records(Committed::new(live.chained(), last, last));
    Damaged { last, log: Some(Box::new(Log::new(ended.end + 1))) }
}

fn damage_of(ended: &ScanEnd) -> Option<Notice> {
    let damage = |what, at| Notice::Damage { what, at };
    let found = [
        ended.missing_compacted.map(|pbn| damage("a compacted unit of the log is not there", pbn.0)),
        ended.missing.map(|unit| damage("a unit of the log that was flushed is not there", unit)),
        ended.outside.map(|unit| damage("a unit of the log names what the volume does not have", unit)),
        ended.block_used_twice().map(|pbn| damage("a block is two places of the log", pbn.0)),
    ];
    found.into_iter().flatten().next()
}

impl ScanEnd {
    /// A block that the log uses twice: as a unit, a compacted unit, or a coming place. It would be written, and freed, twice.
    pub fn block_used_twice(&self) -> Option<Pbn> {
        let mut seen = BTreeSet::new();
        let units = self.units.iter().map(|unit| unit.pbn);
        units.chain(self.compacted.iter().copied()).chain(self.next_places.iter().copied()).find(|&pbn| !seen.insert(pbn))
    }
}
