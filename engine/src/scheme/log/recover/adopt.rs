//! The scanned log becomes the log of the volume.

use super::log_end::LogEnd;
use super::log_read::LogRead;
use super::reading::Contents;
use super::scan::{ScanEnd, ScannedUnit};
use super::verify::Verification;
use crate::map::Map;
use crate::pool::Pool;
use crate::scheme::log::copies::Segments;
use crate::scheme::log::{Log, LogUnit};
use crate::space::SchemeBlock;
use crate::tables::{Committed, UnlinkedRecords};
use crate::units::{Epoch, Pbn};
use std::collections::BTreeSet;

impl Verification {
    /// Adopts the log after verification: what the scan found, without what was lost.
    pub fn adopt(self, pool: &mut Pool, read: LogRead) -> (Box<Log>, LogEnd) {
        let Self { ended, live, units, right: mut to_rewrite, wrong, .. } = self;
        to_rewrite.extend(units);
        adopt(pool, ended, live, &wrong, to_rewrite, Some(read))
    }
}

/// Adopts the scanned log, without records that name `wrong` blocks. `to_rewrite`: blocks that count, though they may not have been
/// flushed. `read`: the part that was read; none if the log was closed.
pub(super) fn adopt(
    pool: &mut Pool,
    mut ended: ScanEnd,
    mut live: UnlinkedRecords,
    wrong: &BTreeSet<Pbn>,
    to_rewrite: Contents,
    read: Option<LogRead>,
) -> (Box<Log>, LogEnd) {
    let mut log = Log::new(ended.end + 1);
    ended.replay(wrong, &mut |epoch, effect| live.push(epoch, effect));
    let mut live = live.chained();
    log.has_overflowed = read.is_some_and(|read| read.overflowed > 0);
    let (since, before) =
        pool.medium.superblock.log_tail.as_ref().map_or((0, Epoch(0)), |log_tail| (log_tail.compacted.since, log_tail.epoch));
    live.compacted_upto(before);
    log.units = ended.units.iter().map(|&ScannedUnit { pbn, incarnation, epoch, .. }| LogUnit { pbn, incarnation, epoch }).collect();
    log.segments = Segments::read(since, ended.compacted.clone());
    log.places = ended.next_places.iter().copied().collect();
    let used = |unit: &ScannedUnit| (unit.pbn, if unit.is_carrier { SchemeBlock::Carrier } else { SchemeBlock::Plain });
    let mut blocks: Map<Pbn, SchemeBlock> = ended.units.iter().map(used).collect();
    blocks.extend(ended.compacted.iter().chain(&ended.next_places).map(|&pbn| (pbn, SchemeBlock::Plain)));
    pool.space.adopt_scheme_blocks(blocks);
    // A log without records needs this too: its next place may hold no unit now, and one the next time. Where no place is named there
    // is no next one.
    log.is_cut_off = ended.next_places.is_empty();
    let needs_closing = read.is_some() && !ended.is_closed() && !log.is_cut_off;
    let confirmed = if needs_closing { ended.epoch } else { ended.confirmed };
    pool.tables.keep_records(Committed::new(live, ended.epoch, confirmed));
    let closing = needs_closing.then(|| ended.closing(wrong));
    let end = LogEnd::new(closing, ended.is_closed(), to_rewrite, read.unwrap_or_default());
    let last = pool.medium.epoch_is_durable(ended.epoch_seen);
    pool.tables.open_after(last);
    (Box::new(log), end)
}
