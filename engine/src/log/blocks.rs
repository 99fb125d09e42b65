//! The blocks that are the log's: places of coming units, units of the walk, and those that the older pair of superblock copies still needs.
//!
//! 1. Nobody else may have them, whatever their count (L8). A plain unit's count is 0; a carrier's is that of its slots' links and of its entry.
//! 2. When the log needs a plain unit's block no more, it is free. A carrier's is ordinary data then, or free where nothing is left of it: its
//!    count says so, for which its refs page has to come first.

use super::Log;
use crate::engine::Engine;
use crate::stats::LogBlocks;
use crate::units::{Pbn, count};

/// What a block is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A place, or a unit without slots.
    Plain,
    Carrier,
    /// It was a carrier, and is let go of when its refs page has come.
    Leaving,
}

impl Log {
    /// Whether a block is one of the log's.
    pub fn has(&self, pbn: Pbn) -> bool {
        self.blocks.contains_key(&pbn)
    }

    /// Those that are nobody else's. Carriers are clients' too.
    pub fn blocks_kept(&self) -> LogBlocks {
        let places = self.places.len() + self.segments.reserve.len();
        let all = self.blocks.values().filter(|is| **is == Use::Plain).count();
        let (walk, condensed) = (self.walk.len(), self.segments.places.len());
        LogBlocks { plain: count(all - places), places: count(places), walk: count(walk), condensed: count(condensed) }
    }
}

impl Engine {
    pub(crate) fn is_of_log(&self, pbn: Pbn) -> bool {
        self.scheme.log.as_ref().is_some_and(|log| log.has(pbn))
    }

    /// A free block becomes the log's.
    pub(super) fn joins_log(&mut self, pbn: Pbn) {
        self.scheme.log.as_mut().expect("there is a log to join").blocks.insert(pbn, Use::Plain);
        self.space.of_log(self.geometry.refs_of(pbn).0.index, 0, true);
    }

    /// The log needs a block no more, nor does anything that it knows of.
    pub(super) fn leaves_log(&mut self, pbn: Pbn) {
        let log = self.scheme.log.as_mut().expect("there is a log to leave");
        match log.blocks.get_mut(&pbn).expect("only what is the log's leaves it") {
            Use::Plain => self.has_left_log(pbn, 0),
            carrier => {
                *carrier = Use::Leaving;
                self.scheme.settle.look_at(pbn);
            }
        }
    }

    /// The refs page of a block is in memory: if it waits to be let go of, it is.
    pub(crate) fn let_leave_log(&mut self, pbn: Pbn) {
        if self.scheme.log.as_ref().is_some_and(|log| log.blocks.get(&pbn) == Some(&Use::Leaving)) {
            let refs = self.tables.refs_now(pbn);
            self.has_left_log(pbn, refs);
        }
    }

    fn has_left_log(&mut self, pbn: Pbn, refs: u8) {
        self.scheme.log.as_mut().expect("it was the log's").blocks.remove(&pbn);
        self.space.of_log(self.geometry.refs_of(pbn).0.index, refs, false);
        if refs == 0 {
            self.freed(pbn);
        }
        self.space.no_longer_busy();
    }
}
