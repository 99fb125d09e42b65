//! The blocks that have to be read for one page of fingerprints, so that the index is complete.

use crate::format::Geometry;
use crate::units::{Pbn, Time};

/// The most blocks without a fingerprint in one read.
const RUN_BLOCKS_MAX: u64 = 16;

/// The blocks that have to be read for one page of fingerprints.
#[derive(Default)]
pub(crate) struct PendingReads {
    /// Blocks that are still to be read, the newest at the end.
    pub carriers: Vec<Pbn>,
    pub unnamed: Vec<Pbn>,
    /// Reads under way, and the time of the next ones.
    pub reading: u64,
    pub pause: Option<Time>,
}

impl PendingReads {
    /// Takes the blocks of a page. Both lists ascend.
    pub fn ask(&mut self, carriers: Vec<Pbn>, unnamed: Vec<Pbn>) {
        (self.carriers, self.unnamed) = (carriers, unnamed);
    }

    /// The reads that are under way, and no others.
    pub fn of_those_under_way(&self) -> Self {
        Self { reading: self.reading, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.carriers.is_empty() && self.unnamed.is_empty()
    }

    pub fn is_under_way(&self) -> bool {
        !self.is_empty() || self.reading > 0
    }

    /// Takes the newest run of neighbours among the blocks without a fingerprint.
    pub fn take_run(&mut self, geometry: &Geometry) -> Option<(Pbn, u64)> {
        let mut first = self.unnamed.pop()?;
        let mut blocks = 1;
        while let Some(&before) = self.unnamed.last() {
            if blocks == RUN_BLOCKS_MAX || !geometry.are_neighbours(before, first) {
                break;
            }
            self.unnamed.pop();
            first = before;
            blocks += 1;
        }
        Some((first, blocks))
    }

    /// Notes that this number of reads is under way.
    pub fn are_asked(&mut self, reads: u64) {
        self.reading = reads;
    }

    /// Takes the end of a read. Returns whether it was the last one.
    pub fn one_ended(&mut self) -> bool {
        self.reading -= 1;
        self.reading == 0
    }

    /// Lets the next reads wait until then.
    pub fn go_on_at(&mut self, at: Time) {
        self.pause = Some(at);
    }

    /// Lets the next reads wait no longer.
    pub fn go_on_at_once(&mut self) {
        self.pause = None;
    }
}
