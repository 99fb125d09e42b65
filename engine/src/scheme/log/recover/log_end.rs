//! Makes the end of the log durable: blocks that count and may not have been flushed are written again, and, after a crash, a unit closes
//! the log.

use super::log_read::{LogRead, records_in_memory};
use super::reading::Contents;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::record::Record;
use crate::format::unit::UnitWriter;
use crate::interface::Progress;
use crate::io::{FlushFor, Io};
use crate::pool::Pool;
use crate::scheme::log::Log;
use crate::scheme::log::write::write_units;
use crate::space::{PendingBlock, Space};
use crate::tables::Tables;

/// The work that is left when a log was read.
#[derive(Default)]
pub(crate) struct LogEnd {
    /// The record of the first unit, if one is needed.
    closing: Option<Record>,
    /// An earlier opening closed the log after a crash, and nothing counts behind that.
    pub is_closed: bool,
    /// Blocks that count, and may not have been flushed: they are written again.
    to_rewrite: Contents,
    /// The number of blocks of these, or of the closing unit, that are not written yet.
    blocks_left: usize,
    read: LogRead,
}

impl LogEnd {
    pub fn new(closing: Option<Record>, is_closed: bool, to_rewrite: Contents, read: LogRead) -> Self {
        Self { closing, is_closed, to_rewrite, blocks_left: 0, read }
    }

    /// Keeps in memory what another opening would write again, for reads of an opening that may not write.
    pub fn keep(&mut self, space: &mut Space) {
        for (pbn, content) in std::mem::take(&mut self.to_rewrite) {
            let pending = PendingBlock {
                kind: Kind::None,
                fingerprint: FingerprintEntry::NONE.value,
                epoch: 0,
                content: Some(content),
                waits: false,
            };
            space.pending.insert(pbn, pending);
        }
    }

    /// Continues once the superblock records that the volume is open: writes the blocks again, and then the closing unit. Returns whether
    /// all of that is done.
    pub fn write(&mut self, pool: &mut Pool, log: Option<&mut Log>) -> bool {
        let to_rewrite = std::mem::take(&mut self.to_rewrite);
        if !to_rewrite.is_empty() {
            self.blocks_left = to_rewrite.len();
            write_units(pool, to_rewrite, false);
            return false;
        }
        // All that counts is flushed: the closing unit may confirm it.
        let (Some(closing), Some(log)) = (self.closing.take(), log) else { return true };
        self.blocks_left = 1;
        let number = pool.tables.take_number();
        let mut writer = UnitWriter::new(log.places_behind(0, false));
        let rest = writer.push(closing);
        assert!(rest.is_none(), "the new blocks of a small epoch fit a unit");
        let (pbn, block, _) = log.next_unit(pool, writer, number, (0, 1), true);
        log.is_cut_off = log.places.is_empty();
        pool.tables.committed().epoch = number;
        write_units(pool, vec![(pbn, block)], false);
        false
    }

    /// Counts blocks that are on the device, and flushes when all are.
    pub fn units_written(&mut self, io: &mut Io, units: usize) {
        if self.blocks_left > 0 {
            self.blocks_left -= units;
            if self.blocks_left == 0 {
                io.flush(FlushFor::OpeningUnits);
            }
        }
    }

    /// The progress of the opening: everything was read.
    pub fn progress(&self, tables: &Tables) -> Option<Progress> {
        self.read.progress(self.read.units, records_in_memory(tables))
    }
}
