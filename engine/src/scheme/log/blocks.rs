//! The blocks that are the log's: places of coming units, units of the walk, and those that the older pair of superblock copies still
//! needs.

use super::Log;
use crate::space::{Space, Use};
use crate::stats::LogBlocks;
use crate::store::Store;
use crate::units::{Pbn, count};

impl Log {
    /// Those that are nobody else's. Carriers are clients' too.
    pub fn blocks_kept(&self, space: &Space) -> LogBlocks {
        let places = self.places.len() + self.segments.reserve.len();
        let all = space.of_scheme.values().filter(|is| **is == Use::Plain).count();
        let (walk, condensed) = (self.walk.len(), self.segments.places.len());
        LogBlocks { plain: count(all - places), places: count(places), walk: count(walk), condensed: count(condensed) }
    }
}

impl Log {
    /// The log needs a block no more, nor does anything that it knows of.
    pub(super) fn leaves_log(store: &mut Store, pbn: Pbn) {
        if store.space.leaves_scheme(pbn) {
            store.settle.look_at(pbn);
        }
    }
}

impl Log {
    /// All of its units are flushed, those too that an opening has found or written.
    pub fn is_flushed(&mut self, store: &mut Store) {
        self.flushed = self.next - 1;
        let epoch = store.tables.committed().epoch;
        store.medium.superblock.last_epoch = store.medium.superblock.last_epoch.max(epoch);
    }
}
