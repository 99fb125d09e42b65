//! Reads of carriers for the work out of line: only a carrier has the fingerprints of its slots.
//!
//! 1. A block is pinned while it is read (R7), so what arrives belongs to the entry that asked for it.
//! 2. Nothing of a block is believed but what the volume made for that place and the entry names.

use super::OutOfLine;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::unit;
use crate::interface::Class;
use crate::io::{Arrived, IoFor};
use crate::schedule::Task;
use crate::store::Store;
use crate::units::Pbn;

/// Reads under way at once.
pub(super) const READS_AT_ONCE: usize = 8;

impl OutOfLine {
    /// Reads carriers whose entries are in memory, and waits for them.
    pub(super) fn read_carriers(&mut self, store: &mut Store, carriers: impl IntoIterator<Item = Pbn>) {
        for pbn in carriers {
            let Ok(FingerprintEntry { kind: Kind::Carrier, value }) = store.settled_entry(pbn) else { continue };
            store.space.pin(pbn);
            let at = store.geometry.block_at(pbn);
            store.io.read(IoFor::ReadForOutOfLine { pbn, value }, at, 1, false, Class::Data);
            self.reading += 1;
        }
        if self.reading > 0 {
            self.pause_after_reads(store, self.reading);
        } else {
            store.io.schedule.more_background = true;
        }
    }

    /// Notes the slots of a carrier that has been read; none if it is not the one that its entry names by `value`.
    pub fn carrier_arrived(&mut self, store: &mut Store, pbn: Pbn, value: Fingerprint, arrived: &Arrived) {
        let block = arrived.buffer.block(0);
        let is_right = arrived.result.is_ok() && store.authentic(pbn, block) == Some(value);
        self.known.add(pbn, value, if is_right { unit::fingerprints(block) } else { Vec::new() });
        store.space.unpin(pbn);
        self.reading -= 1;
        if self.reading == 0 {
            store.io.schedule.push(Task::OutOfLine);
        }
    }
}
