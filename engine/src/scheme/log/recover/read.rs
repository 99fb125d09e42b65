//! The walk is read: its end is found, and what may be wrong with it.

use super::doubts::Doubting;
use super::reading::Reading;
use super::walk::Ended;
use super::{Opened, Opening, State};
use crate::buffer::Slice;
use crate::interface::Notice;
use crate::store::Store;
use crate::units::Pbn;
use std::collections::BTreeSet;

impl Opening {
    /// The walk is read: what of it may not have been flushed comes next.
    pub(super) fn walk_is_read(&mut self, store: &mut Store, reading: Reading) -> Opened {
        let Reading { walk, live, units, .. } = reading;
        let ended = walk.end();
        if let Some(found) = damage_of(&ended) {
            store.io.notice(found);
            return Err(self.adopt_damaged(store, ended, live));
        }
        let is_beyond = |&(sequence, (pbn, _)): &(u64, (Pbn, Slice))| sequence > ended.flushed && ended.place_of(sequence) == Some(pbn);
        let units = units.into_iter().filter(is_beyond).map(|(_, unit)| unit).collect();
        self.state = State::Doubting(Doubting::new(ended, live, units));
        self.go_on(store)
    }
}

fn damage_of(ended: &Ended) -> Option<Notice> {
    let damage = |what, at| Notice::Damage { what, at };
    let found = [
        ended.condensed_missing.map(|pbn| damage("a condensed unit of the log is not there", pbn.0)),
        ended.missing.map(|unit| damage("a unit of the log that was flushed is not there", unit)),
        ended.outside.map(|unit| damage("a unit of the log names what the volume does not have", unit)),
        ended.twice().map(|pbn| damage("a block is two places of the log", pbn.0)),
    ];
    found.into_iter().flatten().next()
}

impl Ended {
    /// A block that is two of the log's: units, condensed ones, places of coming ones. It would be written, and given up, twice.
    pub fn twice(&self) -> Option<Pbn> {
        let mut seen = BTreeSet::new();
        let units = self.units.iter().map(|unit| unit.pbn);
        units.chain(self.condensed.iter().copied()).chain(self.come.iter().copied()).find(|&pbn| !seen.insert(pbn))
    }
}
