//! Where the log ends becomes durable: what counts and may not have been flushed is written again, and, after a crash, a unit closes the
//! log.

use super::reading::Contents;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::record::Record;
use crate::format::unit::UnitWriter;
use crate::io::FlushFor;
use crate::scheme::log::Log;
use crate::scheme::log::write::write_units;
use crate::space::Fresh;
use crate::store::Store;
use crate::units::Epoch;

/// What is left to be done when a log was read.
#[derive(Default)]
pub(crate) struct Settling {
    /// What the first unit has to say, if one is needed.
    closing: Option<Record>,
    /// The log was closed after a crash before, and nothing counts behind.
    pub is_closed: bool,
    /// What was found and counts, though nobody knows that it was flushed: to be written again.
    again: Contents,
    /// Blocks of that, or of the closing unit, that are not written yet.
    blocks_left: usize,
    /// The places are chosen.
    pub is_ready: bool,
    /// Where the log ends is durable.
    pub is_settled: bool,
}

impl Settling {
    pub fn new(closing: Option<Record>, is_closed: bool, again: Contents) -> Self {
        Self { closing, is_closed, again, ..Self::default() }
    }

    /// An opening that may not write reads from memory what another would write again.
    pub fn keep(&mut self, store: &mut Store) {
        for (pbn, content) in std::mem::take(&mut self.again) {
            let fresh = Fresh { kind: Kind::None, fingerprint: FingerprintEntry::NONE.value, epoch: 0, held: Some(content), waits: false };
            store.space.fresh.insert(pbn, fresh);
        }
    }

    /// The superblock says that the volume is open: what was found behind the last unit known to be flushed is written again, and then the
    /// first unit may follow. Whether all of that is done.
    pub fn go_on(&mut self, store: &mut Store, log: Option<&mut Log>) -> bool {
        let again = std::mem::take(&mut self.again);
        if !again.is_empty() {
            self.blocks_left = again.len();
            write_units(store, again, false);
            return false;
        }
        // All that counts is flushed: the closing unit may say so.
        let (Some(closing), Some(log)) = (self.closing.take(), log) else {
            self.is_settled = true;
            return true;
        };
        self.blocks_left = 1;
        let number = store.tables.open.number;
        store.tables.open.number = Epoch(number.0 + 1);
        let mut writer = UnitWriter::new(log.places_behind(0, false));
        let rest = writer.push(closing);
        assert!(rest.is_none(), "the new blocks of a small epoch fit a unit");
        let (pbn, block, _) = log.next_unit(store, writer, number, (0, 1), true);
        log.is_cut_off = log.places.is_empty();
        store.tables.committed().epoch = number;
        write_units(store, vec![(pbn, block)], false);
        false
    }

    /// Some of it is on the device; when all is, that is flushed.
    pub fn units_written(&mut self, store: &mut Store, units: usize) {
        if self.blocks_left > 0 {
            self.blocks_left -= units;
            if self.blocks_left == 0 {
                store.io.flush(FlushFor::OpeningUnits);
            }
        }
    }
}
